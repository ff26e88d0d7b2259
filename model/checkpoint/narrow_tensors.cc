#include "model/checkpoint/narrow_tensors.h"

#include <algorithm>
#include <string_view>

#include "core/checked_math.h"
#include "core/error.h"
#include "model/checkpoint/narrow_sources.h"
#include "model/checkpoint/tensor_text.h"

namespace nibble::model {
namespace {

using Shape = std::vector<std::uint64_t>;

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales", kScaleInverse = "_scale_inv", kScale = "_scale";

std::optional<std::string> without(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  return std::string(name.substr(0, name.size() - suffix.size()));
}

std::string with(const std::string& name, std::string_view suffix) { return name + std::string(suffix); }

bool is_mxfp4(const Checkpoint& checkpoint, const std::string& tensor) {
  return !checkpoint.contains(tensor) && checkpoint.contains(with(tensor, kBlocks));
}

bool is_fp8(const Checkpoint& checkpoint, const std::string& tensor) {
  return checkpoint.contains(tensor) && checkpoint.encoded(tensor) == nullptr &&
         is_float8(checkpoint.tensor(tensor).dtype);
}

std::string place_text(const Checkpoint& checkpoint, const TensorView& view) {
  return fmt::format("tensor '{}' of checkpoint '{}'", view.name, checkpoint.directory().string());
}

void require_shape(const Checkpoint& checkpoint, const TensorView& view, const Shape& expected) {
  NIBBLE_REQUIRE(view.shape == expected, FormatError, "{}: expected shape {} after config.json, got {}",
                 place_text(checkpoint, view), shape_text(expected), shape_text(view.shape));
}

// Matrix `slice` of a stack.
TensorView slice_at(TensorView view, const Stored& place) {
  if (place.slices == 0) return view;
  const std::size_t bytes = view.data.size() / place.slices;
  view.data = view.data.subspan(place.slice * bytes, bytes);
  view.shape.erase(view.shape.begin());
  return view;
}

// How the scales of a matrix (rows, columns), as it is stored, are shared; empty for a shape that says neither.
std::optional<ScaleBlock> block_of(const Shape& scales, std::uint64_t rows, std::uint64_t cols,
                                   const NarrowConfig& config) {
  const auto all = [](std::uint64_t extent) { return std::max<std::size_t>(1, extent); };
  if (std::all_of(scales.begin(), scales.end(), [](std::uint64_t extent) { return extent == 1; }))
    return ScaleBlock{all(rows), all(cols)};
  const auto [block_rows, block_cols] = config.scale_block;
  if (scales == Shape{divide_up(rows, block_rows), divide_up(cols, block_cols)})
    return ScaleBlock{block_rows, block_cols};
  if (scales == Shape{rows} || scales == Shape{rows, 1}) return ScaleBlock{1, all(cols)};
  return std::nullopt;
}

}  // namespace

std::uint64_t NarrowTensor::weights() const {
  if (kind == Kind::kEncoded) return checked_element_count(encoded->place.shape(), tensor);
  return kind == Kind::kMxfp4 ? checked_multiply(codes.data.size(), 2, codes.name) : codes.data.size();
}

std::uint64_t NarrowTensor::bytes() const {
  return encoded != nullptr ? encoded->bytes : codes.data.size() + scales.data.size();
}

double NarrowTensor::bits_per_weight() const {
  return static_cast<double>(bytes()) * 8.0 / static_cast<double>(std::max<std::uint64_t>(1, weights()));
}

std::string NarrowTensor::storage() const {
  if (kind == Kind::kEncoded) return encoded->storage;
  if (kind == Kind::kMxfp4) return "mxfp4";
  return codes.dtype == DType::kF8E4M3 ? "fp8 e4m3" : "fp8 e5m2";
}

std::uint64_t stored_bytes(const Checkpoint& checkpoint, const std::string& stored) {
  const EncodedTensor* const encoded = checkpoint.encoded(stored);
  return encoded != nullptr ? encoded->bytes : checkpoint.tensor(stored).data.size();
}

NarrowTensors::NarrowTensors(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {
  const std::string what = fmt::format("config.json of checkpoint '{}'", checkpoint.directory().string());
  own_ = is_own_config(checkpoint.metadata(), what);
  if (auto config = parse_narrow_config(checkpoint.metadata(), what)) config_ = std::move(*config);
}

std::optional<NarrowTensor> NarrowTensors::find(const std::string& tensor) const {
  for (const std::string& name : checkpoint_.architecture().candidates(tensor)) {
    if (const EncodedTensor* const encoded = checkpoint_.encoded(name))
      return NarrowTensor{NarrowTensor::Kind::kEncoded, name, {}, {}, encoded};
    if (is_mxfp4(checkpoint_, name))
      return NarrowTensor{NarrowTensor::Kind::kMxfp4, name, checkpoint_.tensor(with(name, kBlocks)),
                          checkpoint_.tensor(with(name, kScales)), nullptr};
    if (!checkpoint_.contains(name)) continue;
    if (own_ || !is_fp8(checkpoint_, name)) return std::nullopt;
    for (const std::string_view suffix : {kScaleInverse, kScale})
      if (checkpoint_.contains(with(name, suffix)))
        return NarrowTensor{NarrowTensor::Kind::kFp8, name, checkpoint_.tensor(name),
                            checkpoint_.tensor(with(name, suffix)), nullptr};
    const TensorView codes = checkpoint_.tensor(name);
    throw FormatError(fmt::format("{} is {}, whose values need scales: expected '{}' or '{}' beside it",
                                  place_text(checkpoint_, codes), dtype_name(codes.dtype), with(name, kScaleInverse),
                                  with(name, kScale)));
  }
  return std::nullopt;
}

std::optional<NarrowPart> NarrowTensors::part_of(const std::string& stored) const {
  if (own_) return std::nullopt;
  if (checkpoint_.encoded(stored) != nullptr || is_fp8(checkpoint_, stored))
    return NarrowPart{NarrowPart::Kind::kCodes, stored};
  for (const std::string_view suffix : {kBlocks, kScales})
    if (auto tensor = without(stored, suffix); tensor && is_mxfp4(checkpoint_, *tensor))
      return NarrowPart{suffix == kBlocks ? NarrowPart::Kind::kCodes : NarrowPart::Kind::kScales, *tensor};
  for (const std::string_view suffix : {kScaleInverse, kScale})
    if (auto tensor = without(stored, suffix); tensor && is_fp8(checkpoint_, *tensor))
      return NarrowPart{NarrowPart::Kind::kScales, *tensor};
  for (const std::string_view suffix : {".input_scale", ".output_scale", ".activation_scale", ".k_scale", ".v_scale"})
    if (const auto module = without(stored, suffix); module && is_fp8(checkpoint_, *module + ".weight"))
      return NarrowPart{NarrowPart::Kind::kActivationScale, *module + ".weight"};
  return std::nullopt;
}

Stored NarrowTensors::place_of(const NarrowTensor& narrow) const {
  if (narrow.kind == NarrowTensor::Kind::kEncoded) return narrow.encoded->place;
  Shape shape = narrow.codes.shape;
  const bool mxfp4 = narrow.kind == NarrowTensor::Kind::kMxfp4;
  const std::size_t least = mxfp4 ? 3 : 2;
  NIBBLE_REQUIRE(shape.size() == least || shape.size() == least + 1, FormatError,
                 "{}: expected a matrix or a stack of them, got shape {}", place_text(checkpoint_, narrow.codes),
                 shape_text(shape));
  if (mxfp4) {
    shape.pop_back();
    shape.back() = checked_multiply(shape.back(), kMxfp4Group, narrow.codes.name);
  }
  Stored place = whole_matrix(narrow.tensor, shape[shape.size() - 2], shape.back());
  if (shape.size() == 3) place.slices = shape.front();
  return place;
}

std::shared_ptr<const WeightSource> NarrowTensors::source(std::shared_ptr<const Checkpoint> owner,
                                                          const NarrowTensor& narrow, const Stored& place) const {
  const TensorView &codes = narrow.codes, &scales = narrow.scales;
  if (narrow.kind == NarrowTensor::Kind::kEncoded) {
    NIBBLE_REQUIRE(place.shape() == narrow.encoded->place.shape(), FormatError,
                   "tensor '{}' of checkpoint '{}': expected shape {} after config.json, got {}", narrow.tensor,
                   checkpoint_.directory().string(), shape_text(place.shape()),
                   shape_text(narrow.encoded->place.shape()));
    return checkpoint_.decoded(narrow.tensor, place.slice);
  }
  if (narrow.kind == NarrowTensor::Kind::kMxfp4) {
    NIBBLE_REQUIRE(place.cols % kMxfp4Group == 0, FormatError,
                   "{}: MXFP4 has groups of {} inputs, which its {} inputs after config.json are not made of",
                   place_text(checkpoint_, codes), kMxfp4Group, place.cols);
    Shape expected{place.rows, place.cols / kMxfp4Group};
    if (place.slices > 0) expected.insert(expected.begin(), place.slices);
    NIBBLE_REQUIRE(codes.dtype == DType::kU8, FormatError, "{}: expected U8, got {}", place_text(checkpoint_, codes),
                   dtype_name(codes.dtype));
    NIBBLE_REQUIRE(scales.dtype == DType::kU8 || scales.dtype == DType::kF8E8M0, FormatError, "{}: expected U8, got {}",
                   place_text(checkpoint_, scales), dtype_name(scales.dtype));
    require_shape(checkpoint_, scales, expected);
    expected.push_back(kMxfp4Group / 2);
    require_shape(checkpoint_, codes, expected);
    return make_mxfp4_source(std::move(owner), slice_at(codes, place), slice_at(scales, place));
  }
  require_shape(checkpoint_, codes, place.shape());
  NIBBLE_REQUIRE(is_float(scales.dtype) || scales.dtype == DType::kF8E8M0, FormatError,
                 "{}: expected F32, F16, BF16 or F8_E8M0, got {}", place_text(checkpoint_, scales),
                 dtype_name(scales.dtype));
  const std::uint64_t rows = place.transposed ? place.cols : place.rows,
                      cols = place.transposed ? place.rows : place.cols;
  const bool stacked = place.slices == 0 || (!scales.shape.empty() && scales.shape.front() == place.slices);
  const TensorView of_slice = stacked ? slice_at(scales, place) : scales;
  const auto block = stacked ? block_of(of_slice.shape, rows, cols, config_) : std::nullopt;
  NIBBLE_REQUIRE(block, FormatError,
                 "{}: expected one scale, {} for each row or ({}, {}) for blocks of ({}, {}){}, got shape {}",
                 place_text(checkpoint_, scales), rows, divide_up(rows, config_.scale_block[0]),
                 divide_up(cols, config_.scale_block[1]), config_.scale_block[0], config_.scale_block[1],
                 place.slices > 0 ? fmt::format(", in each of {} slices", place.slices) : "", shape_text(scales.shape));
  return make_fp8_source(std::move(owner), slice_at(codes, place), of_slice, *block, place.transposed);
}

}  // namespace nibble::model
