#include "calib/stats/run_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/error.h"
#include "core/suggest.h"

namespace nibble::calib {
namespace {

constexpr std::array<std::string_view, 2> kFlavours = {"sequence", "position"};
constexpr std::array<std::string_view, 2> kLabels = {"data", "sampled"};
constexpr std::array<std::string_view, 5> kMayDifferInMerge = {"text_hash", "windows_hash", "windows", "seeds",
                                                               "kernels"};

std::size_t index_of(std::string_view text, std::span<const std::string_view> names, std::string_view what) {
  const auto found = std::find(names.begin(), names.end(), text);
  NIBBLE_REQUIRE(found != names.end(), InvalidArgument, "{}: expected {}, got '{}'{}", what, fmt::join(names, " or "),
                 text, did_you_mean(text, names));
  return static_cast<std::size_t>(found - names.begin());
}

std::string compare(const RunSettings& a, const RunSettings& b, std::span<const std::string_view> ignored) {
  const auto left = describe(a), right = describe(b);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const auto& [name, value] = left[i];
    if (value == right[i].second || std::find(ignored.begin(), ignored.end(), name) != ignored.end()) continue;
    texts.push_back(fmt::format("{}: '{}' against '{}'", name, value, right[i].second));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace

std::string_view to_text(FisherFlavour flavour) { return kFlavours[static_cast<std::size_t>(flavour)]; }
FisherFlavour parse_fisher_flavour(std::string_view text) {
  return static_cast<FisherFlavour>(index_of(text, kFlavours, "Fisher flavour"));
}
std::string_view to_text(Labels labels) { return kLabels[static_cast<std::size_t>(labels)]; }
Labels parse_labels(std::string_view text) { return static_cast<Labels>(index_of(text, kLabels, "labels")); }

std::vector<std::pair<std::string, std::string>> describe(const RunSettings& s) {
  return {{"model_hash", s.model_hash},
          {"tokenizer_hash", s.tokenizer_hash},
          {"text_hash", s.text_hash},
          {"windows_hash", s.windows_hash},
          {"sampling", s.sampling},
          {"windows", fmt::format("{}", s.windows)},
          {"window_tokens", fmt::format("{}", s.window_tokens)},
          {"seeds", fmt::format("{}", fmt::join(s.seeds, ","))},
          {"flavour", std::string(to_text(s.flavour))},
          {"labels", std::string(to_text(s.labels))},
          {"centre", s.centre},
          {"head", s.head ? "yes" : "no"},
          {"collected", to_text(s.collected)},
          {"kernels", s.kernels}};
}

std::string differences(const RunSettings& a, const RunSettings& b) { return compare(a, b, {}); }
std::string differences_for_merging(const RunSettings& a, const RunSettings& b) {
  return compare(a, b, kMayDifferInMerge);
}

}  // namespace nibble::calib
