#!/usr/bin/env bash
# Makes sure that DIR is a virtual environment with the programs of requirements.txt, in those versions: tests/clients/setup.sh DIR
# Does nothing where it is one already; else installs what is missing (all of it: 2 minutes, 1.3 GB, network).
# Exit status 0: ready. 3: cannot be had here, and the last line on standard output says why.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[[ $# -eq 1 ]] || { echo "usage: setup.sh DIR" >&2; exit 2; }
environment=$1
cannot() { echo "$1"; exit 3; }

# prints the requirements that the environment does not meet, a line each; fails where there is no working Python in it
missing() {
  "$environment/bin/python" - "$here/requirements.txt" <<'PYTHON'
import importlib.metadata
import sys

for line in open(sys.argv[1], encoding="utf-8"):
    name, _, version = line.partition("#")[0].strip().partition("==")
    if name:
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = None
        if found != version:
            print(f"{name}=={version}")
PYTHON
}

if [[ -x $environment/bin/python ]]; then
  wanted=$(missing) || cannot "$environment has a Python that does not run: remove it, or name another directory"
  [[ -z $wanted && -e $environment/ready ]] && exit 0
fi

[[ $(uname -sm) == "Linux x86_64" ]] || cannot "the list of versions is for Linux on x86-64, this is $(uname -sm)"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || cannot "Python 3.11 or newer is needed"
python3 -c 'import ensurepip' 2>/dev/null || cannot "the Python module venv is missing (Debian: python3-venv)"
for tool in g++ readelf nm; do command -v "$tool" >/dev/null || cannot "$tool is missing"; done

# unset: an environment without compiled modules costs every later check many seconds of imports
unset PYTHONDONTWRITEBYTECODE
[[ -x $environment/bin/python ]] || python3 -m venv "$environment" || cannot "no virtual environment could be made in $environment"
log=$environment/install.log
rm -f "$environment/ready"
missing >"$environment/missing.txt"
echo "installing $(wc -l <"$environment/missing.txt") packages into $environment" >&2
if [[ -s $environment/missing.txt ]] && ! "$environment/bin/pip" install --no-deps --no-cache-dir --no-compile --disable-pip-version-check -r "$environment/missing.txt" >"$log" 2>&1; then
  cannot "pip could not install them: $(grep -E '^(ERROR|error)' "$log" | head -1 | cut -c1-160) (all of it: $log)"
fi
"$environment/bin/python" "$here/without_cuda.py" >>"$log" 2>&1 || cannot "torch does not run here: $(tail -1 "$log" | cut -c1-160)"
[[ -z $(missing) ]] || cannot "still missing after installation: $(missing | tr '\n' ' ')"
touch "$environment/ready"
