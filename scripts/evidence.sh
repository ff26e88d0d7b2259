#!/usr/bin/env bash
# Makes the tables of docs/results/evidence/ anew: runs the sweeps of scripts/evidence/ (calibration, quantizing, KL divergence on
# validation and test text) and writes a table of each. A run that was interrupted goes on with the same command.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/evidence.sh [--model MODEL] [NAME…]          (default: all models, all of scripts/evidence/*.yaml)
       scripts/evidence.sh --check [TABLE…]                 (default: all of docs/results/evidence/*.md)

Needs ../shared (models and texts; for novels three more texts, see its top) and build/release/cli/nibble, or NIBBLE=PROGRAM. Records go to build/evidence/NAME, tables to
docs/results/evidence/NAME.md (OUT=DIRECTORY: elsewhere); those of one MODEL alone to NAME-MODEL.md. Cells that are there stay: to make a table with another version of the
program, remove build/evidence/NAME first.

--check says whether the tables that are there are what today's program gives: two cheap rows of each model and width run again, and
KL divergences further than a standard error from the printed ones are named (exit code 1).
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
skipped=0
for name in "${names[@]}"; do
  lacking=$(scripts/evidence/lacking_texts.sh "scripts/evidence/$name.yaml")
  if [[ -n $lacking ]]; then
    echo "evidence: $name is left out for want of $lacking" >&2
    skipped=1
    continue
  fi
  sweep=scripts/evidence/$name.yaml
  table=$name
  if [[ -n $model ]]; then
    table=$name-$model
    sed "/^  - {path: /{/name: $model}/!d}" "$sweep" >"build/evidence/$table.yaml"
    grep -q "name: $model}" "build/evidence/$table.yaml" || { echo "$sweep has no model '$model'" >&2; exit 2; }
    sweep=build/evidence/$table.yaml
  fi
  scripts/evidence/gguf_files.sh "$sweep"
  # 4: some cells failed; the table says how many.
  "$nibble" sweep "$sweep" -o "build/evidence/$table" --cache build/evidence/cache --cache-size 40G || [[ $? -eq 4 ]]
  python3 scripts/evidence_table.py "build/evidence/$table" "scripts/evidence/$name.yaml" >"build/evidence/$table.md"
  mv "build/evidence/$table.md" "$out/$table.md"
done
exit "$skipped"
