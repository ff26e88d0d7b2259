#!/usr/bin/env bash
# clang-tidy with the checks of .clang-tidy over the .cc files given, else over those of the product that differ from main
# (scripts/changed_sources.sh). Usage: scripts/tidy.sh [--all | --commits N [--at-most GROUPS] | FILE…]
# --all takes all of them, --commits those that the last N commits touched. The headers cost nearly all of the time, so the
# files of a folder are a group that is looked at as one, which costs little more than one of them; where they have names of
# their own in common, one by one. A kernel of one instruction set is a group by itself. --at-most ends after so many groups,
# the last touched first, and says how many files were left.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh tidy

limit=100000
case ${1:-} in
  --all) files=$(scripts/changed_sources.sh --all cc) ;;
  --commits)
    files=$(scripts/changed_sources.sh --commits "$2" cc)
    [[ ${3:-} != --at-most ]] || limit=$4 ;;
  "") files=$(scripts/changed_sources.sh cc) ;;
  -*) echo "tidy: expected --all, --commits N or names of files, got '$1'" >&2; exit 2 ;;
  *) files=$(printf '%s\n' "$@") ;;
esac
[[ -n $files ]] || { echo "tidy: nothing to look at"; exit 0; }

source scripts/tier_flags.sh
# look FILE LIKE: with the flags that LIKE's build would have; a database of them would name the files compiled together.
# Status 2: FILE does not compile. Nothing else that clang-tidy says on its way matters, unless it dies.
look() {
  local flags=(-std=c++20 -I. -isystem /usr/include/eigen3 -isystem /usr/include/hdf5/serial -DFMT_SHARED -Wno-everything)
  [[ $2 == *_mpi.cc || $2 == */mpi_* ]] && read -ra mpi <<<"$(pkg-config --cflags mpi-c 2>/dev/null || true)" && flags+=("${mpi[@]}")
  # With every tier that there is: where one is left out, what chooses it seems to choose between the same.
  flags+=(-DNIBBLE_HAVE_X86_{AVX2,AVX2_VNNI,AVX512,AVX512_VNNI,AVX512_VBMI,AMX}=1 -DNIBBLE_HAVE_ARM_NEON{,_DOTPROD,_I8MM}=1)
  mapfile -t -O "${#flags[@]}" flags < <(tier_flags "$2")
  local said log status=0
  log=build/tidy/$(tr / _ <<<"$1").log
  said=$(clang-tidy-14 --quiet --header-filter='/(core|model|datasets|calib|quant|export|eval|cli)/[a-z0-9_/]*\.(h|cc)$' "$1" \
    -- "${flags[@]}" 2>"$log") || status=$?
  if [[ $said == *clang-diagnostic-error* ]]; then status=2; fi
  if [[ $status != 0 && -z $said ]]; then said=$(tail -n 20 "$log"); fi
  if [[ $status != 2 || $1 == "$2" ]]; then printf '%s' "$said${said:+$'\n'}"; fi
  return $status
}
# tidy FILE…: a group, as one where that can be.
tidy() {
  local status=0 file together
  if [[ $# -gt 1 ]]; then
    together=build/tidy/$(dirname "$1" | tr / _).cc
    printf '#include "%s"  // NOLINT(bugprone-suspicious-include)\n' "$@" >"$together"
    look "$together" "$1" || status=$?
    if [[ $status != 2 ]]; then return $status; fi
    status=0
  fi
  for file; do look "$file" "$file" || status=1; done
  return $status
}
export -f look tidy
mkdir -p build/tidy

# A line of names for each group, in the order in which their first files come. Programs, and what the build keeps apart, are
# groups by themselves too.
apart=$(git grep -o 'APART [^)]*' -- '*CMakeLists.txt' |
  awk '{ folder = $1; sub("CMakeLists.txt:.*", "", folder); for (i = 2; i <= NF; ++i) printf "%s ", folder $i }')
groups=$(awk -v apart="$apart" '
              BEGIN { split(apart, names_apart, " "); for (i in names_apart) alone[names_apart[i]] = 1 }
              { group = $0
                if (!($0 in alone) && $0 !~ /main\.cc$|_(avx2|avx2_vnni|avx512[a-z0-9_]*|amx|neon[a-z0-9_]*|mpi)\.cc$|\/mpi_/) sub("/[^/]*$", "", group)
                if (!(group in names)) order[++count] = group
                names[group] = names[group] $0 " " }
              END { for (i = 1; i <= count; ++i) { sub(" $", "", names[order[i]]); print names[order[i]] } }' <<<"$files")
taken=$(head -n "$limit" <<<"$groups")
xargs -P "$(nproc)" -L 1 bash -c 'tidy "$@"' - <<<"$taken"
echo "tidy: $(wc -w <<<"$taken") files in $(wc -l <<<"$taken") groups, nothing found; $(($(wc -w <<<"$groups") - $(wc -w <<<"$taken"))) files left"
