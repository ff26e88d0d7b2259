#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "export/coreml/names.h"
#include "export/coreml/network.h"
#include "export/coreml/package.h"
#include "export/coreml/package_weights.h"
#include "export/coreml_golden.h"
#include "export/exporter.h"

namespace nibble::exporting {
namespace coreml_package {
namespace {

constexpr std::string_view kLayouts[] = {"gpu", "ane"};

// The Neural Engine's window: a prompt of 64, or one token, behind the 448 positions before.
constexpr std::size_t kPromptTokens = 64, kPast = 448;
// Positions that caches and tables are made for, where the model has as many.
constexpr std::size_t kPositions = 2048;

coreml::Layout layout_of(const ExportOptions& options) {
  return options.layout.value_or("gpu") == "ane" ? coreml::Layout::kAne : coreml::Layout::kGpu;
}

Fit fit(const Storage& storage) {
  if (storage.outliers) return Fit::refused("weights that are kept apart", "the same without outliers");
  if (storage.blocks() && storage.group() < storage.cols && storage.cols % storage.group() != 0)
    return Fit::refused(fmt::format("blocks that do not divide rows of {} inputs", storage.cols),
                        "format: palette, bits: 4, granularity: channel-group");
  if (storage.has_block_palette())
    return Fit::refused("palettes that blocks of inputs scale", "format: palette, bits: 4, granularity: channel-group");
  if (!storage.palette()) return Fit::exact();
  if (storage.window_bits != 0) return Fit::refused("codes that overlap", "window_bits: 0");
  if (storage.bits == 5 || storage.bits == 7)
    return Fit::refused(fmt::format("codes of {} bits", storage.bits), fmt::format("bits: {}", storage.bits + 1));
  if (storage.row_scales) return Fit::rounded("palette times row scale, in a table for each row");
  if (storage.palette_dtype != quant::PaletteDtype::kFloat16) return Fit::rounded("entries of palettes");
  return Fit::exact();
}

void require_known(const model::Architecture& architecture) {
  // Layouts differ in one demand only, which build_network() makes again.
  coreml::require_supported(architecture, coreml::Layout::kAne);
}

std::string group_name(const model::Architecture&, const model::Parameter& parameter) {
  return coreml::matrix_name(parameter);
}

// The part that a parameter's weight is, a tied head's being the embedding.
const ExportPart& part_of(const ExportModel& model, const model::Parameter& parameter) {
  for (const ExportPart& part : model.parts())
    if (part.parameter->weight_module == parameter.weight_module) return part;
  throw InvalidArgument(fmt::format("{} is no matrix of the model", parameter.module));
}

coreml::Constant plan_matrix(const ExportPlan& plan, const model::Parameter& parameter, coreml::Rows rows,
                             coreml::ConstantPool& pool) {
  const ExportPart& part = part_of(plan.model, parameter);
  const std::string& name = coreml::matrix_name(parameter);
  if (plan.group_of(part).as_floats)
    return coreml::plan_float_weight(pool.blobs(), part.values, rows, name, pool.rounding());
  const std::shared_ptr<const quant::QuantizedTensor> tensor(part.coded, &part.coded->tensor());
  return coreml::plan_coded_weight(pool.blobs(), tensor, rows, pool.rounding());
}

std::uint64_t stored_bits(const coreml::Constant& constant) {
  std::uint64_t bits = 0;
  for (const auto& [name, value] : constant.operands)
    bits += value.type.elements() * coreml::data_type_bits(value.type.type);
  return bits;
}

coreml::Model described(const ExportModel& model, std::string_view layout) {
  coreml::Model package;
  package.specification_version = coreml::kSpecificationVersion;
  package.short_description = fmt::format("{} ({} layout)", model::describe(model.architecture()), layout);
  package.metadata["nibble.layout"] = layout;
  package.metadata["nibble.model_type"] = model.architecture().family;
  return package;
}

// The package is right with such layers, but not wholly for the Neural Engine.
std::vector<std::string> notes(const model::Architecture& architecture, coreml::Layout layout) {
  std::vector<const model::Parameter*> wide = model::linear_layers(architecture);
  std::erase_if(wide, [](const model::Parameter* layer) { return layer->out < coreml::kAneAxis; });
  if (layout != coreml::Layout::kAne || wide.empty()) return {};
  return {fmt::format(
      "{} layers of the blocks have {} outputs or more ({}: {}); the Neural Engine takes no axis so long, so "
      "another processor may have to compute them",
      wide.size(), coreml::kAneAxis, wide.front()->module, wide.front()->out)};
}

Written write(const ExportPlan& plan, const std::filesystem::path& output, const ProgressSink& progress) {
  const ExportModel& model = plan.model;
  const model::Architecture& architecture = model.architecture();
  const coreml::Layout layout = layout_of(plan.options);
  std::set<std::string> linear_modules;
  for (const model::Parameter* layer : model::linear_layers(architecture)) linear_modules.insert(layer->weight_module);
  Written written;
  const coreml::NetworkWeights weights{
      model.weights(), [&](const model::Parameter& parameter, coreml::Rows rows, coreml::ConstantPool& pool) {
        coreml::Constant constant = plan_matrix(plan, parameter, rows, pool);
        if (linear_modules.contains(parameter.weight_module)) written.linear_bits += stored_bits(constant);
        return constant;
      }};
  coreml::ConstantPool pool;
  coreml::Model package = described(model, layout == coreml::Layout::kAne ? "ane" : "gpu");
  const std::size_t positions =
      plan.options.context.value_or(std::min(coreml::position_limit(architecture), kPositions));
  const auto add = [&](const std::string& name, std::size_t tokens) {
    coreml::Network network = coreml::build_network(architecture, weights, {layout, positions, tokens, kPast}, pool);
    package.functions[name] = std::move(network.function);
    package.interfaces[name] = std::move(network.interface);
  };
  if (layout == coreml::Layout::kAne) {
    add("prompt", std::min(kPromptTokens, positions));
    add("extend", 1);
    package.default_function = "prompt";
  } else {
    add(std::string(coreml::kMainFunction), 0);
  }
  coreml::write_package(output, package, pool.blobs(), progress);
  written.bytes = pool.blobs().file_bytes();
  written.notes = notes(architecture, layout);
  return written;
}

std::unique_ptr<model::WeightProvider> read(const std::filesystem::path& output, const ExportModel& model) {
  return coreml::open_package_weights(output, model.architecture());
}

}  // namespace
}  // namespace coreml_package

constinit const Exporter kCoreMlExporter{.name = "coreml",
                                         .programs = "Core ML of macOS 15 and iOS 18, through coremltools or Swift",
                                         .suffix = ".mlpackage",
                                         .takes_context = true,
                                         .layouts = coreml_package::kLayouts,
                                         .fit = coreml_package::fit,
                                         .require_known = coreml_package::require_known,
                                         .group_name = coreml_package::group_name,
                                         .write = coreml_package::write,
                                         .read = coreml_package::read,
                                         .golden_files = golden_files,
                                         .write_golden = write_golden};

}  // namespace nibble::exporting
