#!/usr/bin/env bash
# Lets the disk be full at one step after another of what the program's commands write (scripts/full_disk.c, preloaded): each
# must end with exit code 3 and a message that names a file and the reason, leave nothing incomplete under a final name, nor
# take away what stood there before, and end in the bytes of an undisturbed run when it is given again with room.
# Usage: scripts/torment_full_disk.sh [FAILURES=40] [MODEL=datasets/demo/gpt2-demo] [SWEEP=datasets/demo/sweep.yaml]
# FAILURES is for each command; where it has more steps than that, they are drawn from all of its files. NIBBLE names another
# program, TORMENT another directory to work in, SEED repeats the steps, COMMANDS some of the commands (calibrate, quantize and
# blocks come first, synthesize before mapped: others read what they wrote), HOW the ways to fail ("on short once"; "kill"
# kills instead: full_disk.c).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
failures_wanted=${1:-40} model=${2:-datasets/demo/gpt2-demo} sweep=${3:-datasets/demo/sweep.yaml}
nibble=${NIBBLE:-build/release/cli/nibble} directory=${TORMENT:-build/torment_full_disk} seed=${SEED:-$$}
read -ra commands <<<"${COMMANDS:-calibrate quantize blocks windowed tuned export gguf rotate synthesize mapped sweep}"
read -ra ways <<<"${HOW:-on short once}"
echo "full disk: SEED=$seed"
rm -rf "$directory"
mkdir -p "$directory/whole" "$directory/now"
# Preloaded by a path without spaces and colons, at which lists of libraries are cut.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
library=$work/full_disk.so
cc -shared -fPIC -O1 -o "$library" scripts/full_disk.c -ldl
source scripts/torment_commands.sh

fail() { echo "full disk: $command, step $step ($what), $way${older:+, over an older output}: $1" >&2; cat "$directory/log" >&2; exit 1; }
same() { scripts/same_output.py "$command" "$1" "$out"; }

# Lines "NUMBER STEP PATH", drawn so that each file's steps of each kind count once, however many writes it takes. The last steps,
# which give the output its name, and the one more that replacing an older output may take, are always among them, twice:
# without an older one, and over it.
draw_steps() {
  python3 - "$directory/steps" "$failures_wanted" "$seed-$command" <<'PYTHON'
import random, sys
path, wanted, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3]
draw, groups, last = random.Random(seed), [], None
for number, line in enumerate(open(path), 1):
    if line != last:
        groups.append([])
    groups[-1].append((number, line.strip()))
    last = line
groups.append([(number + 1, "one more")])
tail, groups = groups[-4:], groups[:-4]
if sum(map(len, groups)) <= wanted:
    drawn = [step for group in groups for step in group]
else:  # one from each of `wanted` parts of the run
    count = min(wanted, len(groups))
    edges = [i * len(groups) // count for i in range(count + 1)]
    drawn = [draw.choice(draw.choice(groups[a:b])) for a, b in zip(edges, edges[1:])]
for number, what in drawn + [draw.choice(group) for group in tail for _ in range(2)]:
    print(number, what)
PYTHON
}

# What of a sweep is there after a failure must be records of the whole one.
check_records() {
  local record
  for record in "$out"/*.json; do
    [[ -e $record ]] || continue
    mkdir -p "$directory/one" && rm -f "$directory/one/"* && cp "$record" "$directory/one/"
    mkdir -p "$directory/other" && rm -f "$directory/other/"* && cp "$directory/whole/sweep/${record##*/}" "$directory/other/"
    scripts/same_output.py sweep "$directory/other" "$directory/one" || fail "a record differs"
  done
}

total=0 ignored=0
for command in "${commands[@]}"; do
  out=$(output "$command" "$directory/now") whole=$(output "$command" "$directory/whole")
  rm -f "$directory/steps"
  # One thread: the steps come in the same order each time.
  before=(env "LD_PRELOAD=$library" "FULL_DISK_LOG=$directory/steps")
  run "$command" "$whole" --threads 1 >/dev/null
  [[ -s $directory/steps ]] || { echo "full disk: $command: no step was seen: is $library preloaded?" >&2; exit 1; }
  draw_steps >"$directory/drawn"
  echo "full disk: $command: $(wc -l <"$directory/steps") steps"
  turn=0
  while read -r step what; do
    way=${ways[turn % ${#ways[@]}]} older='' options=(--threads 1)
    rm -rf "$directory/now" && mkdir -p "$directory/now"
    if ((turn % 2)) && [[ $command != calibrate && $command != sweep ]]; then
      older=$directory/older${out#"$directory/now"} options+=(--overwrite)
      rm -rf "$directory/older" && mkdir -p "$directory/older" && cp -r "$whole" "$older"
      if [[ -d $older ]]; then echo older >"$older/README.md"; else echo older >>"$older"; fi
      cp -r "$older" "$out"
    fi
    turn=$((turn + 1)) total=$((total + 1))

    before=(timeout 300 env "LD_PRELOAD=$library" "FULL_DISK_AT=$step" "FULL_DISK_HOW=$way")
    status=0
    run "$command" "$out" "${options[@]}" >"$directory/log" 2>&1 || status=$?
    case $status in
      0)  # what failed was none of its output
        same "$whole" || fail "it says that all is well"
        ignored=$((ignored + 1)) ;;
      3)
        [[ $way != kill ]] || fail "exit code 3"
        grep -q "error: .*'.*'.*No space left on device" "$directory/log" || fail "the message lacks the file or the reason" ;;
      137) [[ $way == kill ]] || fail "exit code 137" ;;
      *) fail "exit code $status" ;;
    esac
    if [[ $command == sweep ]]; then
      check_records
    elif [[ -e $out ]]; then
      same "$whole" 2>"$directory/differs" || { [[ -n $older ]] && same "$older"; } || fail "an incomplete output"
    elif [[ -n $older ]]; then
      fail "what was there is gone"
    fi

    before=()
    if ! run "$command" "$out" "${options[@]}" >"$directory/log" 2>&1; then
      grep -q "exists; choose another" "$directory/log" || fail "it does not end with room either"
    else
      nothing_left "$command" "$out" || fail "it leaves something behind"
    fi
    same "$whole" || fail "other bytes in the end"
  done <"$directory/drawn"
done
echo "full disk: $total failures, $ignored of them of no consequence; nothing lost, every output the same to the byte, times aside"
