#!/usr/bin/env bash
# Measures the tables of docs/results/speed.md again: makes random models of the Llama-3.2-1B shape under build/speed,
# quantizes them to 4 bits with the head, and prints decode, prompt and cache-ladder tables. About 10 minutes, 5 GB of disk.
set -euo pipefail
cd "$(dirname "$0")/.."
nibble=build/release/cli/nibble
work=build/speed
mkdir -p "$work"

[ -d "$work/1b" ] || "$nibble" synthesize --like llama-3.2-1b --seed 1 -o "$work/1b"
quantized() {  # name, settings of the linears and of the head alike
  [ -d "$work/$1" ] && return
  printf 'defaults: {%s}\nlayers:\n  - {match: "embed_tokens", %s}\n' "$2" "$2" > "$work/$1.yaml"
  "$nibble" quantize "$work/1b" --recipe "$work/$1.yaml" -o "$work/$1"
}
quantized int4 'format: int4-block'
quantized palette 'format: palette, bits: 4, granularity: channel'

for model in int4 palette; do
  echo "== $model: prompt 512, 128 generated tokens"
  "$nibble" speed "$work/$model" --prompt 512 --generate 128 --repeat "${REPEAT:-5}"
done
echo "== AVX2: int4, 32 generated tokens"
NIBBLE_FORCE_ISA=avx2 "$nibble" speed "$work/int4" --prompt 16 --generate 32 --repeat 3

contexts=${CONTEXTS:-128,512,2048}
for rung in "1b none" "1b io" "1b state" "int4 state"; do
  read -r model cache <<< "$rung"
  echo "== ladder: $model, cache $cache"
  "$nibble" speed "$work/$model" --cache "$cache" --context "$contexts" --generate "$([ "$cache" = none ] && echo 3 || echo 16)" \
    --prompt 32 --repeat 1 --skip-limits
done
