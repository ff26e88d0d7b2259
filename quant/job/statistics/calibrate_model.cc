#include "quant/job/statistics/calibrate_model.h"

#include "core/error.h"
#include "quant/job/statistics/rare_experts.h"
#include "quant/store/refuse_quantized.h"

namespace nibble::quant {

void check_guide(const CalibrateOptions& options) {
  NIBBLE_REQUIRE(!options.guide || options.collect.is_guided(), InvalidArgument,
                 "calibrate: a guide concerns guided-hessian and output-hessian, which are not collected");
}

void check_model(const LoadedModel& model) {
  refuse_quantized(*model.checkpoint, fmt::format("checkpoint '{}'", model.checkpoint->directory().string()),
                   "calibrate");
}

calib::CalibrationJob calibration_job(const LoadedModel& model, const model::Tokenizer* tokenizer,
                                      const CalibrationSource& source, const datasets::CalibrationWindows& windows,
                                      const CalibrateOptions& options, const std::filesystem::path& output) {
  check_guide(options);
  check_model(model);
  const bool sampled = source.tokens.empty();
  calib::CalibrationJob job{.model = *model.transformer,
                            .tokens = windows.tokens,
                            .settings = {.model_hash = model.checkpoint->fingerprint(),
                                         .tokenizer_hash = sampled ? tokenizer->fingerprint() : "none",
                                         .text_hash = windows.fingerprint,
                                         .sampling = source.sampling(),
                                         .window_tokens = windows.length,
                                         .seeds = {source.seed},
                                         .flavour = options.fisher,
                                         .labels = options.labels,
                                         .guide = options.guide.value_or(calib::default_guide(options.collect)),
                                         .head = options.head,
                                         .collected = options.collect},
                            .output = output};
  if (options.centre == "own") {
    job.centre = calib::Centre::kOwn;
  } else if (options.centre != "none") {
    std::error_code error;
    NIBBLE_REQUIRE(std::filesystem::exists(options.centre, error), FormatError,
                   "centre: expected none, own or a calibration file, got '{}', which is not there", options.centre);
    job.centre = calib::Centre::kFile;
    job.means = calib::StatsFile::open(options.centre);
  }
  return job;
}

std::vector<std::string> warnings(const model::Architecture& architecture, const calib::StatsFile& file) {
  std::vector<std::string> sentences;
  for (const model::Parameter* layer : model::linear_layers(architecture)) {
    if (!layer->expert || !layer->input_of.empty()) continue;
    const std::uint64_t tokens = file.layer(layer->module).tokens;
    if (is_rare(tokens, layer->in))
      sentences.push_back(
          fmt::format("{}: {} tokens chose this expert of {} inputs; quantizing it will do without statistics",
                      layer->module, tokens, layer->in));
  }
  return sentences;
}

}  // namespace nibble::quant
