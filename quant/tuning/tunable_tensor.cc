#include "quant/tuning/tunable_tensor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "quant/algo/palettes/palette_rounding.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kTileRows = 64;

float root_mean_square(std::span<const float> values) {
  double sum = 0.0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return values.empty() ? 0.0f : static_cast<float>(std::sqrt(sum / static_cast<double>(values.size())));
}

// Values of one row's codes and their gradients: `palette` and `scales` are dL/d of what the row uses.
struct RowGradient {
  std::span<double> palette, scales;
};

void add_palette_row(const QuantizedTensor& at, std::span<const std::uint16_t> codes, std::span<const float> palette,
                     float scale, std::span<const float> g, const RowGradient& out) {
  const std::size_t dim = at.spec().cluster_dim;
  double scale_gradient = 0.0;
  for (std::size_t c = 0; c < codes.size(); ++c)
    for (std::size_t l = 0; l < dim; ++l) {
      const double change = static_cast<double>(g[c * dim + l]);
      const std::size_t entry = codes[c] * dim + l;
      if (!out.palette.empty()) out.palette[entry] += static_cast<double>(scale) * change;
      scale_gradient += change * static_cast<double>(palette[entry]);
    }
  if (!out.scales.empty()) out.scales[0] += scale_gradient;
}

void add_block_row(const QuantizedTensor& at, std::size_t row, std::span<const std::uint16_t> codes,
                   std::span<const float> g, std::span<double> scales) {
  const TensorSpec& spec = at.spec();
  const TensorPart* zeros = at.find("block_zero");
  const std::size_t blocks = spec.blocks(), width = spec.group_size == 0 ? spec.cols : spec.group_size;
  for (std::size_t b = 0; b < blocks; ++b) {
    const int zero = zeros != nullptr ? static_cast<int>(zeros->bytes[row * blocks + b]) : 1 << (spec.bits - 1);
    double sum = 0.0;
    for (std::size_t j = b * width; j < std::min(spec.cols, (b + 1) * width); ++j)
      sum += static_cast<double>(g[j]) * static_cast<double>(codes[j] - zero);
    scales[b] += sum;
  }
}

// Gradients of what the codes of a row mean, and of the scales of its blocks.
void add_block_palette_row(const QuantizedTensor& at, std::span<const std::uint16_t> codes,
                           std::span<const float> palette, std::span<const float> scales, std::span<const float> g,
                           const RowGradient& out) {
  const TensorSpec& spec = at.spec();
  const std::size_t width = spec.group_size == 0 ? spec.cols : spec.group_size;
  for (std::size_t j = 0; j < codes.size(); ++j) {
    const std::size_t block = j / width;
    const double change = static_cast<double>(g[j]);
    if (!out.palette.empty()) out.palette[codes[j]] += static_cast<double>(scales[block]) * change;
    if (!out.scales.empty()) out.scales[block] += change * static_cast<double>(palette[codes[j]]);
  }
}

// (blocks): what the blocks of a row multiply entries with.
std::vector<float> block_scales_of(const QuantizedTensor& at, std::size_t row) {
  const TensorPart& part = *at.find("block_scale");
  const std::size_t blocks = at.spec().blocks();
  std::vector<float> scales(blocks);
  convert_to_f32(part.dtype, part.bytes.data() + row * blocks * dtype_size(part.dtype), blocks, scales.data());
  for (float& scale : scales) scale *= at.tensor_scale();
  return scales;
}

}  // namespace

TunableTensor::TunableTensor(QuantizedTensor start, const Tunables& which)
    : start_(std::move(start)), fixed_(code_values(start_)) {
  palette_values_ = which.palettes ? fixed_.palette.size() : 0;
  const bool own_scales = start_.spec().super_block == 0;  // training would not keep multiples of a step what they are
  scale_values_ = which.scales && own_scales ? fixed_.scale.size() : 0;
  values_.assign(fixed_.palette.begin(), fixed_.palette.begin() + static_cast<std::ptrdiff_t>(palette_values_));
  units_.assign(palette_values_, root_mean_square(fixed_.palette));
  const float typical = root_mean_square(fixed_.scale);
  for (std::size_t i = 0; i < scale_values_; ++i) {
    values_.push_back(fixed_.scale[i]);
    units_.push_back(std::max(std::abs(fixed_.scale[i]), typical));
  }
  const TensorSpec& spec = start_.spec();
  if (!which.codes || !codes_can_move(spec)) return;
  positions_.resize(spec.rows * spec.cols);
  signs_.resize(positions_.size());
  Matrix<std::uint16_t> codes(1, spec.cols);
  for (std::size_t row = 0; row < spec.rows; ++row) {
    start_.read_codes(row, codes);
    std::copy_n(codes.data(), spec.cols, positions_.begin() + static_cast<std::ptrdiff_t>(row * spec.cols));
  }
}

bool TunableTensor::codes_can_move(const TensorSpec& spec) {
  return spec.coding != Coding::kBlockPalette && spec.cluster_dim == 1 && !spec.windowed();
}

void TunableTensor::set_positions(std::span<const float> positions) {
  NIBBLE_REQUIRE(positions.size() == positions_.size(), InvalidArgument, "{}: expected {} positions, got {}",
                 start_.name(), positions_.size(), positions.size());
  if (positions_.empty()) return;
  std::copy(positions.begin(), positions.end(), positions_.begin());
  take_codes();
}

void TunableTensor::move_codes(float step) {
  if (positions_.empty()) return;
  const auto last = static_cast<float>((1U << start_.spec().bits) - 1);
  for (std::size_t i = 0; i < positions_.size(); ++i)
    positions_[i] = std::clamp(positions_[i] - step * static_cast<float>(signs_[i]), 0.0f, last);
  std::fill(signs_.begin(), signs_.end(), std::int8_t{0});
  take_codes();
}

