#include "quant/tensor/weight_errors.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/matrix/error_sum.h"
#include "core/matrix/gemm.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kTileRows = 64;
constexpr std::size_t kCachedWeights = 1 << 13;  // decoded at a time where that is all: a cache's worth

// sum_i d_i H d_iᵀ over the rows of `rows`.
double quadratic_form(MatrixView<const float> rows, const Matrix<float>& hessian, Matrix<float>& product) {
  const MatrixView<float> out = product.view().rows_slice(0, rows.rows());
  gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, rows, hessian, 0.0f, out);
  double sum = 0.0;
  for (std::size_t i = 0; i < rows.rows(); ++i)
    for (std::size_t j = 0; j < rows.cols(); ++j)
      sum += static_cast<double>(rows(i, j)) * static_cast<double>(out(i, j));
  return std::max(sum, 0.0);  // a semidefinite form; its rounding is not
}

void add_weight_errors(const Matrix<float>& w, const WeightSource& decoded,
                       std::vector<error_kernels::Squares>& errors) {
  const std::size_t tile = std::clamp<std::size_t>(kCachedWeights / w.cols(), 1, w.rows());
  thread_local std::vector<float> rows;
  rows.resize(tile * w.cols());
  for (std::size_t begin = 0; begin < w.rows(); begin += tile) {
    const std::size_t end = std::min(begin + tile, w.rows());
    decoded.decode_rows(begin, end, rows.data());
    for (std::size_t i = begin; i < end; ++i)
      errors.push_back(error_kernels::squares(&w(i, 0), rows.data() + (i - begin) * w.cols(), w.cols()));
  }
}

}  // namespace

void WeightErrors::add(const WeightErrors& other) {
  rows.insert(rows.end(), other.rows.begin(), other.rows.end());
  fisher += other.fisher;
  output_error += other.output_error;
  output += other.output;
}

void WeightErrors::report(const WeightStatistics& statistics, WeightParts& made) const {
  ErrorSum weight;
  for (const auto& row : rows) weight.add_sums(row.error, row.norm);
  made.relative_error = weight.relative();
  if (statistics.fisher.size() != 0) made.fisher_error = fisher;
  if (statistics.hessian.size() != 0) made.output_error = output > 0.0 ? std::sqrt(output_error / output) : 0.0;
}

void add_errors(const Matrix<float>& w, const WeightSource& decoded, const WeightStatistics& statistics, bool shifting,
                WeightErrors& errors, std::vector<float>& bias_correction) {
  const bool weighted = statistics.fisher.size() != 0, projected = statistics.hessian.size() != 0;
  if (!weighted && !projected && !shifting) return add_weight_errors(w, decoded, errors.rows);
  Matrix<float> differences(std::min(kTileRows, w.rows()), w.cols()), product;
  if (projected) product = Matrix<float>(differences.rows(), w.cols());
  for (std::size_t begin = 0; begin < w.rows(); begin += kTileRows) {
    const std::size_t count = std::min(kTileRows, w.rows() - begin);
    decoded.decode_rows(begin, begin + count, differences.data());
    for (std::size_t i = 0; i < count; ++i) {
      errors.rows.push_back(error_kernels::squares(&w(begin + i, 0), &differences(i, 0), w.cols()));
      double correction = 0.0;
      for (std::size_t j = 0; j < w.cols(); ++j) {
        const double value = w(begin + i, j), approximation = differences(i, j), difference = value - approximation;
        if (weighted) errors.fisher += statistics.fisher(begin + i, j) * difference * difference;
        if (shifting) correction += difference * statistics.mean_input[j];
        differences(i, j) = static_cast<float>(difference);
      }
      if (shifting) bias_correction.push_back(static_cast<float>(correction));
    }
    if (!projected) continue;
    errors.output_error += quadratic_form(differences.view().rows_slice(0, count), statistics.hessian, product);
    errors.output += quadratic_form(w.view().rows_slice(begin, count), statistics.hessian, product);
  }
}

}  // namespace nibble::quant
