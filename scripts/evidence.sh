#!/usr/bin/env bash
# Makes the tables of docs/results/evidence/ anew: runs the sweeps of scripts/evidence/ (calibration, quantizing, KL divergence on
# validation and test text) and writes a table of each. A run that was interrupted goes on with the same command.
set -euo pipefail

# One table of all models: these; the others are long, and have one for each.
together=" damping methods test guide novels gptq head head_drift blocks exports inputs_scaled uniform_scale rotation invariance drift mixed_tuned novels_drift test_drift ladder ladder_windows "

usage() {
  cat <<TEXT
Usage: scripts/evidence.sh [--model MODEL] [NAME…]          (default: all models, all of scripts/evidence/*.yaml)
       scripts/evidence.sh --check [--record] [TABLE…]      (default: all of docs/results/evidence/*.md)

Needs ../shared (models and texts; for novels three more texts and for ladder and ladder_windows three more models, see their tops) and build/release/cli/nibble, or NIBBLE=PROGRAM. Records go to build/evidence/NAME, tables to
docs/results/evidence/NAME.md (OUT=DIRECTORY: elsewhere), or NAME-MODEL.md, one for each model, of all but:${together% }. Cells that are there stay: to make a table with another version of the
program, remove build/evidence/NAME first.

--check says whether the tables that are there are what today's program gives: two cheap rows of each model and width, and of each model the best at one width, run again, and
KL divergences further than a standard error from the printed ones are named (exit code 1). --record writes what came out into
docs/results/checks.md, a line a table.
TEXT
}

cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:-} in --help | -h) usage; exit 0 ;; esac
nibble=${NIBBLE:-build/release/cli/nibble}
out=${OUT:-docs/results/evidence}
[[ -x $nibble ]] || { echo "build first: cmake --preset release && cmake --build --preset release --target nibble_cli" >&2; exit 1; }
if [[ ${1:-} == --check ]]; then
  shift
  exec scripts/evidence/check.sh "$nibble" "$@"
fi
model=
if [[ ${1:-} == --model ]]; then
  [[ $# -ge 2 ]] || { usage >&2; exit 2; }
  model=$2
  shift 2
fi
names=("$@")
if [[ ${#names[@]} -eq 0 ]]; then
  for sweep in scripts/evidence/*.yaml; do names+=("$(basename "$sweep" .yaml)"); done
fi
for name in "${names[@]}"; do
  [[ -e scripts/evidence/$name.yaml ]] || { echo "there is no scripts/evidence/$name.yaml" >&2; usage >&2; exit 2; }
done
mkdir -p "$out" build/evidence
# Cached calibrations do not know which program made them: each has a cache of its own. Those of others that are not in use can go.
cache=build/evidence/cache-$(sha256sum "$nibble" | cut -c1-12)

models_of() { sed -n 's/^  - {path: .*name: \([^ },]*\)}.*/\1/p' "scripts/evidence/$1.yaml"; }

make_table() {  # name, model or nothing
  local sweep=scripts/evidence/$1.yaml table=$1
  if [[ -n ${2:-} ]]; then
    table=$1-$2
    sed "/^  - {path: /{/name: $2}/!d}" "$sweep" >"build/evidence/$table.yaml"
    grep -q "name: $2}" "build/evidence/$table.yaml" || { echo "$sweep has no model '$2'" >&2; exit 2; }
    sweep=build/evidence/$table.yaml
  fi
  scripts/evidence/gguf_files.sh "$sweep"
  scripts/evidence/changed_models.sh "$sweep"
  # 4: some cells failed; the table says how many.
  "$nibble" sweep "$sweep" -o "build/evidence/$table" --cache "$cache" --cache-size 40G || [[ $? -eq 4 ]]
  python3 scripts/evidence/evidence_table.py "build/evidence/$table" "scripts/evidence/$1.yaml" >"build/evidence/$table.md"
  mv "build/evidence/$table.md" "$out/$table.md"
}

skipped=0
for name in "${names[@]}"; do
  lacking=$(scripts/evidence/lacking_files.sh "scripts/evidence/$name.yaml")
  if [[ -n $lacking ]]; then
    echo "evidence: $name is left out for want of $lacking" >&2
    skipped=1
  elif [[ -n $model ]]; then
    make_table "$name" "$model"
  elif [[ $together == *" $name "* ]]; then
    make_table "$name"
  else
    for each in $(models_of "$name"); do make_table "$name" "$each"; done
  fi
done
exit "$skipped"
