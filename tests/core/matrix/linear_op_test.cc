#include "core/matrix/linear_op.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble {
namespace {

// W kept as (out, in) or (in, out); small integers keep every sum exact, so expectations hold at zero tolerance.
class MatrixSource final : public WeightSource {
 public:
  MatrixSource(Matrix<float> weight, bool transposed) : weight_(std::move(weight)), transposed_(transposed) {}
  std::size_t rows() const override { return weight_.rows(); }
  std::size_t cols() const override { return weight_.cols(); }
  bool stored_transposed() const override { return transposed_; }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    std::copy(weight_.row(begin).data(), weight_.row(begin).data() + (end - begin) * cols(), destination);
  }
  void decode_rows_transposed(std::size_t begin, std::size_t end, float* destination) const override {
    for (std::size_t c = 0; c < cols(); ++c)
      for (std::size_t r = begin; r < end; ++r) *destination++ = weight_(r, c);
  }

 private:
  Matrix<float> weight_;
  bool transposed_;
};

Matrix<float> small_integers(std::size_t rows, std::size_t cols, Random& random) {
  Matrix<float> m(rows, cols);
  for (float& value : m.values()) value = static_cast<float>(random.below(9)) - 4.0f;
  return m;
}

struct Case {
  Matrix<float> weight, x, dy;
  std::vector<float> bias;
};

Case make_case(std::size_t tokens, std::size_t out, std::size_t in, bool with_bias) {
  Random random(tokens * 1000 + out);
  Case c{small_integers(out, in, random), small_integers(tokens, in, random), small_integers(tokens, out, random), {}};
  if (with_bias) {
    for (std::size_t i = 0; i < out; ++i) c.bias.push_back(static_cast<float>(i % 5));
  }
  return c;
}

void expect_correct(const LinearOp<float>& op, const Case& c) {
  Matrix<float> y(c.x.rows(), c.weight.rows()), dx(c.x.rows(), c.weight.cols());
  op.forward(c.x, y);
  op.backward_input(c.dy, dx);
  Matrix<float> expected_y(y.rows(), y.cols()), expected_dx(dx.rows(), dx.cols());
  for (std::size_t t = 0; t < c.x.rows(); ++t) {
    for (std::size_t o = 0; o < c.weight.rows(); ++o) {
      float sum = c.bias.empty() ? 0.0f : c.bias[o];
      for (std::size_t i = 0; i < c.weight.cols(); ++i) {
        sum += c.x(t, i) * c.weight(o, i);
        expected_dx(t, i) += c.dy(t, o) * c.weight(o, i);
      }
      expected_y(t, o) = sum;
    }
  }
  EXPECT_TRUE(test::all_near(y.values(), expected_y.values(), {}));
  EXPECT_TRUE(test::all_near(dx.values(), expected_dx.values(), {}));
}

TEST(DecodingLinear, MultipliesExactlyOnBothSidesOfEveryTileBorder) {
  for (const bool transposed : {false, true}) {
    for (const std::size_t tokens : {1u, 255u, 257u}) {
      for (const std::size_t out : {1u, 127u, 130u}) {
        const Case c = make_case(tokens, out, 33, out % 2 == 0);
        expect_correct(DecodingLinear(std::make_shared<MatrixSource>(c.weight, transposed), c.bias), c);
      }
    }
  }
}

// 4000 rows over 257 tokens make wide tiles forward and many blocks of rows backward; 300 inputs two tiles of columns;
// 1000 rows of 9000 inputs two groups of decoded blocks. Sums of at most 4000 products up to 16 are exact in float.
TEST(DecodingLinear, MultipliesExactlyInWideTilesAndSeveralGroups) {
  struct Shape {
    std::size_t tokens, out, in;
  };
  for (const bool transposed : {false, true}) {
    for (const auto& [tokens, out, in] : {Shape{257, 4000, 7}, Shape{5, 260, 300}, Shape{2, 1000, 9000}}) {
      const Case c = make_case(tokens, out, in, true);
      expect_correct(DecodingLinear(std::make_shared<MatrixSource>(c.weight, transposed), c.bias), c);
    }
  }
}

TEST(DenseLinear, MultipliesExactly) {
  const Case c = make_case(19, 23, 29, true);
  expect_correct(DenseLinear<float>(c.weight, c.bias), c);
}

TEST(DecodingLinear, NamesShapesAndBiasesThatDoNotFit) {
  const Case c = make_case(4, 6, 5, false);
  const auto source = std::make_shared<MatrixSource>(c.weight, false);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { DecodingLinear(source, std::vector<float>(5)); }, "6", "5"));
  const DecodingLinear op(source, {});
  Matrix<float> wrong(4, 7);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { op.forward(c.x, wrong); }, "linear (6, 5)", "(4, 7)"));
}

}  // namespace
}  // namespace nibble
