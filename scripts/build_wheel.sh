#!/usr/bin/env bash
# Builds the Python package's wheel into build/python/dist, in an environment of its own, and prints its path. Needs Python's
# headers and the packages of python/requirements-build.txt: where there are none, it says why on standard error and ends with 77.
# PYTHON chooses the interpreter. With ccache, what the C++ builds compiled is not compiled again.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
work=$PWD/build/python
cannot() { echo "$1" >&2; exit 77; }

"$python" -c 'import sys, sysconfig, pathlib
sys.exit(not (sys.version_info >= (3, 10) and pathlib.Path(sysconfig.get_path("include"), "Python.h").exists()))' 2>/dev/null ||
  cannot "no Python 3.10 or later with headers (python3-dev)"
mkdir -p "$work"
rm -rf "$work/build-env" "$work/dist"
"$python" -m venv "$work/build-env" >/dev/null 2>&1 || cannot "no venv module (python3-venv)"
"$work/build-env/bin/pip" install -q --no-compile --disable-pip-version-check -r python/requirements-build.txt 2>"$work/pip.log" ||
  cannot "packages cannot be installed ($(tail -1 "$work/pip.log"))"

if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS=pch_defines,time_macros  # as in CMakePresets.json: headers are precompiled
  export CC=${CC:-cc} CXX=${CXX:-c++}  # by the names that CMake chooses: the cache tells c++ from g++
fi
PATH="$work/build-env/bin:$PATH" "$work/build-env/bin/pip" wheel -q --disable-pip-version-check --no-build-isolation \
  --no-deps -w "$work/dist" . >&2
ls "$work"/dist/*.whl
