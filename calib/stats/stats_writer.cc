#include "calib/stats/stats_writer.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "calib/stats/hdf5_write.h"
#include "calib/stats/stats_schema.h"
#include "core/error.h"
#include "core/files/file_lock.h"

namespace nibble::calib {
namespace {

void write_root(hid_t root, const RunSettings& settings, std::string_view what) {
  h5::write_text_attribute(root, "format", schema::kFormat, what);
  h5::write_scalar_attribute(root, "version", schema::kVersion, what);
  for (const auto& [name, value] : describe(settings)) {
    if (name == "windows") {
      h5::write_scalar_attribute(root, name, settings.windows, what);
    } else if (name == "window_tokens") {
      h5::write_scalar_attribute(root, name, settings.window_tokens, what);
    } else if (name == "seeds") {
      h5::write_vector_attribute(root, name, settings.seeds, what);
    } else {
      h5::write_text_attribute(root, name, value, what);
    }
  }
  if (!settings.program.empty()) h5::write_text_attribute(root, "program", settings.program, what);
}

template <class T>
void write_described(hid_t group, const schema::DatasetText& text, std::initializer_list<std::uint64_t> shape,
                     const T* values, std::string_view what) {
  const h5::Handle dataset = h5::write_dataset(group, text.name, {shape.begin(), shape.size()}, values, what);
  h5::write_text_attribute(dataset.id(), "meaning", text.meaning, what);
  h5::write_text_attribute(dataset.id(), "unit", text.unit, what);
}

}  // namespace

struct StatsWriter::State {
  // OutputFile makes, flushes, renames or removes its partial file; HDF5 writes into it, and locks it by itself,
  // but not before it is emptied, nor until it has its name.
  State(const std::filesystem::path& path, const RunSettings& run, Replace replace)
      : settings(run), name(path.string()), lock(file_to_replace(path)), output(path, Flush::kYes, Lock::kNo, replace) {
    const h5::Session session;
    file = h5::create_file(output.partial().string());
    write_root(file.id(), settings, name);
    layers = h5::create_group(file.id(), schema::kLayers, name);
  }

  RunSettings settings;
  std::string name;
  OutputLock lock;
  OutputFile output;
  h5::Handle file, layers;
  std::map<std::string, std::size_t> inputs;  // (in) of the layers so far
};

StatsWriter::StatsWriter(const std::filesystem::path& path, const RunSettings& settings, Replace replace)
    : state_(std::make_unique<State>(path, settings, replace)) {}

StatsWriter::~StatsWriter() {
  const h5::Session session;
  state_->layers.reset();
  state_->file.reset();
}

void StatsWriter::add(const LayerStats& layer) {
  const h5::Session session;
  const std::string what = fmt::format("{}: layer '{}'", state_->name, layer.module);
  check_layer(layer, state_->name);
  const RunSettings& settings = state_->settings;
  StatisticSet given = layer.holds();
  if (!layer.input_of.empty()) given.hessian = settings.collected.hessian;  // comes from the link
  const bool of_outputs = given.output_hessian;
  if (settings.head) given.output_hessian |= settings.collected.output_hessian;  // the head has none
  NIBBLE_REQUIRE(given == settings.collected, InvalidArgument, "{}: expected the statistics {}, got {}", what,
                 to_text(settings.collected), to_text(layer.holds()));
  NIBBLE_REQUIRE(layer.samples == settings.windows && layer.tokens <= settings.windows * settings.window_tokens,
                 InvalidArgument, "{}: expected {} windows of {} tokens, got {} and {} tokens in all", what,
                 settings.windows, settings.window_tokens, layer.samples, layer.tokens);
  const auto shared = state_->inputs.find(layer.input_of);
  NIBBLE_REQUIRE(layer.input_of.empty() || (shared != state_->inputs.end() && shared->second == layer.in),
                 InvalidArgument, "{}: shares the input of '{}', which is not there with {} inputs", what,
                 layer.input_of, layer.in);
  NIBBLE_REQUIRE(state_->inputs.emplace(layer.module, layer.in).second, InvalidArgument, "{}: added twice", what);

  const h5::Handle group = h5::create_group(state_->layers.id(), layer.module, what);
  const hid_t g = group.id();
  const std::uint64_t in = layer.in, out = layer.out;
  h5::write_scalar_attribute(g, "out", out, what);
  h5::write_scalar_attribute(g, "in", in, what);
  write_described(g, schema::kTokens, {}, &layer.tokens, what);
  write_described(g, schema::kSamples, {}, &layer.samples, what);
  const StatisticSet& holds = settings.collected;
  if (holds.activations) {
    write_described(g, schema::kSumX, {in}, layer.sum_x.data(), what);
    write_described(g, schema::kSumX2, {in}, layer.sum_x2.data(), what);
    write_described(g, schema::kSumAbsX, {in}, layer.sum_abs_x.data(), what);
    write_described(g, schema::kMinX, {in}, layer.min_x.data(), what);
    write_described(g, schema::kMaxX, {in}, layer.max_x.data(), what);
  }
  if (holds.fisher) {
    const bool sequence = settings.flavour == FisherFlavour::kSequence;
    const schema::DatasetText& text = sequence ? schema::kFisherSequence : schema::kFisherPosition;
    write_described(g, text, {out, in}, layer.fisher.data(), what);
  }
  if (holds.hessian && layer.input_of.empty()) {
    write_described(g, schema::kSumXxt, {in, in}, layer.sum_xxt.data(), what);
  } else if (holds.hessian) {
    const std::string target = fmt::format("{}/{}", layer.input_of, schema::kSumXxt.name);
    h5::check(H5Lcreate_hard(state_->layers.id(), target.c_str(), g, schema::kSumXxt.name, H5P_DEFAULT, H5P_DEFAULT),
              what);
  }
  if (holds.guided_hessian) {
    write_described(g, schema::kSumS, {}, &layer.sum_s, what);
    if (layer.sum_s2) write_described(g, schema::kSumS2, {}, &*layer.sum_s2, what);
    write_described(g, schema::kSumSX, {in}, layer.sum_s_x.data(), what);
    write_described(g, schema::kSumSXxt, {in, in}, layer.sum_s_xxt.data(), what);
  }
  if (of_outputs) write_described(g, schema::kSumDydyt, {out, out}, layer.sum_dydyt.data(), what);
}

void StatsWriter::commit() {
  const h5::Session session;
  const std::string what = fmt::format("cannot write '{}'", state_->name);
  h5::check(H5Fflush(state_->file.id(), H5F_SCOPE_LOCAL), what);
  state_->layers.close(what);
  state_->file.close(what);
  state_->output.commit();
}

}  // namespace nibble::calib
