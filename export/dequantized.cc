#include <fmt/format.h>

#include "export/exporter.h"
#include "export/float_directory.h"

namespace nibble::exporting {
namespace dequantized {
namespace {

Fit fit(const Storage&) { return {Fit::Kind::kFloats, "decoded to floats", {}}; }

Written write(const ExportPlan& plan, const std::filesystem::path& output, const ProgressSink& progress) {
  Written written = write_float_directory(plan.model, plan.model.checkpoint()->metadata(),
                                          plan.options.dtype.value_or(DType::kF16), output, progress);
  if (const auto layers = unannounced_biases(plan.model); !layers.empty())
    written.notes.push_back(
        fmt::format("{} layers have a bias that shifting gave them, '{}' among them: nibble reads it, other programs "
                    "expect none there in family {} and ignore it; quantize with shifting: false for those",
                    layers.size(), layers.front()->module, plan.model.architecture().family));
  return written;
}

std::unique_ptr<model::WeightProvider> read(const std::filesystem::path& output, const ExportModel&) {
  return model::make_float_provider(model::Checkpoint::open(output));
}

}  // namespace
}  // namespace dequantized

constinit const Exporter kDequantizedExporter{.name = "dequantized",
                                              .programs = "every program that reads Hugging Face directories",
                                              .takes_dtype = true,
                                              .fit = dequantized::fit,
                                              .write = dequantized::write,
                                              .read = dequantized::read};

}  // namespace nibble::exporting
