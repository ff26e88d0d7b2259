#!/usr/bin/env bash
# What calibrate, perplexity and quantize keep of their share of the processors beside another busy process: each alone and beside
# `sha256sum /dev/zero`, in turn, medians of three rounds. With T threads on T processors and one process more, T / (T + 1) of
# the speed alone is the fair share. Wants a machine with nothing else to do. Results: docs/results/speed.md.
# Usage: tests/bench/fair_share.sh [MODEL TEXT]    (NIBBLE=PROGRAM for another than build/release/cli/nibble)
set -euo pipefail
export LC_ALL=C  # EPOCHREALTIME with a point
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
nibble=${NIBBLE:-build/release/cli/nibble}
model=${1:-../shared/models/llama-novels} text=${2:-../shared/data/novels/Conrad_Almayer_1895.txt}
threads=$(nproc)
work=$(mktemp -d "${TMPDIR:-/tmp}/nibble-fair-share-XXXXXX")
busy=
trap '[[ -z $busy ]] || kill "$busy"; rm -rf "$work"' EXIT

run() {
  case $1 in
    calibrate) "$nibble" calibrate "$model" --text "$text" --samples 16 -o "$work/calib.h5" --threads "$threads" -q ;;
    perplexity) "$nibble" perplexity "$model" --text "$text" --protocol blocks --context 512 --threads "$threads" -q ;;
    quantize) "$nibble" quantize "$model" --preset squeezellm --calib "$work/calib.h5" -o "$work/q" --overwrite --threads "$threads" -q ;;
  esac
}
seconds() {  # COMMAND: of wall time
  [[ $1 != calibrate ]] || rm -f "$work/calib.h5"
  local start=$EPOCHREALTIME
  run "$1" >/dev/null
  awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN {print b - a}'
}

for round in 1 2 3; do
  for command in calibrate perplexity quantize; do
    seconds "$command" >>"$work/$command.alone"
    sha256sum /dev/zero &
    busy=$!
    seconds "$command" >>"$work/$command.beside"
    kill "$busy"
    wait "$busy" 2>/dev/null || true
    busy=
  done
done
median() { sort -g "$1" | sed -n 2p; }
echo "$threads threads on as many processors: $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -1); medians of 3"
for command in calibrate perplexity quantize; do
  awk -v name="$command" -v a="$(median "$work/$command.alone")" -v b="$(median "$work/$command.beside")" -v t="$threads" \
    'BEGIN {printf "%-10s alone %6.2f s, beside a busy process %6.2f s: %.2f of its fair share\n", name, a, b, a / b * (t + 1) / t}'
done
