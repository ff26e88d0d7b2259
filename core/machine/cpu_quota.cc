#include "core/machine/cpu_quota.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>

namespace nibble {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::optional<double> positive_number(std::string_view text) {
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0) return std::nullopt;  // "max", "-1", ""
  return static_cast<double>(value);
}

std::optional<double> ratio(std::string_view quota, std::string_view period) {
  const auto granted = positive_number(quota), of = positive_number(period);
  return granted && of ? std::optional(*granted / *of) : std::nullopt;
}

// cpu.max is "QUOTA PERIOD".
std::optional<double> quota_v2(const fs::path& group) {
  const std::string line = first_line(group / "cpu.max");
  const std::size_t space = line.find(' ');
  if (space == line.npos) return std::nullopt;
  return ratio(std::string_view(line).substr(0, space), std::string_view(line).substr(space + 1));
}

std::optional<double> quota_v1(const fs::path& group) {
  return ratio(first_line(group / "cpu.cfs_quota_us"), first_line(group / "cpu.cfs_period_us"));
}

// `path` as /proc/self/cgroup has it, "/a/b" below the mount, and the groups around it: a limit of any of them holds.
// Where the mount shows only the container's own group, `path` does not exist below it, but its end may, and its root
// does.
fs::path path_below(const fs::path& mount, std::string_view path) {
  std::error_code ignored;
  fs::path below = fs::path(path).relative_path();
  while (!below.empty() && !fs::is_directory(mount / below, ignored))
    below = below.lexically_relative(*below.begin()) == "." ? fs::path() : below.lexically_relative(*below.begin());
  return below;
}

template <class Quota>
void take_least(std::optional<double>& least, const fs::path& mount, std::string_view path, Quota quota) {
  for (fs::path below = path_below(mount, path);; below = below.parent_path()) {
    if (const auto found = quota(mount / below)) least = least ? std::min(*least, *found) : *found;
    if (below.empty()) return;
  }
}

// Whether `name` is among "cpu,cpuacct".
bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t comma = names.find(',');
    if (names.substr(0, comma) == name) return true;
    names = comma == names.npos ? std::string_view() : names.substr(comma + 1);
  }
  return false;
}

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> least;
  std::ifstream groups(root / "proc/self/cgroup");  // lines "ID:CONTROLLERS:PATH", version 2: "0::PATH"
  const fs::path mounts = root / "sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const std::string_view path = std::string_view(line).substr(second + 1);
    if (path.starts_with("/..")) continue;  // outside of what this namespace shows
    if (controllers.empty()) {
      for (const char* place : {"", "unified"}) take_least(least, mounts / place, path, quota_v2);
    } else if (lists(controllers, "cpu")) {
      for (const fs::path& place : {fs::path("cpu"), fs::path(controllers)})
        take_least(least, mounts / place, path, quota_v1);
    }
  }
  return least;
}

}  // namespace nibble
