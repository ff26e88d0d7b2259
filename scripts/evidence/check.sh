#!/usr/bin/env bash
# scripts/evidence.sh --check: check.sh NIBBLE [--record] [TABLE…], from the project's directory.
set -euo pipefail
nibble=$1
shift
checks=()
if [[ ${1:-} == --record ]]; then
  shift
  checks=(docs/results/checks.md)
fi
tables=("$@")
if [[ ${#tables[@]} -eq 0 ]]; then
  for table in docs/results/evidence/*.md; do tables+=("$(basename "$table" .md)"); done
fi
mkdir -p build/evidence/check
# Of this very program, so that calibrations and the float model's states are its own.
cache=build/evidence/check/cache-$(sha256sum "$nibble" | cut -c1-12)
moved=0
for table in "${tables[@]}"; do
  printed=docs/results/evidence/$table.md
  [[ -e $printed ]] || { echo "there is no $printed" >&2; exit 2; }
  # "Made by `scripts/evidence.sh --model MODEL NAME`"
  name=$(sed -n 's/^Made by `scripts\/evidence.sh \(--model [^ ]* \)\?\([^`]*\)`.*/\2/p' "$printed")
  sweep=build/evidence/check/$table.yaml
  python3 scripts/evidence/check_tables.py cells "$printed" "scripts/evidence/$name.yaml" >"$sweep"
  lacking=$(scripts/evidence/lacking_files.sh "scripts/evidence/$name.yaml")
  if [[ -n $lacking ]]; then
    echo "$table: SKIPPED for want of $lacking"
    continue
  fi
  NIBBLE=$nibble scripts/evidence/changed_models.sh "$sweep"
  rm -rf "build/evidence/check/$table"
  "$nibble" sweep "$sweep" -o "build/evidence/check/$table" --cache "$cache" --cache-size 40G >"build/evidence/check/$table.log" || {
    echo "$table: the sweep failed (build/evidence/check/$table.log)"
    moved=1
    continue
  }
  python3 scripts/evidence/evidence_table.py "build/evidence/check/$table" "$sweep" >"build/evidence/check/$table.md"
  python3 scripts/evidence/check_tables.py compare "$printed" "build/evidence/check/$table.md" "${checks[@]}" || moved=1
done
exit "$moved"
