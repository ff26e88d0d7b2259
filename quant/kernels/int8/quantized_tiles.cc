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

// (tokens, padded) as (padded / kBeside, tokens, kBeside). That size is a constant because a call of memcpy for every
// four bytes took 13 % of a prompt.
template <std::size_t kBeside>
void interleave(const std::int8_t* rows, std::size_t tokens, std::size_t padded, std::int8_t* to) {
  for (std::size_t input = 0; input < padded; input += kBeside)
    for (std::size_t token = 0; token < tokens; ++token, to += kBeside)
      std::memcpy(to, rows + token * padded + input, kBeside);
}

void interleave(const std::int8_t* rows, std::size_t tokens, std::size_t padded, std::size_t beside, std::int8_t* to) {
  if (beside == kFour) return interleave<kFour>(rows, tokens, padded, to);
  beside == kBlockInputs ? interleave<kBlockInputs>(rows, tokens, padded, to)
                         : interleave<kBlockInputs / 2>(rows, tokens, padded, to);
}

// The tokens of a tile, quantized one after the other and put into their places.
class TileWriter {
 public:
  TileWriter(std::size_t padded, QuantizeActivations quantize, std::size_t block, Int8TileShape shape)
      : quantize_(quantize),
        block_(block),
        padded_(padded),
        shape_(shape),
        x_(padded),
        rows_(shape.tokens * padded),
        scales_(padded / block),
        sums_(padded / block) {}

  void write(MatrixView<const float> x, std::size_t tile, QuantizedTiles& to) {
    for (std::size_t place = 0; place < shape_.tokens; ++place) {
      const std::size_t token = tile * shape_.tokens + place;
      write_token(token < x.rows() ? x.row(token) : std::span<const float>(), tile, place, to);
    }
    interleave(rows_.data(), shape_.tokens, padded_, shape_.blocks ? block_ : kFour,
               to.values.data() + tile * padded_ * shape_.tokens);
  }

 private:
  // `x` is empty for a token that is not there.
  void write_token(std::span<const float> x, std::size_t tile, std::size_t place, QuantizedTiles& to) {
    std::int8_t* values = rows_.data() + place * padded_;
    if (x.size() != padded_) {
      std::fill(std::copy(x.begin(), x.end(), x_.begin()), x_.end(), 0.0f);
      x = x_;
    }
    if (block_ == kBlockInputs) {
      quantize_(x.data(), padded_, values, scales_.data(), sums_.data());
    } else {
      quantize_halves(x, quantize_, values, scales_.data(), sums_.data(), halves_);
    }
    double total = 0.0;
    for (std::size_t block = 0; block < scales_.size(); ++block) {
      const std::size_t at = (tile * scales_.size() + block) * shape_.tokens + place;
      to.scales[at] = scales_[block];
      to.sums[at] = sums_[block];
      to.starts[at] = to.start * sums_[block];
      total += static_cast<double>(scales_[block]) * static_cast<double>(sums_[block]);
    }
    to.totals[tile * shape_.tokens + place] = static_cast<float>(total);
  }

  QuantizeActivations quantize_;
  std::size_t block_, padded_;
  Int8TileShape shape_;
  std::vector<float> x_;
  std::vector<std::int8_t> rows_;  // (tokens, padded)
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
  parallel_for(tiles.tiles,
               [&](std::size_t tile) { TileWriter(padded, quantize, block, shape).write(x, tile, tiles); });
}

}  // namespace nibble::quant
