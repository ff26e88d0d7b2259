#!/usr/bin/env bash
# Names the product's sources (.cc and .h; with an argument only names that end in it) that differ from main; on main itself,
# those that its last ten commits touched. `scripts/changed_sources.sh --all [ENDING]`: all of them; `--commits N [ENDING]`: those
# that the last N commits touched, the last touched first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folders=(core model datasets calib quant export eval cli)
all= commits=
case ${1:-} in
  --all) all=1; shift ;;
  --commits) commits=$2; shift 2 ;;
esac
ending=${1:-'(cc|h)'}
if [[ $all ]]; then
  names=$(git ls-files -- "${folders[@]}")
elif [[ $commits ]]; then
  touched=$(git log --max-count="$commits" --format= --name-only -- "${folders[@]}")
  awk '!seen[$0]++' <<<"$touched" | while read -r name; do [[ ! -f $name ]] || echo "$name"; done | grep -E "\.$ending\$" || true
  exit
else
  base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || true)
  if [[ -z $base || $base == "$(git rev-parse HEAD)" ]]; then base=$(git rev-list --max-count=11 HEAD | tail -n 1); fi
  names=$(git diff --name-only --diff-filter=d "$base" -- "${folders[@]}"
          git ls-files --others --exclude-standard -- "${folders[@]}")
fi
grep -E "\.$ending\$" <<<"$names" | sort -u || true
