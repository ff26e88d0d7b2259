#include "cli/commands/inspect_compress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "cli/terminal/table.h"
#include "core/text/json.h"
#include "eval/storage/storage_study.h"

namespace nibble::cli {
namespace {

using eval::CompressionResult;
using eval::StreamStudy;

nlohmann::ordered_json json_of(const StreamStudy& study) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const CompressionResult& result : study.results)
    results.push_back({{"codec", result.codec},
                       {"transform", result.transform},
                       {"bytes", result.bytes},
                       {"ratio", result.ratio},
                       {"bits_per_value", result.bits_per_value},
                       {"compress_megabytes_per_second", result.compress_megabytes_per_second},
                       {"decompress_megabytes_per_second", result.decompress_megabytes_per_second}});
  return {{"stream", study.stream},
          {"bits", study.width},
          {"tensors", study.tensors},
          {"values_in_model", study.values_in_model},
          {"values", study.values},
          {"bytes", study.bytes},
          {"entropy_bits_per_value", study.entropies.order0},
          {"entropy_given_previous", study.entropies.given_previous},
          {"entropy_given_above", study.entropies.given_above},
          {"entropy_within_row", study.entropies.within_row},
          {"results", std::move(results)}};
}

std::string bits_text(double bits) { return std::isnan(bits) ? "-" : fmt::format("{:.3f}", bits); }

std::string text_of(const StreamStudy& study) {
  const eval::Entropies& entropy = study.entropies;
  std::string text = fmt::format("{} ({} of {} values, {} tensors)\n", study.stream, with_separators(study.values),
                                 with_separators(study.values_in_model), study.tensors);
  text += fmt::format("entropy {} bits", bits_text(entropy.order0));
  if (!std::isnan(entropy.within_row))
    text +=
        fmt::format("; within a row {}, given the left neighbour {}, given the one above {}",
                    bits_text(entropy.within_row), bits_text(entropy.given_previous), bits_text(entropy.given_above));
  Table table({{"compressor", Align::kLeft},
               {"plain"},
               {"best"},
               {"bits/value"},
               {"after", Align::kLeft},
               {"size"},
               {"in MB/s"},
               {"out MB/s"}});
  for (std::size_t begin = 0, end = 0; begin < study.results.size(); begin = end) {
    const CompressionResult &plain = study.results[begin], *best = &plain;
    for (end = begin; end < study.results.size() && study.results[end].codec == plain.codec; ++end)
      if (study.results[end].bytes < best->bytes) best = &study.results[end];
    table.add_row({plain.codec, fmt::format("{:.4f}", plain.ratio), fmt::format("{:.4f}", best->ratio),
                   fmt::format("{:.3f}", best->bits_per_value), best->transform, human_bytes(best->bytes),
                   fmt::format("{:.3g}", best->compress_megabytes_per_second),
                   fmt::format("{:.3g}", best->decompress_megabytes_per_second)});
  }
  return text + "\n" + table.text();
}

}  // namespace

void print_storage_study(const std::filesystem::path& model, std::uint64_t sample_bytes, const CommonOptions& common) {
  ProgressBar bar = ProgressBar::for_process(common.quiet);
  const std::vector<StreamStudy> studies =
      eval::study_storage(model, {.sample_bytes = sample_bytes, .progress = bar.sink()});
  bar.finish();
  if (common.json) {
    nlohmann::ordered_json streams = nlohmann::ordered_json::array();
    for (const StreamStudy& study : studies) streams.push_back(json_of(study));
    print_json({{"model", model.string()}, {"sample_bytes", sample_bytes}, {"storage_study", std::move(streams)}});
    return;
  }
  std::string text = fmt::format(
      "Ratios of the stored (packed) size to the compressed one; best = the smallest over all transforms.\n"
      "Samples of {} at most per kind, every round trip verified; MB/s of stored bytes on one core.\n",
      human_bytes(sample_bytes));
  for (const StreamStudy& study : studies) text += "\n" + text_of(study);
  print(text);
}

}  // namespace nibble::cli
