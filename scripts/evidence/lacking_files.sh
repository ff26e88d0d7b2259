#!/usr/bin/env bash
# Prints which texts of build/texts/ and models of build/ladder/ the sweep of evidence SWEEP.yaml names and are not there, and
# where they come from; nothing if all are. From the repository's directory: scripts/evidence/lacking_files.sh SWEEP.yaml
set -euo pipefail
lacking=()
while read -r file; do
  [[ -e $file ]] || lacking+=("$file")
done < <(grep -v '^#' "$1" | grep -Eo 'build/(texts|ladder)/[^,}]*' | sort -u)
[[ ${#lacking[@]} -eq 0 ]] || echo "${lacking[*]} (the top of $1 says where they come from)"
