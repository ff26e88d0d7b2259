#include "calib/stats/merge_stats.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "calib/stats/stats_file.h"
#include "calib/stats/stats_writer.h"
#include "core/checked_math.h"
#include "core/error.h"
#include "core/files/hash.h"

namespace nibble::calib {
namespace {

std::string joined_hash(std::span<const RunSettings> parts, std::string RunSettings::*member) {
  const auto same = [&](const RunSettings& part) { return part.*member == parts[0].*member; };
  if (std::all_of(parts.begin(), parts.end(), same)) return parts[0].*member;
  Hasher hasher;
  for (const RunSettings& part : parts) hasher.update(part.*member);
  return hasher.hex();
}

std::string joined_kernels(std::span<const RunSettings> parts) {
  std::set<std::string> names;
  for (const RunSettings& part : parts) names.insert(part.kernels);
  std::string text;
  for (const std::string& name : names) text.append(text.empty() ? "" : " + ").append(name);
  return text;
}

constexpr std::string_view kUnknownProgram = "unknown";

// Each once, though parts may be merged ones themselves.
std::set<std::string> programs_of(std::span<const RunSettings> parts) {
  std::set<std::string> names;
  for (const RunSettings& part : parts) {
    std::string_view rest = part.program.empty() ? kUnknownProgram : part.program;
    for (std::size_t end = 0; (end = rest.find(kBesideProgram)) != std::string_view::npos;
         rest.remove_prefix(end + kBesideProgram.size()))
      names.emplace(rest.substr(0, end));
    names.emplace(rest);
  }
  return names;
}

std::string joined_programs(std::span<const RunSettings> parts) {
  const std::set<std::string> names = programs_of(parts);
  if (names.size() == 1 && names.contains(std::string(kUnknownProgram))) return "";
  return fmt::format("{}", fmt::join(names, kBesideProgram));
}

// Draws of one text with one seed begin with the same windows, however many there are.
void require_other_draws(const RunSettings& a, const RunSettings& b) {
  if (a.sampling != b.sampling || !a.sampling.starts_with(kRandomSlices) || a.text_hash != b.text_hash) return;
  for (const std::uint64_t seed : a.seeds)
    NIBBLE_REQUIRE(std::find(b.seeds.begin(), b.seeds.end(), seed) == b.seeds.end(), InvalidArgument,
                   "merge: two files hold windows of the same text and seed {}, which would count twice; sample the "
                   "parts with different seeds, or add to one of them with --extend",
                   seed);
}

}  // namespace

RunSettings merged_settings(std::span<const RunSettings> parts) {
  NIBBLE_REQUIRE(parts.size() >= 2, InvalidArgument, "merge: expected at least 2 calibration files, got {}",
                 parts.size());
  NIBBLE_REQUIRE(parts[0].centre != kCentreOwn, InvalidArgument,
                 "merge: the files are centred with the means of their own windows, which differ; collect the parts "
                 "with the means of one file");
  RunSettings merged = parts[0];
  std::set<std::string> windows_seen = {parts[0].windows_hash};
  for (const RunSettings& part : parts.subspan(1)) {
    const std::string differing = differences_for_merging(parts[0], part);
    NIBBLE_REQUIRE(differing.empty(), InvalidArgument, "merge: the files differ in {}", differing);
    NIBBLE_REQUIRE(windows_seen.insert(part.windows_hash).second, InvalidArgument,
                   "merge: two files hold the same windows ({}), which would count twice; sample the parts with "
                   "different seeds or texts",
                   part.windows_hash);
    for (const RunSettings& before : parts.first(static_cast<std::size_t>(&part - parts.data())))
      require_other_draws(before, part);
    merged.windows = checked_add(merged.windows, part.windows, "merge: windows");
    merged.seeds.insert(merged.seeds.end(), part.seeds.begin(), part.seeds.end());
  }
  merged.text_hash = joined_hash(parts, &RunSettings::text_hash);
  merged.windows_hash = joined_hash(parts, &RunSettings::windows_hash);
  merged.kernels = joined_kernels(parts);
  merged.program = joined_programs(parts);
  return merged;
}

std::optional<std::string> warning_of_programs(std::span<const RunSettings> parts) {
  const std::set<std::string> names = programs_of(parts);
  if (names.size() == 1) return std::nullopt;
  return fmt::format(
      "the statistics that are added up are of different builds of the program ('{}'), which may sum otherwise; where "
      "that matters, collect all of them with one",
      fmt::join(names, "', '"));
}

void merge_stats(std::span<const std::filesystem::path> inputs, const std::filesystem::path& output) {
  std::vector<RunSettings> settings;
  for (const std::filesystem::path& path : inputs) settings.push_back(StatsFile::open(path)->settings());
  merge_stats(inputs, merged_settings(settings), output);
}

void merge_stats(std::span<const std::filesystem::path> inputs, const RunSettings& merged,
                 const std::filesystem::path& output) {
  std::vector<std::shared_ptr<const StatsFile>> files;
  std::vector<RunSettings> parts;
  for (const std::filesystem::path& path : inputs) {
    files.push_back(StatsFile::open(path));
    parts.push_back(files.back()->settings());
  }
  RunSettings settings = merged;
  settings.program = joined_programs(parts);
  StatsWriter writer(output, settings, Replace::kNo);
  for (const auto& file : files) {
    NIBBLE_REQUIRE(file->layers().size() == files[0]->layers().size(), InvalidArgument,
                   "merge: '{}' holds {} layers, '{}' holds {}", file->path().string(), file->layers().size(),
                   files[0]->path().string(), files[0]->layers().size());
  }
  for (const LayerInfo& info : files[0]->layers()) {
    StatisticSet what = info.holds;
    if (!info.input_of.empty()) what.hessian = false;  // merged with the layer that holds it
    LayerSums sums(info.module, info.out, info.in, what);
    sums.input_of = info.input_of;
    for (const auto& file : files) sums.add(file->read(info.module, what));
    writer.add(sums.rounded());
  }
  writer.commit();
}

}  // namespace nibble::calib
