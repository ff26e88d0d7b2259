#!/usr/bin/env bash
# Builds the wheel in an environment of its own, installs it into a clean one, runs tests/python on what is installed, and
# the notebooks. Needs Python's headers and packages of python/requirements-*.txt: where there are none, it says SKIPPED.
# PYTHON chooses the interpreter. With ccache, what the C++ builds compiled is not compiled again.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
work=$PWD/build/python
skip() { echo "SKIPPED: Python package: $1"; exit 0; }

"$python" -c 'import sys, sysconfig, pathlib
sys.exit(not (sys.version_info >= (3, 9) and pathlib.Path(sysconfig.get_path("include"), "Python.h").exists()))' 2>/dev/null ||
  skip "no Python 3.9 or later with headers (python3-dev)"
rm -rf "$work/build-env" "$work/test-env" "$work/dist"
"$python" -m venv "$work/build-env" 2>/dev/null && "$python" -m venv "$work/test-env" 2>/dev/null ||
  skip "no venv module (python3-venv)"
"$work/build-env/bin/pip" install -q --disable-pip-version-check -r python/requirements-build.txt 2>"$work/pip.log" ||
  skip "packages cannot be installed ($(tail -1 "$work/pip.log"))"

if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
fi
PATH="$work/build-env/bin:$PATH" "$work/build-env/bin/pip" wheel -q --disable-pip-version-check --no-build-isolation \
  --no-deps -w "$work/dist" .

"$work/test-env/bin/pip" install -q --disable-pip-version-check "$work"/dist/*.whl -r python/requirements-test.txt
cd "$work"  # away from the sources: what is tested is what was installed
NIBBLE_ROOT=$OLDPWD "$work/test-env/bin/python" -m pytest -c "$OLDPWD/pyproject.toml" --rootdir "$OLDPWD" \
  -p no:cacheprovider "$OLDPWD/tests/python"
NIBBLE_ROOT=$OLDPWD "$work/test-env/bin/python" "$OLDPWD/scripts/run_notebook.py" "$OLDPWD"/docs/notebooks/*.ipynb --out "$work/notebooks"
