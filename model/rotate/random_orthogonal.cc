#include "model/rotate/random_orthogonal.h"

#include <Eigen/QR>

namespace nibble::model {

std::vector<double> random_orthogonal(std::size_t n, Random& random) {
  Eigen::MatrixXd deviates(n, n);
  for (Eigen::Index i = 0; i < deviates.size(); ++i) deviates.data()[i] = random.normal();
  const Eigen::MatrixXd q = Eigen::HouseholderQR<Eigen::MatrixXd>(deviates).householderQ();
  return {q.data(), q.data() + q.size()};
}

}  // namespace nibble::model
