#include "quant/algo/rounding/column_rounding.h"

namespace nibble::quant {
namespace {

// Some rows of another rounding whose rows do not depend on each other.
template <class Code>
class RowsOf final : public BasicColumnRounding<Code> {
 public:
  RowsOf(BasicColumnRounding<Code>& all, std::size_t first) : all_(all), first_(first) {}

  void round(std::size_t column, std::size_t first_row, std::span<const float> values, Code* codes,
             float* decoded) const override {
    all_.round(column, first_ + first_row, values, codes, decoded);
  }
  void decode(std::size_t column, std::size_t first_row, std::span<const Code> codes, float* decoded) const override {
    all_.decode(column, first_ + first_row, codes, decoded);
  }
  std::size_t adaptive_block() const override { return all_.adaptive_block(); }
  void adapt(std::size_t block, std::size_t first_row, MatrixView<const float> current) override {
    all_.adapt(block, first_ + first_row, current);
  }

 private:
  BasicColumnRounding<Code>& all_;
  std::size_t first_;
};

}  // namespace

template <class Code>
std::unique_ptr<BasicColumnRounding<Code>> BasicColumnRounding<Code>::rows(std::size_t first, std::size_t /*count*/,
                                                                           MatrixView<const Code> /*codes*/,
                                                                           std::span<const float> /*weights*/) {
  return std::make_unique<RowsOf<Code>>(*this, first);
}

template <class Code>
void BasicColumnRounding<Code>::improve(std::size_t column, CoupledColumn& loss, std::span<Code> codes,
                                        std::span<float> values) const {
  for (std::size_t row = 0; row < values.size(); ++row) {
    const double curvature = loss.coupling(row, row);
    if (!(curvature > 0.0)) continue;
    // The minimum of (1) in this row; on a grid its nearest value is the best one.
    const auto target = static_cast<float>(static_cast<double>(values[row]) - loss.slope(row) / curvature);
    Code code{};
    float decoded = 0.0f;
    round(column, row, {&target, 1}, &code, &decoded);
    codes[row] = code;
    if (decoded == values[row]) continue;
    loss.move(row, decoded - values[row]);
    values[row] = decoded;
  }
}

template class BasicColumnRounding<std::uint8_t>;
template class BasicColumnRounding<std::uint16_t>;

}  // namespace nibble::quant
