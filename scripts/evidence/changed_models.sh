#!/usr/bin/env bash
# Makes the checkpoints build/evidence/models/MODEL[-rescaled][-rotated] that a sweep of scripts/evidence/ names, from ../shared/models/MODEL, where
# they are not there yet, or another program, script or model made them: changed_models.sh SWEEP.yaml. Same logits: rescaled ones have outlier channels
# (scripts/rescale_channels.py), rotated ones another basis (nibble rotate).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/made_from.sh"
sweep=$1
nibble=${NIBBLE:-build/release/cli/nibble}
models=build/evidence/models
mkdir -p "$models"

make() {  # name of the model, of the changed one
  local from=../shared/models/$1 inputs=(../shared/models/"$1"/model.safetensors) made
  [[ $2 == *-rescaled* ]] && inputs+=(scripts/rescale_channels.py)
  [[ $2 == *-rotated ]] && inputs+=("$nibble")
  made=$(made_from "${inputs[@]}")
  is_made "$models/$2" "$made" && return
  case $2 in
    "$1-rescaled")
      rm -rf "${models:?}/$2" "$models/$2.partial"
      python3 scripts/rescale_channels.py "$from" "$models/$2.partial"
      mv "$models/$2.partial" "$models/$2"
      ;;
    "$1-rotated") "$nibble" rotate "$from" -o "$models/$2" --overwrite -q >/dev/null ;;
    "$1-rescaled-rotated")
      make "$1" "$1-rescaled"
      "$nibble" rotate "$models/$1-rescaled" -o "$models/$2" --overwrite -q >/dev/null
      ;;
    *) echo "$sweep: nobody makes $models/$2" >&2; exit 2 ;;
  esac
  note_made "$models/$2" "$made"
}

{ grep -o "$models/[^,}]*" "$sweep" || true; } | while read -r path; do
  name=${path##*/}
  plain=${name%-rotated}
  make "${plain%-rescaled}" "$name"
done
