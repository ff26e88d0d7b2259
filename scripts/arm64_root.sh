#!/usr/bin/env bash
# The libraries of 64-bit Arm that cross-compiling links (preset arm64): Debian's own packages, unpacked below build/arm64-root.
# Needs no root and leaves the system's packages alone, two of which (HDF5, yaml-cpp) cannot be installed for two processors at once.
# Does nothing where it is there already. Exit code 77: the package archive has nothing for arm64, or cannot be reached.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  libc6-dev libstdc++6 libgomp1 linux-libc-dev
  libfmt-dev libeigen3-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev
  libboost-dev libboost-iostreams-dev libhdf5-dev zlib1g-dev libzstd-dev libbrotli-dev
  libpcre2-dev libutf8proc-dev libxxhash-dev libdnnl-dev
  libgtest-dev libgmock-dev
)
root=$PWD/build/arm64-root
wanted="${packages[*]}"
[[ -f $root/.packages && $(<"$root/.packages") == "$wanted" ]] && exit 0

rm -rf "$root"
apt=$root/.apt
mkdir -p "$apt"/{lists,archives}/partial "$root/usr/lib"
touch "$apt/status"
ln -s usr/lib "$root/lib"  # as installed systems have it; some packages know the old place only
options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Install-Recommends=false
  -o Dir::State="$apt" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" -o Debug::NoLocking=true
  -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none)
echo "arm64_root: $root"
if ! apt-get "${options[@]}" update || ! apt-get "${options[@]}" install -y --download-only "${packages[@]}" >/dev/null; then
  echo "arm64_root: the package archive of this system has no packages for arm64, or cannot be reached" >&2
  rm -rf "$root"
  exit 77
fi
for package in "$apt"/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink --exclude=./usr/share/doc --exclude=./usr/share/man -C "$root"
done
# Links that lead to /lib or /usr would leave the root.
find "$root" -type l -lname '/*' -not -path "$apt/*" -print0 | while IFS= read -r -d '' link; do
  ln -sfnr "$root$(readlink "$link")" "$link"
done
rm -rf "$apt"
echo "$wanted" >"$root/.packages"
