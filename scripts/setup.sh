#!/usr/bin/env bash
# Installs what is missing to build, test and run Nibble on Debian 12 or Ubuntu 24.04: through apt, as root or with sudo.
# Does nothing, and needs no network, where everything is there already. `scripts/setup.sh python` installs what only the
# Python package needs, `scripts/setup.sh fuzz` what fuzzing does, `scripts/setup.sh tidy` what scripts/tidy.sh and scripts/check_alone.sh do,
# `scripts/setup.sh arm64` what cross-compiling to 64-bit Arm and running that here does (its libraries: scripts/arm64_root.sh).
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config git python3
  libfmt-dev libeigen3-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev
  libboost-dev libboost-iostreams-dev libhdf5-dev zlib1g-dev libzstd-dev libbrotli-dev
  libboost-mpi-dev mpi-default-dev mpi-default-bin  # optional: calibration over several processes
  libpcre2-dev libutf8proc-dev libxxhash-dev libdnnl-dev
  libgtest-dev libgmock-dev libbenchmark-dev clang-format-14 lld
)

case ${1:-} in
  "") ;;
  fuzz) packages=(cmake ninja-build ccache clang-16 libclang-rt-16-dev xz-utils) ;;
  python) packages=(python3-dev python3-pip python3-venv) ;;
  tidy) packages=(clang-tidy-14 clang-14 g++-aarch64-linux-gnu) ;;  # the latter two for kernels for Arm and the headers that they include
  arm64) packages=(g++-aarch64-linux-gnu qemu-user cmake ninja-build ccache pkg-config) ;;
  *) echo "setup: expected nothing, python, fuzz, tidy or arm64, got '$1'" >&2; exit 2 ;;
esac

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [[ $status == "install ok installed" ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "setup: this system has no apt-get. Install the equivalents of: ${missing[*]}" >&2
  exit 1
fi
as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: run as root, or install sudo. Missing: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
