#include "calib/stats/run_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/text/choice.h"

namespace nibble::calib {
namespace {

constexpr std::array<Choice<FisherFlavour>, 2> kFlavours = {
    {{"sequence", FisherFlavour::kSequence}, {"position", FisherFlavour::kPosition}}};
constexpr std::array<Choice<Labels>, 2> kLabels = {{{"data", Labels::kData}, {"sampled", Labels::kSampled}}};
constexpr std::array<Choice<Guide>, 2> kGuides = {{{"plain", Guide::kPlain}, {"whitened", Guide::kWhitened}}};
constexpr std::array<std::string_view, 5> kMayDifferInMerge = {"text_hash", "windows_hash", "windows", "seeds",
                                                               "kernels"};

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

std::string_view to_text(FisherFlavour flavour) { return name_of(flavour, kFlavours); }
FisherFlavour parse_fisher_flavour(std::string_view text) { return choose("Fisher flavour", text, kFlavours); }
std::string_view to_text(Labels labels) { return name_of(labels, kLabels); }
Labels parse_labels(std::string_view text) { return choose("labels", text, kLabels); }
std::string_view to_text(Guide guide) { return name_of(guide, kGuides); }
Guide parse_guide(std::string_view text) { return choose("guide", text, kGuides); }

Guide default_guide(const StatisticSet& collected) { return collected.is_guided() ? Guide::kWhitened : Guide::kPlain; }

std::string_view hint_of_plain_guide(Guide before, Guide now) {
  return before == Guide::kPlain && now != Guide::kPlain ? "; --guide plain goes on with it" : "";
}

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
          {"guide", std::string(to_text(s.guide))},
          {"head", s.head ? "yes" : "no"},
          {"collected", to_text(s.collected)},
          {"kernels", s.kernels}};
}

std::string differences(const RunSettings& a, const RunSettings& b) { return compare(a, b, {}); }
std::string differences_for_merging(const RunSettings& a, const RunSettings& b) {
  return compare(a, b, kMayDifferInMerge);
}

}  // namespace nibble::calib
