#include "model/rotate/rotated_sources.h"

#include "core/error.h"
#include "core/random.h"
#include "tests/model/rotate/explicit_rotation.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::test {
namespace {

using model::make_rotated_source;
using model::Parts;
using model::Rotation;
using model::WeightChange;

class MatrixSource final : public WeightSource {
 public:
  explicit MatrixSource(Matrix<float> values) : values_(std::move(values)) {}
  std::size_t rows() const override { return values_.rows(); }
  std::size_t cols() const override { return values_.cols(); }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t j = 0; j < cols(); ++j) *destination++ = values_(i, j);
  }

 private:
  Matrix<float> values_;
};

struct Case {
  static constexpr std::size_t kRows = 37 + 3, kCols = 21 + 3;  // more than a tile, and odd parts
  Case() {
    Random random(11);
    for (std::size_t i = 0; i < kRows; ++i)
      for (std::size_t j = 0; j < kCols; ++j) weight(i, j) = static_cast<float>(random.normal());
    for (double& value : gain) value = 0.5 + random.uniform();
    source = std::make_shared<MatrixSource>(weight);
  }
  // Q_outᵀ W diag(g) Q_in in plain loops.
  std::vector<float> expected(const WeightChange& change) const {
    const Matrix<double> q_in = explicit_matrix(change.inputs, kCols), q_out = explicit_matrix(change.outputs, kRows);
    std::vector<float> result;
    for (std::size_t i = 0; i < kRows; ++i)
      for (std::size_t j = 0; j < kCols; ++j) {
        double sum = 0.0;
        for (std::size_t r = 0; r < kRows; ++r)
          for (std::size_t c = 0; c < kCols; ++c)
            sum += q_out(r, i) * static_cast<double>(weight(r, c)) * (change.gain.empty() ? 1.0 : change.gain[c]) *
                   q_in(c, j);
        result.push_back(static_cast<float>(sum));
      }
    return result;
  }
  Matrix<float> weight{kRows, kCols};
  std::vector<double> gain = std::vector<double>(kCols);
  std::shared_ptr<const WeightSource> source;
  Rotation whole_in{kCols, 1}, part_in{kCols / 3, 2}, out{kRows, 3}, part_out{kRows / 4, 4};
};

// Rounded to float once, or twice where both sides are rotated: 2^-24 of values up to about 5, and of sums of 40.
constexpr Bound kRounded{.abs = 40 * 0x1p-24};

TEST(RotatedSource, IsTheProductInPlainLoops) {
  const Case c;
  const Parts thirds(3, &c.part_in), quarters(4, &c.part_out);
  for (const WeightChange& change :
       {WeightChange{}, WeightChange{.gain = c.gain}, WeightChange{.inputs = {&c.whole_in}},
        WeightChange{.gain = c.gain, .inputs = thirds}, WeightChange{.outputs = {&c.out}},
        WeightChange{.gain = c.gain, .inputs = {&c.whole_in}, .outputs = quarters}}) {
    const auto rotated = make_rotated_source(c.source, change);
    ASSERT_EQ(rotated->rows(), Case::kRows);
    ASSERT_EQ(rotated->cols(), Case::kCols);
    std::vector<float> got(Case::kRows * Case::kCols);
    rotated->decode_rows(0, 7, got.data());  // in pieces
    rotated->release();                      // which must not change what comes after
    rotated->decode_rows(7, Case::kRows, got.data() + 7 * Case::kCols);
    EXPECT_TRUE(all_near(got, c.expected(change), kRounded));
  }
}

TEST(RotatedSource, RefusesExtentsThatDoNotFit) {
  const Case c;
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { make_rotated_source(c.source, {.inputs = {&c.out}}); }, "40", "24"));
  EXPECT_TRUE(
      throws_with<InvalidArgument>([&] { make_rotated_source(c.source, {.outputs = {&c.whole_in}}); }, "24", "40"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { make_rotated_source(c.source, {.gain = {1.0}}); }, "gain", "24"));
}

}  // namespace
}  // namespace nibble::test
