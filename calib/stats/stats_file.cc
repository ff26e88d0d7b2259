#include "calib/stats/stats_file.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "calib/stats/derived.h"
#include "calib/stats/hdf5_read.h"
#include "calib/stats/stats_schema.h"
#include "core/checked_math.h"
#include "core/error.h"
#include "core/text/suggest.h"

namespace nibble::calib {
namespace {

constexpr std::size_t kMaxLayers = 1 << 20;
constexpr std::uint64_t kMaxFeatures = 1 << 28;  // of one side of a weight

std::uint64_t read_scalar_attribute(hid_t object, const std::string& name, std::string_view what) {
  const std::vector<std::uint64_t> values = h5::read_integer_attribute(object, name, what);
  NIBBLE_REQUIRE(values.size() == 1, FormatError, "{}: attribute '{}': expected one number, got {}", what, name,
                 values.size());
  return values[0];
}

RunSettings read_settings(hid_t root, std::string_view what) {
  const std::string format = h5::read_text_attribute(root, "format", what);
  NIBBLE_REQUIRE(format == schema::kFormat, FormatError, "{}: expected the format '{}', got '{}'", what,
                 schema::kFormat, format);
  const std::uint64_t version = read_scalar_attribute(root, "version", what);
  NIBBLE_REQUIRE(version == schema::kVersion, FormatError,
                 "{}: format version {}, this program reads version {}: make it again with `nibble calibrate`", what,
                 version, schema::kVersion);
  const auto text = [&](const char* name) { return h5::read_text_attribute(root, name, what); };
  const std::string head = text("head");
  NIBBLE_REQUIRE(head == "yes" || head == "no", FormatError, "{}: attribute 'head': expected yes or no, got '{}'", what,
                 head);
  try {
    return {.model_hash = text("model_hash"),
            .tokenizer_hash = text("tokenizer_hash"),
            .text_hash = text("text_hash"),
            .windows_hash = text("windows_hash"),
            .sampling = text("sampling"),
            .windows = read_scalar_attribute(root, "windows", what),
            .window_tokens = read_scalar_attribute(root, "window_tokens", what),
            .seeds = h5::read_integer_attribute(root, "seeds", what),
            .flavour = parse_fisher_flavour(text("flavour")),
            .labels = parse_labels(text("labels")),
            .centre = text("centre"),
            .guide = h5::has_attribute(root, "guide") ? parse_guide(text("guide")) : Guide::kPlain,
            .head = head == "yes",
            .collected = parse_statistic_set(text("collected")),
            .kernels = text("kernels"),
            .program = h5::has_attribute(root, "program") ? text("program") : ""};
  } catch (const InvalidArgument& error) {  // a word that this program does not know
    throw FormatError(fmt::format("{}: {}", what, error.what()));
  }
}

template <class T>
void read_values(hid_t group, const char* name, std::span<const std::uint64_t> shape, std::uint64_t file_size,
                 std::string_view what, std::vector<T>& values) {
  const std::string text = fmt::format("{}: '{}'", what, name);
  const h5::Handle dataset = h5::open_dataset(group, name, what);
  h5::check_dataset<T>(dataset.id(), shape, file_size, text);
  values.resize(checked_element_count(shape, text));
  h5::read_checked_dataset(dataset.id(), values.data(), text);
}

template <class T>
T read_scalar(hid_t group, const char* name, std::uint64_t file_size, std::string_view what) {
  std::vector<T> values;
  read_values(group, name, {}, file_size, what, values);
  return values.at(0);
}

void read_matrix(hid_t group, const char* name, std::array<std::uint64_t, 2> shape, std::uint64_t file_size,
                 std::string_view what, Matrix<float>& matrix) {
  const std::string text = fmt::format("{}: '{}'", what, name);
  const h5::Handle dataset = h5::open_dataset(group, name, what);
  h5::check_dataset<float>(dataset.id(), shape, file_size, text);
  matrix = Matrix<float>(shape[0], shape[1]);
  h5::read_checked_dataset(dataset.id(), matrix.data(), text);
}

void read_guide_sums(hid_t group, std::uint64_t file_bytes, const std::string& what, LayerStats& stats) {
  stats.sum_s = read_scalar<double>(group, schema::kSumS.name, file_bytes, what);
  if (h5::has_link(group, schema::kSumS2.name))
    stats.sum_s2 = read_scalar<double>(group, schema::kSumS2.name, file_bytes, what);
}

}  // namespace

struct StatsFile::State {
  explicit State(const std::filesystem::path& where) : path(where), name(where.string()) {
    file = h5::open_file(name);
    size = h5::file_bytes(file.id(), name);
    settings = read_settings(file.id(), name);
    tokens = checked_multiply(settings.windows, settings.window_tokens, name);
    groups = h5::open_group(file.id(), schema::kLayers, name);
    std::map<std::uint64_t, std::string> owners;  // of sum_xxt data sets, by address
    for (const std::string& module : h5::link_names(groups.id(), kMaxLayers, name)) add_layer(module, owners);
    NIBBLE_REQUIRE(!layers.empty(), FormatError, "{}: holds no layers", name);
  }

  void require_collected(const LayerInfo& info, const StatisticSet& what) const {
    NIBBLE_REQUIRE(info.holds.includes(what), InvalidArgument,
                   "{}: layer '{}': needs the statistics {}, but the run collected {}", name, info.module,
                   to_text(what), to_text(info.holds));
  }

