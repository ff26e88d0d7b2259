#include "eval/bound/synthetic_layer.h"

#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "model/rotate/random_orthogonal.h"

namespace nibble::eval {
namespace {

template <class T>
using RowMajorOf = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowMajor = RowMajorOf<double>;

template <class T>
Eigen::Map<const RowMajorOf<T>> map_of(const Matrix<T>& m) {
  return {m.data(), static_cast<Eigen::Index>(m.rows()), static_cast<Eigen::Index>(m.cols())};
}

// S Q diag(i^-power) Qᵀ S, its diagonal 1 on average.
Matrix<double> random_covariance(std::size_t n, double power, double spread, Random& random) {
  const std::vector<double> basis = model::random_orthogonal(n, random);
  const auto size = static_cast<Eigen::Index>(n);
  RowMajor root = Eigen::Map<const RowMajor>(basis.data(), size, size);
  for (Eigen::Index i = 0; i < size; ++i) root.col(i) *= std::pow(static_cast<double>(i + 1), -0.5 * power);
  for (Eigen::Index j = 0; j < size; ++j) root.row(j) *= std::exp(spread * random.normal());
  Matrix<double> covariance(n, n);
  Eigen::Map<RowMajor> result(covariance.data(), size, size);
  result.noalias() = root * root.transpose();
  result *= static_cast<double>(n) / result.trace();
  return covariance;
}

std::vector<double> variances_of(const Matrix<double>& covariance) {
  const Eigen::SelfAdjointEigenSolver<RowMajor> solver(map_of(covariance), Eigen::EigenvaluesOnly);
  std::vector<double> values(solver.eigenvalues().begin(), solver.eigenvalues().end());
  // Ascending. Eigenvalues come out to about the largest one's rounding, and the bound asks for their logarithms.
  const double least = values.back() * 0x1p-53 * static_cast<double>(values.size());
  NIBBLE_REQUIRE(values.front() > 16.0 * least, NumericalError,
                 "the eigenvalues of a covariance of {} variables span more than double can tell apart ({:.1e} to "
                 "{:.1e}); choose lower powers or less spread",
                 values.size(), values.front(), values.back());
  return values;
}

// Student's t of variance 1, or a normal deviate.
double draw_weight(std::uint64_t tail, Random& random) {
  const double normal = random.normal();
  if (tail == 0) return normal;
  double chi_squared = 0.0;
  for (std::uint64_t k = 0; k < tail; ++k) {
    const double deviate = random.normal();
    chi_squared += deviate * deviate;
  }
  return normal * std::sqrt(static_cast<double>(tail - 2) / chi_squared);
}

double weighed(const SyntheticLayer& layer, const RowMajor& errors) {
  const RowMajor seen = errors * map_of(layer.input_covariance);
  const RowMajor felt = map_of(layer.output_covariance) * errors;
  return felt.cwiseProduct(seen).sum() / static_cast<double>(errors.size());
}

Matrix<float> times(const Matrix<double>& m, double factor) {
  Matrix<float> result(m.rows(), m.cols());
  std::transform(m.values().begin(), m.values().end(), result.data(),
                 [&](double value) { return static_cast<float>(factor * value); });
  return result;
}

}  // namespace

WaterFilling SyntheticLayer::bound() const {
  std::vector<double> inputs = input_variances;
  for (double& value : inputs) value *= entropy_power;
  return {output_variances, std::move(inputs)};
}

SyntheticLayer make_layer(const LayerModel& model, std::uint64_t seed) {
  NIBBLE_REQUIRE(model.rows > 0 && model.columns > 0, InvalidArgument,
                 "a synthetic layer needs rows and columns, got {} by {}", model.rows, model.columns);
  NIBBLE_REQUIRE(model.tail == 0 || model.tail > 2, InvalidArgument,
                 "tail: Student's t with {} degrees of freedom has no variance; expected 3 or more, or 0 for normal "
                 "weights",
                 model.tail);
  for (const auto& [name, value] : {std::pair("input power", model.input_power),
                                    std::pair("output power", model.output_power), std::pair("spread", model.spread)})
    NIBBLE_REQUIRE(std::isfinite(value) && value >= 0.0, InvalidArgument,
                   "{}: expected a finite number that is not negative, got {}", name, value);
  Random random(seed);
  SyntheticLayer layer;
  layer.weight = Matrix<float>(model.rows, model.columns);
  for (float& value : layer.weight.values()) value = static_cast<float>(draw_weight(model.tail, random));
  layer.input_covariance = random_covariance(model.columns, model.input_power, model.spread, random);
  layer.output_covariance = random_covariance(model.rows, model.output_power, model.spread, random);
  layer.input_variances = variances_of(layer.input_covariance);
  layer.output_variances = variances_of(layer.output_covariance);
  if (model.tail != 0) layer.entropy_power = entropy_power_of_student_t(static_cast<double>(model.tail));
  return layer;
}

double weighed_error(const SyntheticLayer& layer, const Matrix<float>& decoded) {
  NIBBLE_REQUIRE(decoded.rows() == layer.weight.rows() && decoded.cols() == layer.weight.cols(), InvalidArgument,
                 "a layer of {} by {} cannot be compared with weights of {} by {}", layer.weight.rows(),
                 layer.weight.cols(), decoded.rows(), decoded.cols());
  return weighed(layer, map_of(decoded).cast<double>() - map_of(layer.weight).cast<double>());
}

double weighed_power(const SyntheticLayer& layer) { return weighed(layer, map_of(layer.weight).cast<double>()); }

calib::LayerStats exact_statistics(const SyntheticLayer& layer, std::string module) {
  constexpr double kTokens = 65536.0;  // of which each is a window, too: all that is read are means over either
  const std::size_t out = layer.weight.rows(), in = layer.weight.cols();
  calib::LayerStats stats;
  stats.module = std::move(module);
  stats.out = out;
  stats.in = in;
  stats.tokens = stats.samples = static_cast<std::uint64_t>(kTokens);
  stats.sum_x.assign(in, 0.0);
  stats.sum_s_x.assign(in, 0.0);
  for (std::size_t j = 0; j < in; ++j) {
    const double variance = layer.input_covariance(j, j), deviation = std::sqrt(variance);
    stats.sum_x2.push_back(kTokens * variance);
    stats.sum_abs_x.push_back(kTokens * deviation * std::sqrt(2.0 / std::numbers::pi));  // of normal inputs
    stats.max_x.push_back(static_cast<float>(4.0 * deviation));
    stats.min_x.push_back(-stats.max_x.back());
  }
  stats.fisher = Matrix<float>(out, in);
  for (std::size_t i = 0; i < out; ++i)
    for (std::size_t j = 0; j < in; ++j)
      stats.fisher(i, j) = static_cast<float>(kTokens * layer.output_covariance(i, i) * layer.input_covariance(j, j));
  stats.sum_s = stats.sum_s2.emplace(kTokens);  // s, the mean square of a gradient's parts, always 1: G's mean diagonal
  stats.sum_xxt = times(layer.input_covariance, kTokens);
  stats.sum_s_xxt = stats.sum_xxt;
  stats.sum_dydyt = times(layer.output_covariance, kTokens);
  return stats;
}

}  // namespace nibble::eval