// Each the nearest to its position; halves go up.
void TunableTensor::take_codes() {
  std::vector<std::uint8_t> codes(positions_.size());
  // No position is negative. NOLINTNEXTLINE(bugprone-incorrect-roundings)
  const auto nearest = [](float position) { return static_cast<std::uint8_t>(position + 0.5f); };
  std::transform(positions_.begin(), positions_.end(), codes.begin(), nearest);
  start_ = with_codes(start_, codes);
}

// Signs of dL/du of a row: those of G times its scale's, or its block's.
void TunableTensor::keep_signs(std::size_t row, std::span<const float> scales, std::span<const float> g) {
  const TensorSpec& spec = start_.spec();
  const std::size_t width = spec.group_size == 0 || spec.coding == Coding::kPalette ? spec.cols : spec.group_size;
  for (std::size_t j = 0; j < spec.cols; ++j) {
    const float slope = scales.empty() ? g[j] : g[j] * scales[j / width];
    signs_[row * spec.cols + j] = static_cast<std::int8_t>(slope > 0.0f ? 1 : slope < 0.0f ? -1 : 0);
  }
}

CodeValues TunableTensor::current() const {
  CodeValues values = fixed_;
  std::copy_n(values_.begin(), palette_values_, values.palette.begin());
  std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(palette_values_), scale_values_, values.scale.begin());
  return values;
}

std::shared_ptr<const QuantizedTensor> TunableTensor::rounded() const {
  CodeValues values = current();
  const TensorSpec& spec = start_.spec();
  if (palette_values_ > 0) {
    const DType dtype = start_.find("palette")->dtype;
    const std::size_t size = spec.entries() * spec.cluster_dim;
    for (std::size_t group = 0; group < spec.palettes(); ++group) {
      const auto entries = std::span(values.palette).subspan(group * size, size);
      if (spec.cluster_dim == 1 && !spec.windowed())
        for (std::size_t k = 1; k < size; ++k) entries[k] = std::max(entries[k], entries[k - 1]);
      round_palette(entries, dtype, group);
    }
  }
  for (float& scale : values.scale) scale = round_to_f16(scale);
  return std::make_shared<const QuantizedTensor>(with_code_values(start_, values));
}

void TunableTensor::gradient(const QuantizedTensor& at, MatrixView<const float> weight_gradient,
                             std::span<double> gradient) {
  const TensorSpec& spec = at.spec();
  NIBBLE_REQUIRE(
      weight_gradient.rows() == spec.rows && weight_gradient.cols() == spec.cols && gradient.size() == values_.size(),
      InvalidArgument, "{}: expected a gradient ({}, {}) and room for {}, got ({}, {}) and {}", at.name(), spec.rows,
      spec.cols, values_.size(), weight_gradient.rows(), weight_gradient.cols(), gradient.size());
  const CodeValues values = code_values(at);
  std::fill(gradient.begin(), gradient.end(), 0.0);
  const auto palette_out = gradient.first(palette_values_), scale_out = gradient.subspan(palette_values_);
  const std::size_t palette_size = spec.entries() * spec.cluster_dim;
  const std::size_t group_rows = spec.palettes() == 1 ? spec.rows : spec.group_size;
  const std::size_t scales_per_row = fixed_.scale.size() / spec.rows;
  std::vector<float> block_palette;
  if (spec.coding == Coding::kBlockPalette) at.load_palette(0, block_palette);
  // Rows of a tile may share a palette with those of others: each tile sums its own, and these are added in order.
  const std::size_t tiles = (spec.rows + kTileRows - 1) / kTileRows;
  std::vector<std::vector<double>> of_tile(tiles);
  parallel_for(tiles, [&](std::size_t tile) {
    const std::size_t begin = tile * kTileRows, end = std::min(spec.rows, begin + kTileRows);
    const std::size_t first_group = begin / group_rows;
    if (palette_values_ > 0) of_tile[tile].resize(((end - 1) / group_rows - first_group + 1) * palette_size);
    Matrix<std::uint16_t> tile_codes(end - begin, spec.codes_per_row());
    at.read_codes(begin, tile_codes);
    for (std::size_t row = begin; row < end; ++row) {
      const std::span<const std::uint16_t> codes = std::as_const(tile_codes).row(row - begin);
      if (!positions_.empty())
        keep_signs(row, std::span<const float>(values.scale).subspan(row * scales_per_row, scales_per_row),
                   weight_gradient.row(row));
      const auto scales =
          scale_out.empty() ? std::span<double>() : scale_out.subspan(row * scales_per_row, scales_per_row);
      if (spec.coding == Coding::kBlockPalette) {
        add_block_palette_row(at, codes, block_palette, block_scales_of(at, row), weight_gradient.row(row),
                              {of_tile[tile], scales});
        continue;
      }
      if (spec.coding == Coding::kBlocks) {
        if (!scales.empty()) add_block_row(at, row, codes, weight_gradient.row(row), scales);
        continue;
      }
      const std::size_t group = row / group_rows;
      const auto own = of_tile[tile].empty()
                           ? std::span<double>()
                           : std::span(of_tile[tile]).subspan((group - first_group) * palette_size, palette_size);
      add_palette_row(at, codes, std::span(values.palette).subspan(group * palette_size, palette_size),
                      values.scale.empty() ? 1.0f : values.scale[row], weight_gradient.row(row), {own, scales});
    }
  });
  if (palette_values_ == 0) return;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    const std::size_t offset = tile * kTileRows / group_rows * palette_size;
    for (std::size_t i = 0; i < of_tile[tile].size(); ++i) palette_out[offset + i] += of_tile[tile][i];
  }
}

}  // namespace nibble::quant
