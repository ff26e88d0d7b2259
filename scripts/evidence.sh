#!/usr/bin/env bash
# Makes the tables of docs/results/evidence/ anew: runs the sweeps of scripts/evidence/ (calibration, quantizing, KL divergence on
# validation and test text) and writes a table of each. A run that was interrupted goes on with the same command.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/evidence.sh [NAME…]          (default: all of scripts/evidence/*.yaml)

Needs ../shared (models and texts) and build/release/cli/nibble, or NIBBLE=PROGRAM. Records go to build/evidence/NAME, tables to
docs/results/evidence/NAME.md (OUT=DIRECTORY: elsewhere). Cells that are there stay: to make a table with another version of the
program, remove build/evidence/NAME first.
TEXT
}

cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:-} in --help | -h) usage; exit 0 ;; esac
nibble=${NIBBLE:-build/release/cli/nibble}
out=${OUT:-docs/results/evidence}
[[ -x $nibble ]] || { echo "build first: cmake --preset release && cmake --build --preset release --target nibble_cli" >&2; exit 1; }
names=("$@")
if [[ ${#names[@]} -eq 0 ]]; then
  for sweep in scripts/evidence/*.yaml; do names+=("$(basename "$sweep" .yaml)"); done
fi
for name in "${names[@]}"; do
  [[ -e scripts/evidence/$name.yaml ]] || { echo "there is no scripts/evidence/$name.yaml" >&2; usage >&2; exit 2; }
done
mkdir -p "$out"
for name in "${names[@]}"; do
  # 4: some cells failed; the table says how many.
  "$nibble" sweep "scripts/evidence/$name.yaml" -o "build/evidence/$name" --cache build/evidence/cache --cache-size 40G || [[ $? -eq 4 ]]
  python3 scripts/evidence_table.py "build/evidence/$name" "scripts/evidence/$name.yaml" >"build/evidence/$name.md"
  mv "build/evidence/$name.md" "$out/$name.md"
done
