#!/usr/bin/env bash
# Builds the wheel (scripts/build_wheel.sh), installs it into a clean environment, runs tests/python on what is installed, and
# the notebooks. SKIPPED where the wheel cannot be built. PYTHON chooses the interpreter, TEST_PYTHON another one to install
# into: a wheel built with 3.12 serves every later one.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD work=$PWD/build/python
mkdir -p "$work"
wheel=$(scripts/build_wheel.sh 2>"$work.log") || {
  [[ $? == 77 ]] && { echo "SKIPPED: Python package: $(tail -1 "$work.log")"; exit 0; }
  cat "$work.log" >&2
  exit 1
}
rm -rf "$work/test-env"
"${TEST_PYTHON:-${PYTHON:-python3}}" -m venv "$work/test-env"
"$work/test-env/bin/pip" install -q --no-compile --disable-pip-version-check "$wheel" -r python/requirements-test.txt
cd "$work"  # away from the sources: what is tested is what was installed
export NIBBLE_ROOT=$root
"$work/test-env/bin/python" -m pytest -c "$root/pyproject.toml" --rootdir "$root" -p no:cacheprovider "$root/tests/python"
"$work/test-env/bin/python" "$root/scripts/run_notebook.py" "$root"/docs/notebooks/*.ipynb --out "$work/notebooks"
