#!/usr/bin/env bash
# Whether sources include all that they use: each is compiled alone (no code is made), which the builds, where a folder's files
# are compiled together, would not notice. Takes those files of the product that differ from main (scripts/changed_sources.sh);
# `scripts/check_alone.sh --all [ENDING]` takes all of them, `--commits N [ENDING]` those that the last N commits touched, both
# only names that end so where that is given (h); `scripts/check_alone.sh FILE…` those.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ ${1:-} == --all || ${1:-} == --commits ]]; then
  files=$(scripts/changed_sources.sh "$@")
elif [[ $# -gt 0 ]]; then
  files=$(printf '%s\n' "$@")
else
  files=$(scripts/changed_sources.sh)
fi
# MPI is optional. Names of Arm want its compiler, here Clang.
files=$(grep -vE '(^|/)mpi_' <<<"$files" || true)
clang=$(command -v clang++-16 clang++-14 clang++ | head -n 1 || true)
export clang
if [[ -z $clang || ! -d /usr/aarch64-linux-gnu ]]; then
  arm=$(grep '_neon' <<<"$files" || true)
  [[ -z $arm ]] || echo "alone: $(wc -l <<<"$arm") files for 64-bit Arm NOT looked at, for want of clang++ or its headers (scripts/setup.sh tidy):" $arm
  files=$(grep -v '_neon' <<<"$files" || true)
fi
[[ -n $files ]] || { echo "alone: nothing to look at"; exit 0; }

source scripts/tier_flags.sh
alone() {
  local compiler=${CXX:-g++}
  [[ $1 != *_neon* ]] || compiler=$clang
  local flags=(-std=c++20 -I. -DFMT_SHARED -w -fsyntax-only -x c++)
  [[ ! -d /usr/include/eigen3 ]] || flags+=(-isystem /usr/include/eigen3)
  [[ ! -d /usr/include/hdf5/serial ]] || flags+=(-isystem /usr/include/hdf5/serial)
  mapfile -t -O "${#flags[@]}" flags < <(tier_flags "$1")
  "$compiler" "${flags[@]}" "$1" || { echo "alone: $1 does not compile alone: it lacks an #include"; return 1; }
}
export -f alone
xargs -P "$(nproc)" -I '{}' bash -c 'alone "$1"' - '{}' <<<"$files"
echo "alone: $(wc -l <<<"$files") files, each has what it needs"
