#!/bin/bash
# Runs a sweep while killing it every few seconds, runs it again undisturbed, and compares the records, commands and timings aside.
# Usage: scripts/torment_sweep.sh SWEEP.yaml DIRECTORY [SECONDS_BETWEEN_KILLS=3] [NIBBLE=build/release/cli/nibble]
set -euo pipefail
sweep=$1 directory=$2 between=${3:-3} nibble=${4:-build/release/cli/nibble}
mkdir -p "$directory"
kills=0
while :; do
  "$nibble" sweep "$sweep" -o "$directory/killed" --quiet > /dev/null &
  process=$!
  sleep "$(python3 -c "import random; print(random.uniform(0.1, 2 * $between))")"
  if kill -9 "$process" 2> /dev/null; then kills=$((kills + 1)); fi
  status=0
  wait "$process" 2> /dev/null || status=$?
  [[ $status -ne 0 ]] || break
  [[ $status -eq 137 ]] || { echo "torment: the sweep ended with $status by itself" >&2; exit 1; }
done
"$nibble" sweep "$sweep" -o "$directory/undisturbed" --quiet | tail -1
python3 - "$directory" "$kills" << 'PYTHON'
import json, pathlib, sys
def records(name):
    found = {}
    for path in pathlib.Path(sys.argv[1], name).glob("*.json"):
        text = path.read_text()
        found[path.name] = text[:text.index('\n "command":')]   # which names the directory; all before it, to the byte
        json.loads(text)
    return found
killed, undisturbed = records("killed"), records("undisturbed")
same = sum(killed.get(name) == text for name, text in undisturbed.items())
print(f"{sys.argv[2]} kills; {same} of {len(undisturbed)} records the same to the byte, commands and timings aside; {len(killed)} in all")
sys.exit(0 if killed == undisturbed else 1)
PYTHON
