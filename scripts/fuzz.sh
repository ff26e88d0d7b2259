#!/usr/bin/env bash
# Feeds the parsers of files with mutated inputs (libFuzzer, AddressSanitizer, UndefinedBehaviorSanitizer): all of them but
# that of calibration files, `calibration`, which runs where it is named, since HDF5 1.10 itself crashes on some of its inputs.
# Usage: scripts/fuzz.sh [--seconds N | --minutes N] [--within N] [--keep] [TARGET…]      20 seconds each; for a night: --minutes 40
# --within N: that all of it, building included, ends N seconds from now: each target gets its share of what is left then
# where that is less, and 5 seconds at least; `quantized` and `diff`, which take all kernels to build, are left out then.
# With --seconds 0 only the inputs kept so far are run. What is found is kept in build/fuzz/found/TARGET-…; repeat it with
# build/fuzz/tests/fuzz/fuzz_TARGET FILE. Inputs that reach new code are kept in build/fuzz/corpus/TARGET and start the next
# run, beside those in tests/fuzz/corpus: a few files by hand, and TARGET.tar.xz, what earlier runs found. --keep makes these archives
# anew afterwards, of as few inputs as reach all that is reached; none is larger than 8 KB or, where that is more, the largest of those
# by hand and a quarter, and of an archive of more than 100 KB the largest inputs go. As many targets run at once as there are processors.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=20
within=
keep=
targets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --seconds) seconds=$2; shift 2 ;;
    --minutes) seconds=$((60 * $2)); shift 2 ;;
    --within) within=$2; shift 2 ;;
    --keep) keep=1; shift ;;
    -*) echo "fuzz: expected [--seconds N | --minutes N] [--within N] [--keep] [TARGET…], got '$1'" >&2; exit 2 ;;
    *) targets+=("$1"); shift ;;
  esac
done
if [[ ${#targets[@]} -eq 0 ]]; then
  for file in tests/fuzz/*_fuzz.cc; do
    name=$(basename "$file" _fuzz.cc)
    [[ $name == calibration || ( $name =~ ^(quantized|diff)$ && -n $within ) ]] || targets+=("$name")
  done
fi

scripts/setup.sh fuzz
cmake --preset fuzz >/dev/null
cmake --build build/fuzz --target "${targets[@]/#/fuzz_}"
mkdir -p build/fuzz/found
if [[ -n $within ]]; then
  rounds=$(((${#targets[@]} + $(nproc) - 1) / $(nproc)))
  share=$(((within - SECONDS) / rounds))
  [[ $share -lt 5 ]] && share=5
  [[ $share -lt $seconds ]] && seconds=$share
  echo "fuzz: $seconds seconds for each of ${#targets[@]} targets"
fi

# run TARGET SECONDS: one line of what happened, more where something was found.
run() {
  local name=$1 seconds=$2 kept=build/fuzz/corpus/$1 log=build/fuzz/$1.log runs
  local limits=(-rss_limit_mb=2048 -timeout=120 -print_final_stats=1 -artifact_prefix="build/fuzz/found/$name-")
  mkdir -p "$kept"
  [[ ! -e tests/fuzz/corpus/$name.tar.xz ]] || tar -xJf "tests/fuzz/corpus/$name.tar.xz" -C "$kept"
  if [[ $seconds -eq 0 ]]; then limits+=(-runs=0); else limits+=("-max_total_time=$seconds"); fi
  if "build/fuzz/tests/fuzz/fuzz_$name" "${limits[@]}" "$kept" "tests/fuzz/corpus/$name" >"$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "fuzz: $name: $runs inputs, nothing found"
  else
    tail -n 40 "$log"
    echo "fuzz: $name: FOUND SOMETHING, see $log"
    return 1
  fi
}
# keep TARGET: the archive of a target's inputs. Nothing in it tells when or where it was made.
keep() {
  local name=$1 least=build/fuzz/least/$1 small=build/fuzz/small/$1 archive=tests/fuzz/corpus/$1.tar.xz largest most count
  rm -rf "$least" "$small"
  mkdir -p "$least" "$small"
  largest=$(find "tests/fuzz/corpus/$name" -type f -printf '%s\n' | sort -n | tail -n 1)
  most=$((largest * 5 / 4 > 8192 ? largest * 5 / 4 : 8192))
  find "build/fuzz/corpus/$name" -type f -size "-$((most + 1))c" -exec cp -t "$small" {} +
  "build/fuzz/tests/fuzz/fuzz_$name" -merge=1 -rss_limit_mb=2048 -timeout=120 "$least" "tests/fuzz/corpus/$name" "$small" >>"build/fuzz/$name.log" 2>&1
  while tar -C "$least" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=644 -cf - . | xz -9e >"$archive.new"
        count=$(find "$least" -type f | wc -l)
        [[ $count -gt 8 && $(stat -c %s "$archive.new") -gt 100000 ]]; do
    find "$least" -type f -printf '%s %f\n' | sort -k1,1nr -k2 | head -n $((count / 8)) | cut -d' ' -f2 | (cd "$least" && xargs rm --)
  done
  mv "$archive.new" "$archive"
  echo "fuzz: $name: $count inputs kept, $(stat -c %s "$archive") bytes"
}
export -f run keep
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I '{}' bash -c 'run "$1" "$2"' - '{}' "$seconds"
[[ -z $keep ]] || printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I '{}' bash -c 'set -euo pipefail; keep "$1"' - '{}'
