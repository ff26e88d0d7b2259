#!/usr/bin/env bash
# Prints what texts of build/texts/ the sweep of evidence SWEEP.yaml names and are not there, and where they come from; nothing if
# all are. From the repository's directory: scripts/evidence/lacking_texts.sh SWEEP.yaml
set -euo pipefail
lacking=()
while read -r text; do
  [[ -e $text ]] || lacking+=("$text")
done < <(grep -o 'build/texts/[^,]*' "$1" | sort -u)
[[ ${#lacking[@]} -eq 0 ]] || echo "${lacking[*]} (the top of $1 says where they come from)"
