#!/usr/bin/env bash
# Kills (-9) calibrate, quantize (scalar, windowed, tuned), export and a sweep at random moments, gives each the same command
# again until it gets to its end, and compares what it wrote, byte by byte, with what an undisturbed run wrote. Goes on until
# KILLS processes were killed.
# Usage: scripts/torment.sh [KILLS=40] [MODEL=datasets/demo/gpt2-demo] [SWEEP=datasets/demo/sweep.yaml]
# NIBBLE names another program, TORMENT another directory to work in, COMMANDS some of them (calibrate and quantize come
# first: others read what they wrote), SEED repeats the moments (as far as a machine can).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kills_wanted=${1:-40} model=${2:-datasets/demo/gpt2-demo} sweep=${3:-datasets/demo/sweep.yaml}
nibble=${NIBBLE:-build/release/cli/nibble} directory=${TORMENT:-build/torment}
read -ra commands <<<"${COMMANDS:-calibrate quantize windowed tuned export sweep}"
RANDOM=${SEED:-$$}
echo "torment: SEED=${SEED:-$$}"
rm -rf "$directory"
mkdir -p "$directory/whole"
kills=0

source scripts/torment_commands.sh

declare -A milliseconds
for command in "${commands[@]}"; do
  start=$(date +%s%N)
  run "$command" "$(output "$command" "$directory/whole")" >/dev/null
  milliseconds[$command]=$((($(date +%s%N) - start) / 1000000))
  echo "torment: $command takes ${milliseconds[$command]} ms undisturbed"
done

round=0
declare -A killed
while ((kills < kills_wanted)); do
  round=$((round + 1))
  for command in "${commands[@]}"; do
    out=$(output "$command" "$directory/killed")
    rm -rf "$directory/killed"
    mkdir -p "$directory/killed"
    for ((attempt = 0; ; attempt++)); do
      # Any moment of an undisturbed run; later attempts find work done and are given longer, so that there is an end.
      draw=$RANDOM  # not in the subshell, which would draw by a seed of its own
      # Without --foreground it kills itself as well, and what it killed still has its lock while its memory is taken apart;
      # without --preserve-status it says 124 of what ended by itself just then.
      before=(timeout --foreground --preserve-status -s KILL "$(awk -v r=$draw -v t="${milliseconds[$command]}" -v a="$attempt" \
        'BEGIN { printf "%.3f", 0.001 + r / 32768 * t * (1 + a / 4) / 1000 }')")
      status=0
      run "$command" "$out" >"$directory/log" 2>&1 || status=$?
      # Not killed: it came to an end, or was killed between its last step and its exit before, and says so.
      if ((status == 0)) || grep -q "exists; choose another" "$directory/log"; then
        nothing_left "$command" "$out"
        break
      fi
      if ((status == 137)); then
        kills=$((kills + 1)) killed[$command]=$((${killed[$command]:-0} + 1))
        if ((attempt < 200)); then continue; fi
      fi
      cat "$directory/log" >&2
      echo "torment: $command $( ((status == 137)) && echo "does not come to an end" || echo "ended with $status by itself")" >&2
      exit 1
    done
    scripts/same_output.py "$command" "$(output "$command" "$directory/whole")" "$out"
  done
done
for command in "${commands[@]}"; do echo "torment: $command: ${killed[$command]:-0} kills"; done
echo "torment: $kills kills in $round rounds; every output is the same to the byte, times aside"
