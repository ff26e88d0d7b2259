#include "quant/kernels/int8/quantized_tiles.h"

#include <algorithm>
#include <cstring>

#include "core/checked_math.h"
#include "core/machine/thread_pool.h"
#include "quant/kernels/int8/activations.h"
#include "quant/kernels/packing/code_layout.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kFour = 4;  // inputs that a lane multiplies at a time

// One token quantized and put into its place of a tile.
class TileWriter {
 public:
  TileWriter(std::size_t padded, QuantizeActivations quantize, std::size_t block)
      : quantize_(quantize),
        block_(block),
        x_(padded),
        values_(padded),
        scales_(padded / block),
        sums_(padded / block) {}

  void write(std::span<const float> x, int start, std::size_t tile, std::size_t place, Int8TileShape shape,
             QuantizedTiles& to) {
    std::copy(x.begin(), x.end(), x_.begin());
    std::fill(x_.begin() + static_cast<std::ptrdiff_t>(x.size()), x_.end(), 0.0f);  // all of a token that is not there
    if (block_ == kBlockInputs) {
      quantize_(x_.data(), x_.size(), values_.data(), scales_.data(), sums_.data());
    } else {
      quantize_halves(x_, quantize_, values_.data(), scales_.data(), sums_.data(), halves_);
    }
    const std::size_t beside = shape.blocks ? block_ : kFour;
    std::int8_t* values = to.values.data() + tile * x_.size() * shape.tokens + place * beside;
    for (std::size_t input = 0; input < x_.size(); input += beside, values += shape.tokens * beside)
      std::memcpy(values, values_.data() + input, beside);
    double total = 0.0;
    for (std::size_t block = 0; block < scales_.size(); ++block) {
      const std::size_t at = (tile * scales_.size() + block) * shape.tokens + place;
      to.scales[at] = scales_[block];
      to.sums[at] = sums_[block];
      to.starts[at] = start * sums_[block];
      total += static_cast<double>(scales_[block]) * static_cast<double>(sums_[block]);
    }
    to.totals[tile * shape.tokens + place] = static_cast<float>(total);
  }

 private:
  QuantizeActivations quantize_;
  std::size_t block_;
  std::vector<float> x_;
  std::vector<std::int8_t> values_;
  std::vector<float> scales_;
  std::vector<std::int32_t> sums_;
  QuantizedHalves halves_;
};

}  // namespace

void quantize_tiles(MatrixView<const float> x, std::size_t padded, QuantizeActivations quantize, Int8TileShape shape,
                    int start, std::size_t block, QuantizedTiles& tiles) {
  tiles.tokens = x.rows();
  tiles.tiles = divide_up(x.rows(), shape.tokens);
  tiles.start = start;
  tiles.blocks = padded / block;
  const std::size_t places = tiles.tiles * shape.tokens;
  tiles.values.resize(places * padded);
  for (auto* per_block : {&tiles.sums, &tiles.starts}) per_block->resize(places * tiles.blocks);
  tiles.scales.resize(places * tiles.blocks);
  tiles.totals.resize(places);
  parallel_for(tiles.tiles, [&](std::size_t tile) {
    TileWriter writer(padded, quantize, block);
    for (std::size_t place = 0; place < shape.tokens; ++place) {
      const std::size_t token = tile * shape.tokens + place;
      const std::span<const float> none;
      writer.write(token < x.rows() ? x.row(token) : none, start, tile, place, shape, tiles);
    }
  });
}

}  // namespace nibble::quant
