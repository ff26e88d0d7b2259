#include "export/export_checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/error.h"
#include "core/files/file_lock.h"
#include "core/files/output_directory.h"
#include "core/files/output_file.h"
#include "core/text/suggest.h"
#include "export/export_plan.h"
#include "export/output_path.h"
#include "export/read_back.h"
#include "model/open/open_model.h"
#include "quant/job/budget/budget.h"
#include "quant/job/plan/plan.h"

namespace nibble::exporting {
namespace {

namespace fs = std::filesystem;

void check_options(const Exporter& exporter, const ExportOptions& options) {
  NIBBLE_REQUIRE(!options.dtype || exporter.takes_dtype, InvalidArgument,
                 "--dtype: format {} decides on the type of its floats by itself", exporter.name);
  NIBBLE_REQUIRE(!options.golden || exporter.write_golden, InvalidArgument, "--golden: not for format {}",
                 exporter.name);
  NIBBLE_REQUIRE(!options.context || exporter.takes_context, InvalidArgument,
                 "--context: format {} sets no limit to the length of a text", exporter.name);
  if (!options.layout) return;
  NIBBLE_REQUIRE(!exporter.layouts.empty(), InvalidArgument, "--layout: format {} has only one", exporter.name);
  NIBBLE_REQUIRE(std::find(exporter.layouts.begin(), exporter.layouts.end(), *options.layout) != exporter.layouts.end(),
                 InvalidArgument, "--layout: expected {}, got '{}'{}", fmt::join(exporter.layouts, " or "),
                 *options.layout, did_you_mean(*options.layout, exporter.layouts));
}

// The files that it makes under names of their own, the directory of a format that makes one not among them.
std::vector<fs::path> files_of(const ExportRequest& request) {
  const Exporter& exporter = request.exporter;
  // Those beside the output go with an older one, wanted or not.
  std::vector<fs::path> files = exporter.golden_files ? exporter.golden_files(request.output) : std::vector<fs::path>{};
  if (!exporter.directory) files.push_back(request.output);
  return files;
}

void check_output(const ExportRequest& request) {
  const Exporter& exporter = request.exporter;
  require_apart(request.model, request.output);
  const fs::path named = exporter.directory && !request.output.has_filename() ? request.output.parent_path()
                                                                              : request.output;  // without a slash
  NIBBLE_REQUIRE(exporter.suffix.empty() || named.filename().string().ends_with(exporter.suffix), InvalidArgument,
                 "--output: format {} needs a name that ends with {}, got '{}'", exporter.name, exporter.suffix,
                 request.output.string());
  for (const Exporter* other : exporters())
    NIBBLE_REQUIRE(other->suffix == exporter.suffix || other->suffix.empty() ||
                       !named.filename().string().ends_with(other->suffix),
                   InvalidArgument, "--output: '{}' is what format {} calls its files; format {} makes a directory",
                   request.output.string(), other->name, exporter.name);
  NIBBLE_REQUIRE(named.filename() != exporter.suffix, InvalidArgument, "--output: '{}' is only a suffix",
                 request.output.string());
  std::error_code error;
  NIBBLE_REQUIRE(exporter.directory || !fs::is_directory(request.output, error), InvalidArgument,
                 "output '{}' is a directory, not a file", request.output.string());
  for (const fs::path& file : files_of(request))
    NIBBLE_REQUIRE(request.overwrite || !fs::exists(file, error), InvalidArgument,
                   "output '{}' exists; choose another or overwrite it", file.string());
}

// What stands beside the output belongs to it: gone before it is replaced, and written after it.
void remove_golden(const ExportRequest& request) {
  if (!request.exporter.golden_files) return;
  std::error_code error;
  for (const fs::path& file : request.exporter.golden_files(request.output)) fs::remove(file, error);
}

double linear_weights(const model::Architecture& architecture) {
  double weights = 0.0;
  for (const model::Parameter* layer : model::linear_layers(architecture))
    weights += static_cast<double>(layer->weights());
  return weights;
}

ExportResult result_of(const ExportPlan& plan, const Written& written, const ReadBack& read_back,
                       const Exporter& exporter) {
  ExportResult result{.written = written, .as_floats = {}, .read_back = read_back};
  for (const ExportGroup& group : plan.groups)
    for (const ExportPart* part : group.parts) {
      if (!part->storage.coded() && part->storage.foreign.empty()) continue;
      if (!group.as_floats) {
        ++result.coded;
        continue;
      }
      const Fit fit = fit_of(exporter, part->storage);
      if (fit.kind == Fit::Kind::kFloats) continue;
      result.as_floats.push_back(fmt::format("{} ({}{})", part->parameter->module, part->storage.text(),
                                             fit.why.empty() ? "" : ": " + fit.why));
    }
  result.bits_per_weight = static_cast<double>(written.linear_bits) / linear_weights(plan.model.architecture());
  return result;
}

// Writes all of it to `where`, reads that back and compares.
ExportResult write_checked(const ExportRequest& request, const ExportPlan& plan, const fs::path& where) {
  const Exporter& exporter = request.exporter;
  const Written written = exporter.write(plan, where, request.progress);
  const auto output = exporter.read(where, plan.model);
  return result_of(plan, written, compare_with_model(exporter, plan, *output, request.progress), exporter);
}

ExportResult export_to_directory(const ExportRequest& request, const ExportPlan& plan) {
  OutputDirectory directory(request.output, request.overwrite);
  try {
    ExportResult result = write_checked(request, plan, directory.partial());
    remove_golden(request);
    directory.publish();
    return result;
  } catch (...) {
    directory.discard();
    throw;
  }
}

ExportResult export_to_file(const ExportRequest& request, const ExportPlan& plan) {
  std::error_code created;
  fs::create_directories(fs::absolute(request.output).parent_path(), created);  // its failure is the next one's
  const fs::path final = file_to_replace(request.output);
  const OutputLock lock(final);
  const fs::path unchecked = final.string() + ".unchecked";  // it gets its name when it was read back
  std::error_code error;
  try {
    ExportResult result = write_checked(request, plan, unchecked);
    check_output(request);  // of what came under that name meanwhile
    remove_golden(request);
    fs::rename(unchecked, final, error);
    if (error)
      throw FormatError(fmt::format("cannot rename '{}' into place: {}", unchecked.string(), error.message()), error);
    sync_directory(fs::absolute(final).parent_path());
    return result;
  } catch (...) {
    fs::remove(unchecked, error);
    throw;
  }
}

// The settings that a budget may give a matrix; without one, those of the recipe.
std::vector<quant::TensorSettings> possible_settings(const quant::QuantizeItem& item, const quant::Recipe& recipe) {
  return recipe.budget() ? quant::budget_ways(item, recipe) : std::vector{item.settings};
}

/// A matrix of the network, and as what quantizing may store it.
struct PlannedMatrix {
  const model::Parameter* parameter = nullptr;
  std::vector<Storage> storages;
};

// The tensors of the output in their order there, each with all of its matrices: those that stay floats too.
std::vector<std::pair<std::string, std::vector<PlannedMatrix>>> planned_groups(const Exporter& exporter,
                                                                               const model::Architecture& architecture,
                                                                               const quant::Plan& plan,
                                                                               const quant::Recipe& recipe) {
  std::map<std::string, const quant::QuantizeItem*> items;  // by the name that a matrix has in recipes
  for (const quant::QuantizeItem& item : plan.items) items[item.identity.name] = &item;
  std::vector<std::pair<std::string, std::vector<PlannedMatrix>>> groups;
  std::map<std::string, std::size_t> index;
  for (const model::Parameter* parameter : model::matrices(architecture)) {
    PlannedMatrix matrix{.parameter = parameter, .storages = {}};
    if (const auto item = items.find(parameter->module); item == items.end())
      matrix.storages = {{.rows = parameter->out, .cols = parameter->in}};
    else
      for (const quant::TensorSettings& settings : possible_settings(*item->second, recipe))
        matrix.storages.push_back(storage_of(settings, parameter->out, parameter->in));
    for (Storage& storage : matrix.storages) storage.set_purpose(architecture, *parameter);
    const auto [found, added] = index.try_emplace(group_name(exporter, architecture, *parameter), groups.size());
    if (added) groups.push_back({found->first, {}});
    groups[found->second].second.push_back(std::move(matrix));
  }
  return groups;
}

// Whether matrices of one tensor may be stored differently: a budget decides on each of them by itself.
bool is_mixed(const std::vector<PlannedMatrix>& group) {
  return group.size() > 1 && std::any_of(group.begin(), group.end(), [&](const PlannedMatrix& matrix) {
           return std::any_of(matrix.storages.begin(), matrix.storages.end(), [&](const Storage& storage) {
             return !storage.same_codes(group.front().storages.front());
           });
         });
}

}  // namespace

ExportResult export_checkpoint(const ExportRequest& request) {
  check_options(request.exporter, request.options);
  for (const fs::path& file : files_of(request)) remove_left_lock(file_to_replace(file));
  check_output(request);
  const ExportModel model(request.model);
  if (request.exporter.require_known) request.exporter.require_known(model.architecture());
  const ExportPlan plan = plan_export(request.exporter, model, request.options);
  refuse_biases(request.exporter, model.architecture(), [&](const model::Parameter& layer) {
    return layer.biased || model.weights().contains(layer.bias.tensor);
  });
  ExportResult result = request.exporter.directory ? export_to_directory(request, plan) : export_to_file(request, plan);
  if (request.options.golden) request.exporter.write_golden(model, request.options, request.output);
  return result;
}

void require_exportable(const Exporter& exporter, const fs::path& model, const quant::Recipe& recipe) {
  const auto checkpoint = model::open_checkpoint(model);
  const model::Architecture& architecture = checkpoint->architecture();
  if (exporter.require_known) exporter.require_known(architecture);
  const quant::Plan plan = quant::make_plan(checkpoint, architecture, recipe);
  std::vector<Refusal> refusals;
  for (const auto& [name, group] : planned_groups(exporter, architecture, plan, recipe)) {
    const bool mixed = is_mixed(group);
    for (const PlannedMatrix& matrix : group)
      for (const Storage& storage : matrix.storages) {
        if (!storage.coded()) continue;
        const Fit fit = fit_in_group(exporter, storage, name, mixed);
        if (fit.kind == Fit::Kind::kRefused) refusals.push_back({matrix.parameter->module, storage, fit});
      }
  }
  refuse(exporter, refusals, "Change the recipe, or leave --for out");
  std::set<std::string> shifted;
  for (const quant::QuantizeItem& item : plan.items)
    if (item.settings.shifting) shifted.insert(item.identity.name);
  const auto weights = model::make_float_provider(checkpoint);
  refuse_biases(exporter, architecture, [&](const model::Parameter& layer) {
    return layer.biased || shifted.contains(layer.module) || weights->contains(layer.bias.tensor);
  });
}

std::vector<ListedFit> listed_fits(const Exporter& exporter) {
  using quant::Format;
  constexpr std::size_t kRows = 4096, kCols = 4096;  // divisible by every group
  std::vector<Storage> storages;
  const auto add = [&](Storage storage) {
    storage.rows = kRows;
    storage.cols = kCols;
    storages.push_back(storage);
  };
  for (const std::size_t group : {std::size_t{32}, std::size_t{64}, std::size_t{128}})
    for (const bool zero_points : {false, true})
      add({.format = Format::kInt4Block, .bits = 4, .group_size = group, .zero_points = zero_points});
  for (const unsigned bits : {2u, 3u, 4u, 5u, 6u, 7u, 8u})
    for (const std::size_t group : {std::size_t{0}, std::size_t{32}})
      for (const bool zero_points : {false, true})
        add({.format = Format::kUniform, .bits = bits, .group_size = group, .zero_points = zero_points});
  for (const unsigned bits : {1u, 2u, 3u, 4u, 6u, 8u}) add({.format = Format::kPalette, .bits = bits});
  add({.format = Format::kPalette, .bits = 4, .group_size = 8});
  add({.format = Format::kPalette, .bits = 4, .group_size = 1});
  add({.format = Format::kPalette, .bits = 4, .row_scales = true});
  add({.format = Format::kPalette, .bits = 4, .palette_dtype = quant::PaletteDtype::kInt8});
  add({.format = Format::kPalette, .bits = 4, .palette_dtype = quant::PaletteDtype::kFloat32});
  add({.format = Format::kPalette, .bits = 4, .cluster_dim = 2});
  add({.format = Format::kPalette, .bits = 4, .outliers = true});
  add({.format = Format::kPalette, .bits = 2, .window_bits = 6});
  add({.format = Format::kBlockPalette, .bits = 4, .group_size = 32});
  for (const auto& [palette, scale, group] :
       {std::tuple{quant::BlockPalette::kNf4, quant::ScaleType::kFloat16, std::size_t{64}},
        {quant::BlockPalette::kIq4Nl, quant::ScaleType::kFloat16, std::size_t{32}},
        {quant::BlockPalette::kFp4, quant::ScaleType::kE8M0, std::size_t{32}},
        {quant::BlockPalette::kFp4, quant::ScaleType::kE4M3, std::size_t{16}}})
    add({.format = Format::kBlockPalette,
         .bits = 4,
         .group_size = group,
         .block_palette = palette,
         .scale_type = scale});
  add({.format = Format::kUniform, .bits = 3, .group_size = 16, .super_block = 256});
  add({.format = Format::kBlockPalette,
       .bits = 4,
       .group_size = 32,
       .block_palette = quant::BlockPalette::kIq4Nl,
       .super_block = 256});
  std::vector<ListedFit> fits;
  for (const Storage& storage : storages) fits.push_back({storage.text(), exporter.fit(storage)});
  return fits;
}

}  // namespace nibble::exporting
