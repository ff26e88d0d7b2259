#include "quant/tensor/source_values.h"

#include <algorithm>
#include <span>

#include "core/error.h"
#include "quant/algo/rounding/finite.h"
#include "quant/tensor/palette_tensor.h"

namespace nibble::quant {

void decode_finite(const std::string& name, const WeightSource& source, std::size_t begin, std::size_t end,
                   Matrix<float>& w) {
  if (w.rows() != end - begin || w.cols() != source.cols()) w = Matrix<float>(end - begin, source.cols());
  source.decode_rows(begin, end, w.data());
  if (const auto bad = first_not_finite(w.values()))
    throw NumericalError(fmt::format("{}.weight: expected finite weights, got {} at row {}, column {} of (out, in)",
                                     name, w.data()[*bad], begin + *bad / w.cols(), *bad % w.cols()));
}

SourceValues::SourceValues(const std::string& name, const WeightSource& source, std::size_t rows_at_a_time,
                           Weighting weighting, const WeightStatistics& statistics)
    : name_(name),
      source_(source),
      rows_at_a_time_(std::min(rows_at_a_time, source.rows())),
      weights_(sensitivity_weights(Matrix<float>(rows_at_a_time_, source.cols()), weighting, statistics)) {}

void SourceValues::walk(const Visit& visit) const {
  constexpr std::size_t kPiecesKept = 64;  // before the pages that were read are let go
  Matrix<float> w;
  std::size_t pieces = 0;
  for (std::size_t begin = 0; begin < source_.rows(); begin += rows_at_a_time_) {
    decode_finite(name_, source_, begin, std::min(begin + rows_at_a_time_, source_.rows()), w);
    visit(w.values(), std::span<const float>(weights_.values()).first(std::min(weights_.size(), w.size())));
    if (++pieces % kPiecesKept == 0) source_.release();
  }
  source_.release();
}

}  // namespace nibble::quant
