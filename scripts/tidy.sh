#!/usr/bin/env bash
# clang-tidy with the checks of .clang-tidy over the .cc files given, else over those of the product that differ from main
# (scripts/changed_sources.sh). `scripts/tidy.sh --all` takes half an hour of processor time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh tidy

if [[ ${1:-} == --all ]]; then
  files=$(scripts/changed_sources.sh --all cc)
elif [[ $# -gt 0 ]]; then
  files=$(printf '%s\n' "$@")
else
  files=$(scripts/changed_sources.sh cc)
fi
[[ -n $files ]] || { echo "tidy: nothing to look at"; exit 0; }

# tidy FILE: with the flags that its build would have; a database of them would name the files compiled together, not these.
tidy() {
  local flags=(-std=c++20 -I. -isystem /usr/include/eigen3 -isystem /usr/include/hdf5/serial -DFMT_SHARED -Wno-everything)
  [[ $1 == *_mpi.cc || $1 == */mpi_* ]] && read -ra mpi <<<"$(pkg-config --cflags mpi-c 2>/dev/null || true)" && flags+=("${mpi[@]}")
  [[ $1 == *_avx2.cc ]] && flags+=(-mavx2 -mfma -mf16c)
  [[ $1 == *_avx2_vnni.cc ]] && flags+=(-mavx2 -mfma -mf16c -mavxvnni)
  [[ $1 == *_avx512*.cc ]] && flags+=(-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512vbmi -mavx512vbmi2 -mavx512bf16)
  [[ $1 == *_neon*.cc ]] && flags+=(--target=aarch64-linux-gnu -march=armv8.2-a+dotprod+i8mm)
  clang-tidy-14 --quiet "$1" -- "${flags[@]}" 2>/dev/null
}
export -f tidy
xargs -P "$(nproc)" -I '{}' bash -c 'tidy "$1"' - '{}' <<<"$files"
echo "tidy: $(wc -l <<<"$files") files, nothing found"
