#!/usr/bin/env bash
# Whether sources include all that they use: each is compiled alone (no code is made), which the builds, where a folder's files
# are compiled together, would not notice. Takes those files of the product that differ from main (scripts/changed_sources.sh);
# `scripts/check_alone.sh --all` takes all of them, `scripts/check_alone.sh FILE…` those.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ ${1:-} == --all ]]; then
  files=$(scripts/changed_sources.sh --all)
elif [[ $# -gt 0 ]]; then
  files=$(printf '%s\n' "$@")
else
  files=$(scripts/changed_sources.sh)
fi
# A kernel of one instruction set is never compiled with others, and its headers want its flags. MPI is optional.
files=$(grep -vE '(_avx2|_avx2_vnni|_avx512|_avx512_vnni|_avx512_vbmi|_amx|_neon|_neon_dotprod|_neon_i8mm|_scalar|_simd)\.(cc|h)$|(^|/)(mpi_|vector_|int8_vector_)' <<<"$files" || true)
[[ -n $files ]] || { echo "alone: nothing to look at"; exit 0; }

alone() {
  local flags=(-std=c++20 -I. -DFMT_SHARED -w -fsyntax-only -x c++)
  [[ ! -d /usr/include/eigen3 ]] || flags+=(-isystem /usr/include/eigen3)
  [[ ! -d /usr/include/hdf5/serial ]] || flags+=(-isystem /usr/include/hdf5/serial)
  "${CXX:-g++}" "${flags[@]}" "$1" || { echo "alone: $1 does not compile alone: it lacks an #include"; return 1; }
}
export -f alone
xargs -P "$(nproc)" -I '{}' bash -c 'alone "$1"' - '{}' <<<"$files"
echo "alone: $(wc -l <<<"$files") files, each has what it needs"
