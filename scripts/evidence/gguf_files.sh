#!/usr/bin/env bash
# Makes the files build/evidence/gguf/MODEL.TYPE.gguf that a sweep of scripts/evidence/ names as checkpoints, from its models, where
# they are not there yet, or another program, script or model made them: gguf_files.sh SWEEP.yaml. Installs Python's package `gguf` under build/evidence/, from the network.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/made_from.sh"
sweep=$1
nibble=${NIBBLE:-build/release/cli/nibble}
out=build/evidence/gguf
types=$(grep -o "$out/{model}\.[A-Z0-9_]*\.gguf" "$sweep" | sed 's/.*}\.//; s/\.gguf//' | sort -u || true)
[[ -n $types ]] || exit 0

environment=build/evidence/python
if ! "$environment/bin/python" -c "import gguf" 2>/dev/null; then
  python3 -m venv "$environment"
  "$environment/bin/pip" install -q "$(grep '^gguf==' tests/clients/requirements.txt)"
fi
mkdir -p "$out"
sed -n 's/^  - {path: \(.*\), name: \(.*\)}$/\1 \2/p' "$sweep" | while read -r path model; do
  script=scripts/evidence/requantize_gguf.py
  of_float=$(made_from "$nibble" "$path/model.safetensors") of_type=$(made_from "$nibble" "$path/model.safetensors" "$script")
  for type in $types; do
    is_made "$out/$model.$type.gguf" "$of_type" && continue
    if ! is_made "$out/$model.float.gguf" "$of_float"; then
      "$nibble" export "$path" --format gguf -o "$out/$model.float.gguf" --overwrite >/dev/null
      note_made "$out/$model.float.gguf" "$of_float"
    fi
    "$environment/bin/python" "$script" "$out/$model.float.gguf" "$type" "$out/$model.$type.gguf"
    note_made "$out/$model.$type.gguf" "$of_type"
  done
done
