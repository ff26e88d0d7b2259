#!/usr/bin/env bash
# Feeds every parser of files with mutated inputs (libFuzzer, AddressSanitizer, UndefinedBehaviorSanitizer) for SECONDS each.
# Usage: scripts/fuzz.sh [SECONDS=60] [TARGET…]      for a night: scripts/fuzz.sh 3600
# What is found is kept in build/fuzz/found/TARGET-…; repeat it with build/fuzz/tests/fuzz/fuzz_TARGET FILE. Inputs that reach new
# code are kept in build/fuzz/corpus/TARGET and start the next run; `scripts/fuzz.sh 0` only runs the kept ones.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-60}
shift || true
targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then
  for file in tests/fuzz/*_fuzz.cc; do name=${file##*/}; targets+=("${name%_fuzz.cc}"); done
fi

cmake --preset fuzz >/dev/null
cmake --build build/fuzz --target "${targets[@]/#/fuzz_}"
mkdir -p build/fuzz/found
failed=()
for name in "${targets[@]}"; do
  kept=build/fuzz/corpus/$name
  mkdir -p "$kept"
  limits=(-rss_limit_mb=2048 -timeout=10 -print_final_stats=1 -artifact_prefix="build/fuzz/found/$name-")
  if [[ $seconds -eq 0 ]]; then limits+=(-runs=0); else limits+=("-max_total_time=$seconds"); fi
  log=build/fuzz/$name.log
  if "build/fuzz/tests/fuzz/fuzz_$name" "${limits[@]}" "$kept" "tests/fuzz/corpus/$name" >"$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "fuzz: $name: $runs inputs, nothing found"
  else
    failed+=("$name")
    tail -n 40 "$log"
    echo "fuzz: $name: FOUND SOMETHING, see $log"
  fi
done
[[ ${#failed[@]} -eq 0 ]]
