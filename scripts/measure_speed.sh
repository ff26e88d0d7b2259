#!/usr/bin/env bash
# Measures the tables of docs/results/speed.md again, on random models of the Llama-3.2-1B shape that it makes under
# WORK (default build/speed, 5.5 GB). Without arguments everything, some 15 minutes; or the parts named:
#   models                         make and quantize the models
#   decode-FORMAT-MODE             128 tokens behind a short prompt. FORMAT: int4, palette, int4-f16head,
#                                  palette-f16head; MODE: exact, bf16, int8
#   prompt-FORMAT-MODE             a prompt of 512
#   avx2-FORMAT-MODE               decode with NIBBLE_FORCE_ISA=avx2
#   contexts-TYPE                  int4, int8 mode, behind 128 to 2048 positions kept as TYPE: f32, f16, int8
#   ladder-RUNG-CONTEXT            RUNG: none, io, state (float16 weights), int4 (state, int4 blocks, int8 mode)
# Each part but models takes at most a minute on two cores; ladder-none-2048 two. THREADS (2), REPEAT (3).
set -euo pipefail
cd "$(dirname "$0")/.."
nibble=${NIBBLE:-build/release/cli/nibble}
work=${WORK:-build/speed}
threads=${THREADS:-2}
repeat=${REPEAT:-3}

quantized() {  # name, settings of the block linears, of the embedding that is the head too
  [ -d "$work/$1" ] && return
  printf 'defaults: {%s}\nlayers:\n  - {match: "embed_tokens", %s}\n' "$2" "$3" > "$work/$1.yaml"
  "$nibble" quantize "$work/1b" --recipe "$work/$1.yaml" -o "$work/$1"
}

models() {
  mkdir -p "$work"
  [ -d "$work/1b" ] || "$nibble" synthesize --like llama-3.2-1b --seed 1 -o "$work/1b"
  local int4='format: int4-block' palette='format: palette, bits: 4, granularity: channel'
  quantized int4 "$int4" "$int4"
  quantized palette "$palette" "$palette"
  quantized int4-f16head "$int4" 'format: float16'
  quantized palette-f16head "$palette" 'format: float16'
}

speed() { "$nibble" speed "$work/$1" --threads "$threads" --repeat "$repeat" "${@:2}"; }

ladder() {  # rung, context
  case $1 in
    none) repeat=1 speed 1b --cache none --context "$2" --generate 3 --warm-up 0 --skip-limits ;;
    io | state) repeat=1 speed 1b --cache "$1" --context "$2" --prompt "$(($2 / 2))" --generate 16 --warm-up 0 --skip-limits ;;
    int4) repeat=1 speed int4 --compute int8 --context "$2" --prompt "$(($2 / 2))" --generate 16 --warm-up 0 --skip-limits ;;
    *) echo "no rung '$1'; see the top of scripts/measure_speed.sh" >&2 && return 2 ;;
  esac
}

part() {
  local format=${1#*-}
  format=${format%-*}
  case $1 in
    models) models ;;
    decode-*) speed "$format" --compute "${1##*-}" --prompt 16 --generate 128 ;;
    prompt-*) speed "$format" --compute "${1##*-}" --prompt 512 --generate 1 ;;
    avx2-*) NIBBLE_FORCE_ISA=avx2 speed "$format" --compute "${1##*-}" --prompt 16 --generate 64 ;;
    contexts-*) repeat=1 speed int4 --compute int8 --context 128,512,2048 --generate 64 --warm-up 0 --skip-limits --cache-type "${1##*-}" ;;
    ladder-*) ladder "$format" "${1##*-}" ;;
    *) echo "no part '$1'; see the top of scripts/measure_speed.sh" >&2 && return 2 ;;
  esac
}

all() {
  echo models
  local format mode rung context
  for format in int4 palette; do
    for mode in exact int8; do echo "decode-$format-$mode" "decode-$format-f16head-$mode" "avx2-$format-$mode"; done
    for mode in exact bf16 int8; do echo "prompt-$format-$mode"; done
  done
  echo contexts-f32 contexts-f16 contexts-int8
  for rung in none io state int4; do for context in 128 512 2048; do echo "ladder-$rung-$context"; done; done
}

for name in ${*:-$(all)}; do
  echo "== $name"
  part "$name"
done
