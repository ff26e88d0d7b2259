#!/usr/bin/env bash
# Everything that must hold before a change lands: formatting, layers, scripts that have tests, the dev (ASan + UBSan) and release
# builds with their tests, a downstream project that uses the installed package, the Python package's wheel with its tests and notebook,
# exports in the programs that they are for (the last two SKIPPED where what they need cannot be had), what uses threads
# under ThreadSanitizer, full disks, clang-tidy over what was touched last, kernels on the tiers of 64-bit Arm under qemu, and
# the parsers of files fed with mutated inputs (these three SKIPPED where what they need cannot be installed). One argument
# limits it: format|dev|release|package|python|clients|tsan|disk|tidy|arm|fuzz, where `arm` runs every test that knows tiers
# on every tier, whole networks too, `tsan` also jobs that are killed and what holds them in memory, and `fuzz` two minutes for
# every parser but that of calibration files (scripts/fuzz.sh says why). A whole run gives these what is left of 40 minutes: on a
# slow machine ThreadSanitizer sees the pool alone and the emulator the products of kernels alone, clang-tidy looks at fewer files,
# nothing is fuzzed where not two minutes are left, and the release build has tests of tiers and of whole models alone, the others
# having run under sanitizers; each says so.
# More run only when they are named, which keeps the whole short (45 minutes on 2 cores are the aim): `harness`
# (lm-evaluation-harness's own model against ours), `tidy-all` (clang-tidy over everything) and `alone` (sources and headers
# that lack an #include).
set -euo pipefail
cd "$(dirname "$0")/.."
only=${1:-all}
parts="format dev release package python clients tsan disk tidy arm fuzz harness tidy-all alone"
if [[ $# -gt 1 || ($only != all && " $parts " != *" $only "*) ]]; then
  echo "Usage: scripts/test.sh [PART]      (PART is one of: $parts; its top says what they are)" >&2
  [[ $only == --help || $only == -h ]] && exit 0
  exit 2
fi
wanted() { [[ $only == all || $only == "$1" ]]; }
named() { [[ $only == "$1" ]]; }
seconds_left() { echo $((40 * 60 - SECONDS)); }
# Names what begins, and says of what ended how long it took and how much processor time its programs had.
step_name=
processor_seconds() { awk -v ticks="$(getconf CLK_TCK)" '{print int(($16 + $17) / ticks)}' /proc/$$/stat; }
end_step() {
  [[ -z $step_name ]] && return
  printf -- '-- %s: %d s, %d s of processors\n' "$step_name" $((SECONDS - step_wall)) $(($(processor_seconds) - step_cpu))
}
step() {
  end_step
  printf '\n== %s\n' "$1"
  step_name=$1 step_wall=$SECONDS step_cpu=$(processor_seconds)
}
trap end_step EXIT

scripts/setup.sh

if wanted format; then
  step "formatting (clang-format 14), layers and paths, the scripts that have tests"
  git ls-files -- '*.h' '*.cc' | xargs clang-format-14 --dry-run -Werror
  python3 scripts/check_layers.py
  python3 scripts/check_paths.py
  for folder in tests/scripts/*/; do python3 -m unittest discover -q -s "$folder" -p '*_test.py'; done
fi

if wanted dev; then
  step "dev: build"
  cmake --preset dev >/dev/null
  cmake --build --preset dev
  step "dev: tests"
  ctest --preset dev
fi

if wanted release; then
  tests=() targets=()
  if [[ $only == all && $(seconds_left) -lt 1080 ]]; then
    tests=(-L "golden|isa|tiers")
    targets=(--target nibble_cli isa_tests golden_tests)
  fi
  step "release: build"
  cmake --preset release >/dev/null
  cmake --build --preset release "${targets[@]}"
  step "release: tests"
  ctest --preset release "${tests[@]}"
  [[ ${#tests[@]} -eq 0 ]] ||
    echo "SKIPPED of release: tests that know no tiers and no whole models, all of which ran under sanitizers (scripts/test.sh release)"
fi

if wanted package; then
  step "installed package and a project that uses it"
  cmake --preset release >/dev/null
  cmake --build --preset release --target package_files
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

if wanted tsan; then
  step "ThreadSanitizer: the thread pool and jobs that use it (with kills and bounds of memory: scripts/test.sh tsan)"
  tests=(core.tests core.isa_tests) filter=()
  if named tsan || [[ $(seconds_left) -ge 900 ]]; then
    tests+=(calib.collect.tests quant.job.tests quant.tuning.tests eval.sweep.tests)
    # Jobs run again and again, three quarters of the time; the others take the same paths.
    named tsan || filter=(--gtest_filter='-*/Resume.*:*/QuantizeWithin.*')
  else
    echo "SKIPPED of ThreadSanitizer: jobs; the pool alone is looked at (scripts/test.sh tsan)"
  fi
  cmake --preset tsan >/dev/null
  cmake --build build/tsan --target "${tests[@]}"
  for test in "${tests[@]}"; do
    folder=${test%.*}
    TSAN_OPTIONS=halt_on_error=1 "build/tsan/tests/${folder//.//}/$test" --gtest_brief=1 "${filter[@]}"
  done
fi

if wanted disk; then
  step "full disk (scripts/torment_full_disk.sh for more; scripts/torment.sh for kills)"
  cmake --preset release >/dev/null
  cmake --build --preset release --target nibble_cli
  COMMANDS="calibrate blocks gguf" scripts/torment_full_disk.sh 4
fi

if wanted tidy; then
  step "headers touched last compile alone (scripts/check_alone.sh; all of them: scripts/test.sh alone)"
  tidy_there=
  ! scripts/setup.sh tidy || tidy_there=1  # headers for Arm want its compiler; without it they are named
  scripts/check_alone.sh --commits 30 h
  step "clang-tidy over what was touched last (scripts/tidy.sh; all of it: scripts/test.sh tidy-all)"
  if [[ $tidy_there ]]; then
    # A checkout of main differs from main in nothing. What is left over is said, and looked at by tidy-all.
    left=$(seconds_left)
    named tidy && left=600
    scripts/tidy.sh --commits 30 --at-most $((left >= 600 ? 16 : left >= 0 ? 6 : 2))
  else
    echo "SKIPPED tidy: clang-tidy-14 cannot be installed"
  fi
fi

if wanted arm; then
  step "64-bit Arm under qemu: kernels (whole networks too: scripts/test.sh arm)"
  status=0
  if ! scripts/setup.sh arm64; then
    echo "SKIPPED arm: the cross-compiler and qemu cannot be installed"
  elif scripts/arm64_root.sh || status=$? && [[ $status == 77 ]]; then
    echo "SKIPPED arm: no libraries to link"
  elif [[ $status != 0 ]]; then
    exit "$status"
  else
    cmake --preset arm64 >/dev/null
    if named arm; then
      cmake --build --preset arm64
      ctest --preset arm64
    else
      # The scalar files are tested above, and under qemu a hundred times slower; dotprod and i8mm are for products alone.
      targets=(core.isa_tests tests/quant/kernels/{int8,linear,windows}/all) pattern='(core|quant\.kernels)\..*@neon'
      if [[ $(seconds_left) -ge 480 ]]; then
        targets=(isa_tests) pattern+='|.*@neon$'
      else
        echo "SKIPPED of arm: kernels that multiply no weights (scripts/test.sh arm)"
      fi
      cmake --build build/arm64 --target "${targets[@]}"
      ctest --preset arm64 -R "^($pattern)" -E '\.sequence_test@'
    fi
  fi
fi

if wanted fuzz; then
  step "fuzzing (scripts/fuzz.sh --minutes N for longer)"
  limits=(--minutes 2)
  named fuzz || limits+=(--within "$(seconds_left)")
  if ! named fuzz && [[ $(seconds_left) -lt 120 ]]; then
    echo "SKIPPED fuzz: no two minutes are left (scripts/test.sh fuzz)"
  elif scripts/setup.sh fuzz; then
    scripts/fuzz.sh "${limits[@]}"
  else
    echo "SKIPPED fuzz: clang-16 cannot be installed"
  fi
fi

if named harness; then
  step "lm-evaluation-harness, item by item"
  scripts/test_harness.sh
fi

if named tidy-all; then
  step "clang-tidy over everything"
  scripts/tidy.sh --all
fi

if named alone; then
  step "sources and headers that lack an #include (scripts/check_alone.sh)"
  scripts/setup.sh tidy || true
  scripts/check_alone.sh --all
fi
