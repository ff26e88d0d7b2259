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
# Of this very program, so that calibrations, the float model's states and cells are its own. Cells that tables have in common are
# run once, and a check that was interrupted goes on.
work=build/evidence/check/$(sha256sum "$nibble" | cut -c1-12)
mkdir -p "$work/cells"
ids_of() { "$nibble" sweep "$1" --dry-run --json | python3 -c 'import json, sys; print(*(cell["id"] for cell in json.load(sys.stdin)["cells"]))'; }
moved=0
for table in "${tables[@]}"; do
  printed=docs/results/evidence/$table.md
  [[ -e $printed ]] || { echo "there is no $printed" >&2; exit 2; }
  # "Made by `scripts/evidence.sh --model MODEL NAME`"
  name=$(sed -n 's/^Made by `scripts\/evidence.sh \(--model [^ ]* \)\?\([^`]*\)`.*/\2/p' "$printed")
  sweep=$work/$table.yaml records=$work/$table
  python3 scripts/evidence/check_tables.py cells "$printed" "scripts/evidence/$name.yaml" >"$sweep"
  lacking=$(scripts/evidence/lacking_files.sh "scripts/evidence/$name.yaml")
  if [[ -n $lacking ]]; then
    echo "$table: SKIPPED for want of $lacking"
    continue
  fi
  NIBBLE=$nibble scripts/evidence/changed_models.sh "$sweep"
  mkdir -p "$records"
  for id in $(ids_of "$sweep"); do
    [[ ! -e $work/cells/$id.json ]] || cp "$work/cells/$id.json" "$records/"
  done
  "$nibble" sweep "$sweep" -o "$records" --cache "$work/cache" --cache-size 40G >"$records.log" || {
    echo "$table: the sweep failed ($records.log)"
    moved=1
    continue
  }
  cp "$records"/*.json "$work/cells/"
  python3 scripts/evidence/evidence_table.py "$records" "$sweep" >"$records.md"
  python3 scripts/evidence/check_tables.py compare "$printed" "$records.md" "${checks[@]}" || moved=1
done
exit "$moved"
