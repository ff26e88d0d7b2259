#!/usr/bin/env bash
# Everything that must hold before a change lands: formatting, layers, the dev (ASan + UBSan) and release builds with
# their tests, a downstream project that uses the installed package, the Python package's wheel with its tests and notebook, and
# exports in the programs that they are for (the last two SKIPPED where what they need cannot be had). One argument limits it:
# format|dev|release|package|python|clients. Two more run only when they are named, which keeps the whole under 45 minutes on
# 2 cores: `harness` (lm-evaluation-harness's own model against ours) and `fuzz` (20 seconds for every parser of files).
set -euo pipefail
cd "$(dirname "$0")/.."
only=${1:-all}
wanted() { [[ $only == all || $only == "$1" ]]; }
named() { [[ $only == "$1" ]]; }
step() { printf '\n== %s\n' "$1"; }

scripts/setup.sh

if wanted format; then
  step "formatting (clang-format 14) and layers"
  git ls-files -- '*.h' '*.cc' | xargs clang-format-14 --dry-run -Werror
  python3 scripts/check_layers.py
fi

for preset in dev release; do
  if wanted "$preset"; then
    step "$preset: build"
    cmake --preset "$preset" >/dev/null
    cmake --build --preset "$preset"
    step "$preset: tests"
    ctest --preset "$preset"
  fi
done

if wanted package; then
  step "installed package and a project that uses it"
  cmake --preset release >/dev/null
  cmake --build --preset release
  rm -rf build/install build/downstream
  cmake --install build/release --prefix "$PWD/build/install" >/dev/null
  cmake -S tests/downstream -B build/downstream -G Ninja -DCMAKE_PREFIX_PATH="$PWD/build/install" >/dev/null
  cmake --build build/downstream
  build/downstream/downstream
  build/install/bin/nibble version
fi

if wanted python; then
  step "Python package: wheel, tests, notebook"
  scripts/test_python.sh
fi

if wanted clients; then
  step "exports in the programs that they are for"
  cmake --preset release >/dev/null
  cmake --build --preset release --target nibble_cli
  tests/clients/run.py
fi

if named harness; then
  step "lm-evaluation-harness, item by item"
  scripts/test_harness.sh
fi

if named fuzz; then
  step "fuzzing (scripts/fuzz.sh --minutes N for longer)"
  scripts/fuzz.sh --seconds 20
fi
