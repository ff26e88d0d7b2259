#!/usr/bin/env bash
# Kills (-9) calibrate, quantize, export and a sweep at random moments, gives each the same command again until it gets to its
# end, and compares what it wrote, byte by byte, with what an undisturbed run wrote. Goes on until KILLS processes were killed.
# Usage: scripts/torment.sh [KILLS=40] [MODEL=datasets/demo/gpt2-demo] [SWEEP=datasets/demo/sweep.yaml]
# NIBBLE names another program, TORMENT another directory to work in, SEED repeats the moments (as far as a machine can).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kills_wanted=${1:-40} model=${2:-datasets/demo/gpt2-demo} sweep=${3:-datasets/demo/sweep.yaml}
nibble=${NIBBLE:-build/release/cli/nibble} directory=${TORMENT:-build/torment}
RANDOM=${SEED:-$$}
echo "torment: SEED=${SEED:-$$}"
rm -rf "$directory"
mkdir -p "$directory/whole"
kills=0

# run COMMAND OUT: one command of the program, into OUT; later ones read what the undisturbed run of earlier ones wrote.
run() {
  local calib=$directory/whole/calibrate quantized=$directory/whole/quantize
  case $1 in
    calibrate)
      "$nibble" calibrate "$model" --text datasets/demo/calibration.txt --samples 16 --length 128 --collect \
        activations,fisher,hessian,guided-hessian -o "$2" --quiet ;;
    quantize) "$nibble" quantize "$model" --preset scalar --calib "$calib" -o "$2" --quiet ;;
    export) "$nibble" export "$quantized" -o "$2" --quiet ;;
    sweep) "$nibble" sweep "$sweep" -o "$2" --quiet ;;
  esac
}

# same COMMAND A B: what must not differ. Times differ: quantization.json holds seconds, records end with their timings.
same() {
  python3 - "$@" <<'PYTHON'
import json, pathlib, re, sys
command, *places = sys.argv[1:]
def contents(place):
    place = pathlib.Path(place)
    if place.is_file():
        return {"": place.read_bytes()}
    found = {}
    for path in sorted(place.glob("*")):
        if path.is_dir():
            continue
        data = path.read_bytes()
        if command == "sweep" and path.suffix == ".json":
            data = data[:data.index(b'\n "timings":')]
        if path.name == "quantization.json":
            data = re.sub(rb'"seconds":\s*[-+.eE0-9]+', b'"seconds":0', data)
        found[path.name] = data
    return found
one, other = map(contents, places)
for name in sorted(one.keys() | other.keys()):
    if one.get(name) != other.get(name):
        sys.exit(f"torment: {command}: '{name}' differs between {places[0]} and {places[1]}")
left = list(pathlib.Path(places[1]).parent.glob("*.partial"))
if left:
    sys.exit(f"torment: {command}: {left} were left behind")
PYTHON
}

declare -A milliseconds
for command in calibrate quantize export sweep; do
  start=$(date +%s%N)
  run "$command" "$directory/whole/$command" >/dev/null
  milliseconds[$command]=$((($(date +%s%N) - start) / 1000000))
  echo "torment: $command takes ${milliseconds[$command]} ms undisturbed"
done

round=0
while ((kills < kills_wanted)); do
  round=$((round + 1))
  for command in calibrate quantize export sweep; do
    out=$directory/killed/$command
    rm -rf "$directory/killed"
    mkdir -p "$directory/killed"
    for ((attempt = 0; ; attempt++)); do
      run "$command" "$out" >"$directory/log" 2>&1 &
      process=$!
      # Any moment of an undisturbed run; later attempts find work done and are given longer, so that there is an end.
      sleep "$(awk -v r=$RANDOM -v t="${milliseconds[$command]}" -v a="$attempt" \
        'BEGIN { printf "%.3f", r / 32768 * t * (1 + a / 4) / 1000 }')"
      # run() is a subshell: its child is the program.
      if pkill -9 -P "$process" 2>/dev/null; then kills=$((kills + 1)); fi
      if wait "$process" 2>/dev/null; then break; fi
      if grep -q "exists; choose another" "$directory/log"; then break; fi  # killed between its last step and its exit
      if ((attempt < 200)); then continue; fi
      cat "$directory/log" >&2
      echo "torment: $command does not come to an end" >&2
      exit 1
    done
    same "$command" "$directory/whole/$command" "$out"
  done
done
echo "torment: $kills kills in $round rounds; every output is the same to the byte, times aside"
