#include "quant/recipe/recipe_keys.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "calib/stats/hessian_names.h"
#include "core/error.h"
#include "core/text/choice.h"
#include "core/text/json.h"
#include "core/text/suggest.h"
#include "quant/format/windowed_codes.h"

namespace nibble::quant {
namespace {

using Json = nlohmann::ordered_json;
using Applies = bool (*)(const TensorSettings&);

// Conditions beside that the format takes the key.
bool is_scaled(const TensorSettings& s) { return s.scaling != Scaling::kNone; }
bool is_solved(const TensorSettings& s) { return s.solver != Solver::kNearest; }
bool is_grid(const TensorSettings& s) { return s.coded() && !s.has_palette(); }
bool starts_at_random(const TensorSettings& s) { return s.cluster_dim > 1 || s.window_bits != 0; }
bool is_learned(const TensorSettings& s) { return s.learns_block_palette(); }
bool always(const TensorSettings&) { return true; }
bool is_guided(const TensorSettings& s) { return is_solved(s) && calib::is_guided(s.hessian); }

template <class T>
bool parse_integer(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

template <class T>
bool contains(std::span<const T> values, std::type_identity_t<T> value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

template <class E, std::size_t kCount>
E one_of(std::string_view key, std::string_view text, const std::array<Choice<E>, kCount>& choices) {
  return choose(key, text, choices, ", ");
}

// The parts that all keys share: how to print, reset and compare one member.
template <class T>
RecipeKey key_of(std::string_view name, T TensorSettings::*member, Applies applies, std::string_view goes_with) {
  RecipeKey key;
  key.name = name;
  if constexpr (std::is_arithmetic_v<T>) key.print = [member](const TensorSettings& s) { return Json(s.*member); };
  key.reset = [member](TensorSettings& s) { s.*member = TensorSettings{}.*member; };
  key.is_default = [member](const TensorSettings& s) { return s.*member == TensorSettings{}.*member; };
  key.applies = [=](const TensorSettings& s) { return s.stored_as().takes(name) && applies(s); };
  key.printed = key.applies;
  key.goes_with = goes_with;
  return key;
}

template <class E, std::size_t kCount>
RecipeKey choice(std::string_view name, E TensorSettings::*member, const std::array<Choice<E>, kCount>& choices,
                 Applies applies, std::string_view goes_with) {
  RecipeKey key = key_of(name, member, applies, goes_with);
  key.assign = [=](TensorSettings& s, std::string_view text) { s.*member = one_of(name, text, choices); };
  key.print = [=](const TensorSettings& s) { return Json(std::string(name_of(s.*member, choices))); };
  return key;
}

RecipeKey format_key() {
  RecipeKey key = key_of("format", &TensorSettings::format, always, "");
  key.applies = key.printed = always;
  key.assign = [](TensorSettings& s, std::string_view text) {
    std::vector<std::string_view> names;
    for (const StorageFormat* format : storage_formats()) names.push_back(format->name);
    const StorageFormat* found = find_storage_format(text);
    NIBBLE_REQUIRE(found != nullptr, InvalidArgument, "format: expected {}, got '{}'{}", fmt::join(names, ", "), text,
                   did_you_mean(text, names));
    s.format = found->format;
  };
  key.print = [](const TensorSettings& s) { return Json(std::string(s.stored_as().name)); };
  return key;
}

RecipeKey flag(std::string_view name, bool TensorSettings::*member, Applies applies, std::string_view goes_with) {
  RecipeKey key = key_of(name, member, applies, goes_with);
  key.assign = [=](TensorSettings& s, std::string_view text) {
    NIBBLE_REQUIRE(text == "true" || text == "false", InvalidArgument, "{}: expected true or false, got '{}'", name,
                   text);
    s.*member = text == "true";
  };
  return key;
}

RecipeKey number(std::string_view name, double TensorSettings::*member, double least, double most, Applies applies,
                 std::string_view goes_with) {
  RecipeKey key = key_of(name, member, applies, goes_with);
  key.assign = [=](TensorSettings& s, std::string_view text) { s.*member = parse_number(name, text, least, most); };
  return key;
}

template <class T>
RecipeKey count(std::string_view name, T TensorSettings::*member, T most, Applies applies, std::string_view goes_with) {
  RecipeKey key = key_of(name, member, applies, goes_with);
  key.assign = [=](TensorSettings& s, std::string_view text) {
    s.*member = static_cast<T>(parse_count(name, text, most));
  };
  return key;
}

RecipeKey bits_key() {
  RecipeKey key = key_of(
      "bits", &TensorSettings::bits, [](const TensorSettings& s) { return !s.has_block_palette() || is_learned(s); },
      "format palette or uniform (int4-block always stores 4 bits, float16 16) and learned block palettes (the fixed "
      "ones have 4)");
  key.assign = [](TensorSettings& s, std::string_view text) { s.bits = parse_bits(text); };
  return key;
}

RecipeKey group_size_key() {
  RecipeKey key = key_of(
      "group_size", &TensorSettings::group_size,
      [](const TensorSettings& s) { return !s.has_palette() || s.granularity == Granularity::kChannelGroup; },
      "granularity: channel-group (output rows per palette), int4-block, uniform and block-palette (inputs per block)");
  key.assign = [](TensorSettings& s, std::string_view text) {
    std::size_t value = 0;
    NIBBLE_REQUIRE(parse_integer(text, value) && value <= 65536, InvalidArgument,
                   "group_size: expected a whole number from 0 to 65536, got '{}'", text);
    s.group_size = value;
  };
  key.print = [](const TensorSettings& s) { return Json(s.effective_group_size()); };
  return key;
}

RecipeKey cluster_dim_key() {
  RecipeKey key = key_of(
      "cluster_dim", &TensorSettings::cluster_dim, [](const TensorSettings& s) { return s.scaling == Scaling::kNone; },
      "format: palette without scaling");
  key.assign = [](TensorSettings& s, std::string_view text) {
    NIBBLE_REQUIRE(text == "1" || text == "2" || text == "4", InvalidArgument,
                   "cluster_dim: expected 1, 2 or 4, got '{}'", text);
    parse_integer(text, s.cluster_dim);
  };
  return key;
}

RecipeKey window_bits_key() {
  RecipeKey key = key_of("window_bits", &TensorSettings::window_bits, always, "format: palette");
  key.printed_by_default = false;  // recipes without windows stay what they were
  key.assign = [](TensorSettings& s, std::string_view text) { s.window_bits = parse_window_bits(text); };
  return key;
}

RecipeKey super_block_key() {
  RecipeKey key = key_of("super_block", &TensorSettings::super_block, always, "uniform and block-palette");
  key.printed_by_default = false;  // recipes without super-blocks stay what they were
  key.assign = [](TensorSettings& s, std::string_view text) {
    NIBBLE_REQUIRE(text == "0" || text == "256", InvalidArgument,
                   "super_block: expected 0 (scales of any value) or 256 (inputs, as GGUF has them), got '{}'", text);
    parse_integer(text, s.super_block);
  };
  return key;
}

// The words of keys, in the order of docs/recipe.md.
constexpr std::array<Choice<Granularity>, 3> kGranularities{{{"tensor", Granularity::kTensor},
                                                             {"channel-group", Granularity::kChannelGroup},
                                                             {"channel", Granularity::kChannel}}};
constexpr std::array<Choice<PaletteDtype>, 3> kPaletteDtypes{
    {{"float16", PaletteDtype::kFloat16}, {"int8", PaletteDtype::kInt8}, {"float32", PaletteDtype::kFloat32}}};
constexpr std::array<Choice<Scaling>, 4> kScalings{{{"none", Scaling::kNone},
                                                    {"std", Scaling::kStd},
                                                    {"absmax", Scaling::kAbsmax},
                                                    {"least-squares", Scaling::kLeastSquares}}};
constexpr std::array<Choice<ScaleSearch>, 4> kSearches{{{"none", ScaleSearch::kNone},
                                                        {"error", ScaleSearch::kError},
                                                        {"weighted", ScaleSearch::kWeighted},
                                                        {"hessian", ScaleSearch::kHessian}}};
constexpr std::array<Choice<Weighting>, 5> kWeightings{{{"none", Weighting::kNone},
                                                        {"fisher", Weighting::kFisher},
                                                        {"second-moment", Weighting::kSecondMoment},
                                                        {"magnitude", Weighting::kMagnitude},
                                                        {"hessian", Weighting::kHessian}}};
constexpr std::array<Choice<WeightingScale>, 2> kWeightingScales{
    {{"objective", WeightingScale::kObjective}, {"plain", WeightingScale::kPlain}}};
constexpr std::array<Choice<Sign>, 3> kSigns{
    {{"plain", Sign::kPlain}, {"flip", Sign::kFlip}, {"search", Sign::kSearch}}};
constexpr std::array<Choice<Solver>, 3> kSolvers{
    {{"nearest", Solver::kNearest}, {"gptq", Solver::kGptq}, {"coordinate-descent", Solver::kCoordinateDescent}}};
constexpr std::array<Choice<Int4Scale>, 4> kInt4Scales{{{"extreme-8", Int4Scale::kExtreme8},
                                                        {"absmax-7", Int4Scale::kAbsmax7},
                                                        {"absmax-7.5", Int4Scale::kAbsmax7_5},
                                                        {"minmax", Int4Scale::kMinmax}}};
constexpr std::array<Choice<UniformScale>, 2> kUniformScales{
    {{"absmax", UniformScale::kAbsmax}, {"extreme", UniformScale::kExtreme}}};
constexpr std::array<Choice<DampingBy>, 2> kDampingUnits{{{"own", DampingBy::kOwn}, {"mean", DampingBy::kMean}}};
constexpr std::array<Choice<GuidedInputs>, 2> kGuidedInputs{
    {{"float", GuidedInputs::kFloat}, {"drifted", GuidedInputs::kDrifted}}};
constexpr std::array<Choice<InputScaling>, 2> kInputScalings{
    {{"none", InputScaling::kNone}, {"awq", InputScaling::kAwq}}};
constexpr std::array<Choice<BlockPalette>, 4> kPaletteChoices{{{"learned", BlockPalette::kLearned},
                                                               {"nf4", BlockPalette::kNf4},
                                                               {"iq4_nl", BlockPalette::kIq4Nl},
                                                               {"fp4", BlockPalette::kFp4}}};
constexpr std::array<Choice<ScaleType>, 3> kBlockScales{
    {{"float16", ScaleType::kFloat16}, {"e8m0", ScaleType::kE8M0}, {"e4m3", ScaleType::kE4M3}}};
constexpr std::array<Choice<LossEstimate>, 5> kLossEstimates{{{"auto", LossEstimate::kAuto},
                                                              {"fisher", LossEstimate::kFisher},
                                                              {"guided-hessian", LossEstimate::kGuidedHessian},
                                                              {"fisher-hessian", LossEstimate::kFisherHessian},
                                                              {"kronecker", LossEstimate::kKronecker}}};

RecipeKey output_hessian_key() {
  RecipeKey key = flag("output_hessian", &TensorSettings::output_hessian, is_solved, "solver: coordinate-descent");
  key.printed_by_default = false;  // recipes without it stay what they were
  return key;
}

RecipeKey damping_by_key() {
  RecipeKey key =
      choice("damping_by", &TensorSettings::damping_by, kDampingUnits, is_solved, "solver: gptq or coordinate-descent");
  key.printed_by_default = false;  // recipes without it stay what they were
  return key;
}

RecipeKey static_groups_key() {
  RecipeKey key = flag(
      "static_groups", &TensorSettings::static_groups,
      [](const TensorSettings& s) { return is_solved(s) && s.effective_group_size() != 0; },
      "int4-block, uniform and block-palette with a solver, in groups of a row (uniform: say a group_size other "
      "than 0, its default)");
  // Recipes of whole rows stay what they were.
  key.printed = [](const TensorSettings& s) { return s.stored_as().takes("static_groups") && is_solved(s); };
  return key;
}

// What tells rows apart under a palette that they share. Of a palette of its own a sign is the mirror image, and how a
// row weighs beside others is nothing to it.
template <class E, std::size_t kCount>
RecipeKey choice_among_rows(std::string_view name, E TensorSettings::*member,
                            const std::array<Choice<E>, kCount>& choices) {
  RecipeKey key = choice(
      name, member, choices, [](const TensorSettings& s) { return is_scaled(s) && s.effective_group_size() != 1; },
      "a palette with scaling other than none that rows share");
  // Recipes of palettes by row stay what they were.
  key.printed = [name](const TensorSettings& s) { return s.stored_as().takes(name) && is_scaled(s); };
  return key;
}

RecipeKey guided_inputs_key() {
  RecipeKey key = choice(
      "guided_inputs", &TensorSettings::guided_inputs, kGuidedInputs,
      [](const TensorSettings& s) { return s.sequential && s.drift_correction > 0.0 && is_guided(s); },
      "drift_correction and a guided Hessian");
  key.printed_by_default = false;  // recipes without it stay what they were
  return key;
}

RecipeKey uniform_scale_key() {
  RecipeKey key = choice(
      "uniform_scale", &TensorSettings::uniform_scale, kUniformScales,
      [](const TensorSettings& s) { return !s.zero_point && s.super_block == 0; },
      "format: uniform without zero_point and super_block (whose scales have either sign)");
  key.printed_by_default = false;  // recipes without it stay what they were
  return key;
}

std::vector<RecipeKey> make_keys() {
  using S = TensorSettings;
  constexpr std::string_view kPaletteOnly = "format: palette", kCodedOnly = "every format but float16",
                             kSolvedOnly = "solver: gptq or coordinate-descent",
                             kBlockPaletteOnly = "format: block-palette",
                             kBlocksOnly = "int4-block, uniform and block-palette",
                             kGridOnly = "int4-block and uniform";
  const auto weighted = [](const S& s) { return s.has_palette() || is_learned(s) || s.search != ScaleSearch::kNone; };
  const auto alternates = [](const S& s) { return is_learned(s) || is_scaled(s); };
  return {
      format_key(),
      choice("palette", &S::palette, kPaletteChoices, always, kBlockPaletteOnly),
      choice("block_scale", &S::block_scale, kBlockScales, always, kBlockPaletteOnly),
      bits_key(),
      choice("granularity", &S::granularity, kGranularities, always, kPaletteOnly),
      group_size_key(),
      choice("palette_dtype", &S::palette_dtype, kPaletteDtypes, always, kPaletteOnly),
      choice("scaling", &S::scaling, kScalings, always, kPaletteOnly),
      cluster_dim_key(),
      window_bits_key(),
      choice("search", &S::search, kSearches, always, kBlocksOnly),
      choice("weighting", &S::weighting, kWeightings, weighted,
             "format: palette, a learned block palette, or blocks with search"),
      choice_among_rows("weighting_scale", &S::weighting_scale, kWeightingScales),
      choice_among_rows("sign", &S::sign, kSigns),
      count<std::uint64_t>("joint_iterations", &S::joint_iterations, 1000, alternates,
                           "a palette with scaling other than none, or a learned block palette"),
      flag("shifting", &S::shifting, always, kCodedOnly),
      choice("solver", &S::solver, kSolvers, always, kCodedOnly),
      choice("hessian", &S::hessian, calib::kHessianKinds, is_solved, kSolvedOnly),
      output_hessian_key(),
      flag("act_order", &S::act_order, is_solved, kSolvedOnly),
      static_groups_key(),
      number("damping", &S::damping, 0.0, 1.0, is_solved, kSolvedOnly),
      damping_by_key(),
      count<std::uint64_t>("codebook_iterations", &S::codebook_iterations, 1000, is_solved,
                           "a palette with solver: gptq or coordinate-descent"),
      flag("sequential", &S::sequential, always, kCodedOnly),
      number(
          "drift_correction", &S::drift_correction, 0.0, 1.0, [](const S& s) { return s.sequential && is_solved(s); },
          "sequential: true and a solver other than nearest"),
      guided_inputs_key(),
      choice("int4_scale", &S::int4_scale, kInt4Scales, always, "format: int4-block"),
      uniform_scale_key(),
      flag("zero_point", &S::zero_point, always, kGridOnly),
      choice("input_scaling", &S::input_scaling, kInputScalings, always, kCodedOnly),
      number("outliers_sensitive", &S::outliers_sensitive, 0.0, 0.5, always, kPaletteOnly),
      number("outliers_large", &S::outliers_large, 0.0, 0.5, always, kPaletteOnly),
      number("outliers_saving", &S::outliers_saving, 0.0, 0.5, always, kPaletteOnly),
      super_block_key(),
      count<std::uint64_t>(
          "seed", &TensorSettings::seed, ~std::uint64_t{0}, starts_at_random,
          "palettes of vectors (cluster_dim) or windows (window_bits): others start nowhere at random"),
  };
}

}  // namespace

std::span<const RecipeKey> recipe_keys() {
  static const std::vector<RecipeKey> keys = make_keys();
  return keys;
}

const RecipeKey& find_recipe_key(std::string_view name) {
  const auto keys = recipe_keys();
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const RecipeKey& k) { return k.name == name; });
  if (key != keys.end()) return *key;
  std::vector<std::string_view> names;
  for (const RecipeKey& k : keys) names.push_back(k.name);
  throw InvalidArgument(fmt::format("unknown key '{}'{}", name, did_you_mean(name, names)));
}

namespace {

// What a palette that is read through windows cannot go with.
void check_windows(const TensorSettings& s) {
  NIBBLE_REQUIRE(s.bits <= kMostWindowStep && s.bits < s.window_bits, InvalidArgument,
                 "window_bits: windows of {} bits go on by 1 to {} bits from one weight to the next, and overlap: bits "
                 "is {}",
                 s.window_bits, std::min(kMostWindowStep, s.window_bits - 1), s.bits);
  NIBBLE_REQUIRE(s.granularity == Granularity::kTensor, InvalidArgument,
                 "window_bits: streams run down all outputs, which share one palette: it needs granularity: tensor");
  NIBBLE_REQUIRE(s.cluster_dim == 1, InvalidArgument,
                 "window_bits: its palettes are of scalars: it needs cluster_dim: 1");
  NIBBLE_REQUIRE(s.sign == Sign::kPlain, InvalidArgument,
                 "window_bits: signs of rows are not searched under a windowed palette: it needs sign: plain");
  NIBBLE_REQUIRE(s.scaling != Scaling::kLeastSquares, InvalidArgument,
                 "window_bits: scaling: least-squares keeps the palette, and codes that overlap are not chosen row by "
                 "row; say scaling: std with joint_iterations");
  NIBBLE_REQUIRE(s.weighting_scale == WeightingScale::kObjective, InvalidArgument,
                 "window_bits: its palettes are fitted to the squared error itself: it needs weighting_scale: "
                 "objective");
  NIBBLE_REQUIRE(!s.keeps_outliers(), InvalidArgument,
                 "window_bits: no weights are kept apart beside codes that overlap: it needs outliers of 0");
}

// What palettes that blocks scale cannot go with.
void check_block_palette(const TensorSettings& s) {
  NIBBLE_REQUIRE(is_learned(s) || s.bits == 4, InvalidArgument, "bits: the palette {} has codes of 4 bits, got {}",
                 block_palette_name(s.palette), s.bits);
  NIBBLE_REQUIRE(s.joint_iterations == 0 || s.search == ScaleSearch::kError || s.search == ScaleSearch::kWeighted,
                 InvalidArgument,
                 "joint_iterations: palettes of blocks alternate with scales that are searched for the same error: it "
                 "needs search: error or weighted");
}

// What scales that are multiples of a shared step cannot go with.
void check_super_block(const TensorSettings& s) {
  const std::size_t group = s.effective_group_size();
  NIBBLE_REQUIRE(
      group != 0 && group < s.super_block, InvalidArgument,
      "super_block: several blocks of {} inputs share a step: it needs group_size: 16, 32, 64 or 128, got {}",
      s.super_block, group);
  NIBBLE_REQUIRE(!s.zero_point, InvalidArgument,
                 "super_block: its blocks have scales alone: it needs zero_point: false");
  NIBBLE_REQUIRE(!s.has_block_palette() || s.block_scale == ScaleType::kFloat16, InvalidArgument,
                 "super_block: its scales are multiples of a float16: it needs block_scale: float16");
  NIBBLE_REQUIRE(s.static_groups, InvalidArgument,
                 "super_block: scales are chosen for all blocks at once: it needs static_groups: true");
}

}  // namespace

void check_combination(const TensorSettings& s) {
  const StorageFormat& format = s.stored_as();
  NIBBLE_REQUIRE(!format.takes("bits") || contains(format.bits, s.bits), InvalidArgument,
                 "bits: expected {} with format: {}, got {}", fmt::join(format.bits, ", "), format.name, s.bits);
  if (s.has_palette() && s.window_bits != 0) check_windows(s);
  if (s.has_block_palette()) check_block_palette(s);
  if (format.takes("super_block") && s.super_block != 0) check_super_block(s);
  if (s.group_size) {
    NIBBLE_REQUIRE(format.group_sizes.empty() || contains(format.group_sizes, *s.group_size), InvalidArgument,
                   "group_size: expected {} inputs per block with {}{}, got {}", fmt::join(format.group_sizes, ", "),
                   format.name, contains(format.group_sizes, 0) ? " (0: whole rows)" : "", *s.group_size);
    NIBBLE_REQUIRE(!s.has_palette() || *s.group_size > 0, InvalidArgument,
                   "group_size: expected at least 1 output row per palette; for one palette say granularity: tensor");
  }
  NIBBLE_REQUIRE(!format.takes("int4_scale") || s.zero_point == (s.int4_scale == Int4Scale::kMinmax), InvalidArgument,
                 "zero_point: {}",
                 s.zero_point ? "only int4_scale: minmax has one; the other rules are symmetric"
                              : "int4_scale: minmax needs zero_point: true");
  NIBBLE_REQUIRE(
      !(is_grid(s) && is_solved(s)) || s.static_groups || !s.act_order, InvalidArgument,
      "static_groups: false chooses the grid of a group when its first input is reached, so inputs must come "
      "in order: it needs act_order: false");
  NIBBLE_REQUIRE(s.cluster_dim == 1 || !is_solved(s), InvalidArgument,
                 "cluster_dim: error feedback goes input by input, and a vector palette codes {} inputs at once: it "
                 "needs solver: nearest",
                 s.cluster_dim);
  NIBBLE_REQUIRE(s.outliers_saving == 0.0 || (s.outliers_sensitive == 0.0 && s.outliers_large == 0.0), InvalidArgument,
                 "outliers_saving: one rule chooses the weights that are kept: say outliers_sensitive: 0 and "
                 "outliers_large: 0, or outliers_saving: 0");
  NIBBLE_REQUIRE(s.outliers_sensitive + s.outliers_large < 1.0, InvalidArgument,
                 "outliers_sensitive: together with outliers_large it leaves no weight to the palette: expected a sum "
                 "of less than 1, got {} + {}",
                 s.outliers_sensitive, s.outliers_large);
  NIBBLE_REQUIRE(s.search == ScaleSearch::kNone || s.static_groups, InvalidArgument,
                 "search: grids are searched before error feedback starts: it needs static_groups: true");
  const bool centred = s.hessian == HessianKind::kCentred || s.hessian == HessianKind::kGuidedCentred;
  NIBBLE_REQUIRE(!centred || s.shifting || s.solver == Solver::kNearest, InvalidArgument,
                 "hessian: a centred one leaves the mean error out, which then nobody pays for: say shifting: true, "
                 "whose bias takes it up, or hessian: {}",
                 s.hessian == HessianKind::kCentred ? "plain" : "guided");
  NIBBLE_REQUIRE(!s.output_hessian || s.solver != Solver::kGptq, InvalidArgument,
                 "output_hessian: errors of outputs that make up for each other are spread and then descended on "
                 "together: it needs solver: coordinate-descent, or output_hessian: false");
  NIBBLE_REQUIRE(
      !s.sequential || !is_guided(s) || s.shifting || s.drift_correction > 0.0, InvalidArgument,
      "sequential: guided Hessians are those of calibration files, since forward passes have no gradients to guide "
      "them, so it would change nothing here: say drift_correction, shifting: true, or hessian: plain");
  NIBBLE_REQUIRE(s.search != ScaleSearch::kWeighted || s.weighting != Weighting::kNone, InvalidArgument,
                 "search: weighted needs a weighting other than none");
  NIBBLE_REQUIRE(
      s.weighting != Weighting::kHessian || is_solved(s), InvalidArgument,
      "weighting: hessian is what errors cost under the Hessian that codes are solved under: it needs solver: gptq or "
      "coordinate-descent; say weighting: none where codes are not solved for");
  NIBBLE_REQUIRE(!is_grid(s) || s.search == ScaleSearch::kWeighted || s.weighting == Weighting::kNone ||
                     (is_learned(s) && s.search != ScaleSearch::kError),
                 InvalidArgument,
                 "weighting: on grids it is what search: weighted minimises; the other searches do not use it: say "
                 "weighting: none");
}

Granularity parse_granularity(std::string_view text) { return one_of("granularity", text, kGranularities); }

std::string_view granularity_name(Granularity granularity) { return name_of(granularity, kGranularities); }

LossEstimate parse_loss_estimate(std::string_view text) { return one_of("estimate", text, kLossEstimates); }

std::string_view loss_estimate_name(LossEstimate estimate) { return name_of(estimate, kLossEstimates); }

unsigned parse_bits(std::string_view text) {
  unsigned value = 0;
  NIBBLE_REQUIRE(parse_integer(text, value) && value >= 1 && value <= 8, InvalidArgument,
                 "bits: expected a whole number from 1 to 8, got '{}'", text);
  return value;
}

unsigned parse_window_bits(std::string_view text) {
  unsigned value = 0;
  NIBBLE_REQUIRE(parse_integer(text, value) && (value == 0 || (value >= kLeastWindowBits && value <= kMostWindowBits)),
                 InvalidArgument, "window_bits: expected 0 (codes that do not overlap) or {} to {}, got '{}'",
                 kLeastWindowBits, kMostWindowBits, text);
  return value;
}

std::uint64_t parse_count(std::string_view key, std::string_view text, std::uint64_t most) {
  std::uint64_t value = 0;
  NIBBLE_REQUIRE(parse_integer(text, value) && value <= most, InvalidArgument,
                 "{}: expected a whole number from 0 to {}, got '{}'", key, most, text);
  return value;
}

double parse_number(std::string_view key, std::string_view text, double least, double most) {
  double value = 0.0;
  NIBBLE_REQUIRE(parse_integer(text, value) && value >= least && value <= most, InvalidArgument,
                 "{}: expected a number from {} to {}, got '{}'", key, least, most, text);
  return value;
}

}  // namespace nibble::quant