  void add_layer(const std::string& module, std::map<std::uint64_t, std::string>& owners) {
    NIBBLE_REQUIRE(is_valid_layer_name(module), FormatError, "{}: '{}' cannot be the name of a layer", name, module);
    const std::string what = fmt::format("{}: layer '{}'", name, module);
    const h5::Handle group = h5::open_group(groups.id(), module, name);
    LayerInfo info{.module = module, .out = 0, .in = 0, .tokens = 0, .input_of = {}};
    for (const auto& [attribute, extent] : {std::pair{"out", &info.out}, std::pair{"in", &info.in}}) {
      *extent = read_scalar_attribute(group.id(), attribute, what);
      NIBBLE_REQUIRE(*extent > 0 && *extent <= kMaxFeatures, FormatError, "{}: '{}' is {}, expected 1 to {}", what,
                     attribute, *extent, kMaxFeatures);
    }
    const auto found_tokens = read_scalar<std::uint64_t>(group.id(), schema::kTokens.name, size, what);
    const auto found_samples = read_scalar<std::uint64_t>(group.id(), schema::kSamples.name, size, what);
    // An expert saw the tokens that chose it, the other layers all of them; which is which, the model knows.
    NIBBLE_REQUIRE(found_tokens <= tokens && found_samples == settings.windows, FormatError,
                   "{}: {} windows with {} tokens in all, but the file's settings say {} windows of {} tokens", what,
                   found_samples, found_tokens, settings.windows, settings.window_tokens);
    info.tokens = found_tokens;
    if (settings.collected.hessian) {
      const h5::Handle dataset = h5::open_dataset(group.id(), schema::kSumXxt.name, what);
      const auto [owner, is_first] = owners.emplace(h5::object_address(dataset.id(), what), module);
      if (!is_first) info.input_of = owner->second;
    }
    info.holds = settings.collected;
    if (settings.head) info.holds.output_hessian &= h5::has_link(group.id(), schema::kSumDydyt.name);
    index.emplace(module, layers.size());
    layers.push_back(std::move(info));
  }

  std::filesystem::path path;
  std::string name;
  h5::Handle file, groups;
  std::uint64_t size = 0, tokens = 0;
  RunSettings settings;
  std::vector<LayerInfo> layers;
  std::map<std::string, std::size_t> index;
};

StatsFile::StatsFile(std::unique_ptr<State> state) : state_(std::move(state)) {}

StatsFile::~StatsFile() {
  const h5::Session session;
  state_.reset();
}

std::shared_ptr<const StatsFile> StatsFile::open(const std::filesystem::path& path) {
  const h5::Session session;
  return std::shared_ptr<const StatsFile>(new StatsFile(std::make_unique<State>(path)));
}

const std::filesystem::path& StatsFile::path() const { return state_->path; }
const RunSettings& StatsFile::settings() const { return state_->settings; }
const std::vector<LayerInfo>& StatsFile::layers() const { return state_->layers; }
bool StatsFile::contains(const std::string& module) const { return state_->index.contains(module); }

const LayerInfo& StatsFile::layer(const std::string& module) const {
  const auto found = state_->index.find(module);
  if (found == state_->index.end()) {
    std::vector<std::string_view> names;
    for (const LayerInfo& info : state_->layers) names.push_back(info.module);
    throw FormatError(fmt::format("{}: holds no layer '{}'{}", state_->name, module, did_you_mean(module, names)));
  }
  return state_->layers[found->second];
}

LayerStats StatsFile::read(const std::string& module, const StatisticSet& what) const {
  const h5::Session session;
  const LayerInfo& info = layer(module);
  const RunSettings& run = state_->settings;
  state_->require_collected(info, what);
  LayerStats stats{.module = module,
                   .out = info.out,
                   .in = info.in,
                   .tokens = info.tokens,
                   .samples = run.windows,
                   .input_of = info.input_of};
  const std::string text = fmt::format("{}: layer '{}'", state_->name, module);
  const h5::Handle group = h5::open_group(state_->groups.id(), module, text);
  const hid_t g = group.id();
  const std::uint64_t in = info.in;
  const std::span<const std::uint64_t> vector_shape(&in, 1);
  if (what.activations) {
    read_values(g, schema::kSumX.name, vector_shape, state_->size, text, stats.sum_x);
    read_values(g, schema::kSumX2.name, vector_shape, state_->size, text, stats.sum_x2);
    read_values(g, schema::kSumAbsX.name, vector_shape, state_->size, text, stats.sum_abs_x);
    read_values(g, schema::kMinX.name, vector_shape, state_->size, text, stats.min_x);
    read_values(g, schema::kMaxX.name, vector_shape, state_->size, text, stats.max_x);
  }
  if (what.fisher) read_matrix(g, schema::kFisherSequence.name, {info.out, in}, state_->size, text, stats.fisher);
  if (what.hessian) read_matrix(g, schema::kSumXxt.name, {in, in}, state_->size, text, stats.sum_xxt);
  if (what.guided_hessian) {
    read_guide_sums(g, state_->size, text, stats);
    read_values(g, schema::kSumSX.name, vector_shape, state_->size, text, stats.sum_s_x);
    read_matrix(g, schema::kSumSXxt.name, {in, in}, state_->size, text, stats.sum_s_xxt);
  }
  if (what.output_hessian)
    read_matrix(g, schema::kSumDydyt.name, {info.out, info.out}, state_->size, text, stats.sum_dydyt);
  check_layer(stats, state_->name);
  return stats;
}

double StatsFile::effective_tokens(const std::string& module) const {
  const h5::Session session;
  LayerStats stats{.module = layer(module).module};
  state_->require_collected(layer(module), {.guided_hessian = true});
  const std::string text = fmt::format("{}: layer '{}'", state_->name, module);
  read_guide_sums(h5::open_group(state_->groups.id(), module, text).id(), state_->size, text, stats);
  check_guide_sums(stats, state_->name);
  return calib::effective_tokens(stats.sum_s, stats.sum_s2);
}

}  // namespace nibble::calib
