#include "model/checkpoint/narrow_sources.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/checked_math.h"
#include "core/error.h"

namespace nibble::model {
namespace {

constexpr std::array<float, 16> kE2m1{0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                      -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

// Both values of a byte, the lower half's first: one look-up instead of two.
constexpr auto kPairs = [] {
  std::array<std::array<float, 2>, 256> pairs{};
  for (std::size_t byte = 0; byte < pairs.size(); ++byte) pairs[byte] = {kE2m1[byte & 15], kE2m1[byte >> 4]};
  return pairs;
}();

void check_narrow_range(std::size_t begin, std::size_t end, std::size_t rows) {
  NIBBLE_REQUIRE(begin <= end && end <= rows, InvalidArgument, "weight source: rows [{}, {}) of {}", begin, end, rows);
}

class Mxfp4Source final : public WeightSource {
 public:
  Mxfp4Source(std::shared_ptr<const Checkpoint> checkpoint, TensorView codes, TensorView scales)
      : checkpoint_(std::move(checkpoint)), codes_(std::move(codes)), scales_(std::move(scales)) {}

  std::size_t rows() const override { return codes_.shape[0]; }
  std::size_t cols() const override { return groups() * kMxfp4Group; }
  void release() const override {
    checkpoint_->release(codes_);
    checkpoint_->release(scales_);
  }
  void check_intact() const override {
    checkpoint_->check_intact(codes_);
    checkpoint_->check_intact(scales_);
  }

  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    check_narrow_range(begin, end, rows());
    constexpr std::size_t kBytes = kMxfp4Group / 2;
    for (std::size_t group = begin * groups(); group < end * groups(); ++group) {
      const float scale = f8_e8m0_to_f32(std::to_integer<std::uint8_t>(scales_.data[group]));
      const std::byte* bytes = codes_.data.data() + group * kBytes;
      for (std::size_t i = 0; i < kBytes; ++i) {
        const auto& pair = kPairs[std::to_integer<std::size_t>(bytes[i])];
        destination[2 * i] = pair[0] * scale;
        destination[2 * i + 1] = pair[1] * scale;
      }
      destination += kMxfp4Group;
    }
    check_intact();
  }

 private:
  std::size_t groups() const { return codes_.shape[1]; }

  std::shared_ptr<const Checkpoint> checkpoint_;
  TensorView codes_, scales_;
};

class Fp8Source final : public WeightSource {
 public:
  Fp8Source(std::shared_ptr<const Checkpoint> checkpoint, TensorView codes, const TensorView& scales, ScaleBlock block,
            bool transposed)
      : checkpoint_(std::move(checkpoint)),
        codes_(std::move(codes)),
        block_(block),
        transposed_(transposed),
        scales_in_row_(divide_up(codes_.shape[1], block.cols)),
        scales_(scales.data.size() / dtype_size(scales.dtype)) {
    convert_to_f32(scales.dtype, scales.data.data(), scales_.size(), scales_.data());
    checkpoint_->check_intact(scales);
  }

  std::size_t rows() const override { return codes_.shape[transposed_ ? 1 : 0]; }
  std::size_t cols() const override { return codes_.shape[transposed_ ? 0 : 1]; }
  void release() const override { checkpoint_->release(codes_); }
  void check_intact() const override { checkpoint_->check_intact(codes_); }

  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    check_narrow_range(begin, end, rows());
    if (!transposed_) {
      for (std::size_t row = begin; row < end; ++row) decode(row, 0, cols(), destination + (row - begin) * cols());
    } else {
      std::vector<float> stored(end - begin);
      for (std::size_t i = 0; i < cols(); ++i) {
        decode(i, begin, end, stored.data());
        for (std::size_t r = 0; r < stored.size(); ++r) destination[r * cols() + i] = stored[r];
      }
    }
    check_intact();
  }

 private:
  // Columns [begin, end) of a stored row.
  void decode(std::size_t row, std::size_t begin, std::size_t end, float* destination) const {
    const std::byte* codes = codes_.data.data() + row * codes_.shape[1];
    convert_to_f32(codes_.dtype, codes + begin, end - begin, destination);
    const float* scales = scales_.data() + row / block_.rows * scales_in_row_;
    for (std::size_t col = begin; col < end;) {
      const std::size_t stop = std::min(end, (col / block_.cols + 1) * block_.cols);
      const float scale = scales[col / block_.cols];
      for (; col < stop; ++col) destination[col - begin] *= scale;
    }
  }

  std::shared_ptr<const Checkpoint> checkpoint_;
  TensorView codes_;
  ScaleBlock block_;
  bool transposed_;
  std::size_t scales_in_row_;
  std::vector<float> scales_;
};

}  // namespace

std::shared_ptr<const WeightSource> make_mxfp4_source(std::shared_ptr<const Checkpoint> checkpoint, TensorView codes,
                                                      TensorView scales) {
  return std::make_shared<Mxfp4Source>(std::move(checkpoint), std::move(codes), std::move(scales));
}

std::shared_ptr<const WeightSource> make_fp8_source(std::shared_ptr<const Checkpoint> checkpoint, TensorView codes,
                                                    const TensorView& scales, ScaleBlock block, bool transposed) {
  return std::make_shared<Fp8Source>(std::move(checkpoint), std::move(codes), scales, block, transposed);
}

}  // namespace nibble::model
