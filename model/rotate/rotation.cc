#include "model/rotate/rotation.h"

#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/random.h"
#include "model/rotate/random_orthogonal.h"

namespace nibble::model {
namespace {

// x (a power of two of values) becomes x H / √n.
void hadamard(std::span<double> x) {
  for (std::size_t half = 1; half < x.size(); half *= 2)
    for (std::size_t begin = 0; begin < x.size(); begin += 2 * half)
      for (std::size_t i = begin; i < begin + half; ++i) {
        const double a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
  const double scale = 1.0 / std::sqrt(static_cast<double>(x.size()));
  for (double& value : x) value *= scale;
}

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace

Rotation::Rotation(std::size_t width, std::uint64_t seed, bool keeps_ones) : signs_(width) {
  NIBBLE_REQUIRE(width > 0, InvalidArgument, "a rotation needs a width, got 0");
  while (width % (2 * block_) == 0) block_ *= 2;
  Random random(seed);
  for (double& sign : signs_) sign = random.next() >> 63 == 0 ? 1.0 : -1.0;
  if (block_ < width) across_ = random_orthogonal(width / block_, random);
  if (!keeps_ones) return;
  const double one = 1.0 / std::sqrt(static_cast<double>(width));
  std::vector<double> image(width, one);
  apply_without_reflection(image);
  for (double& value : image) value -= one;
  const double length = std::sqrt(dot(image, image));
  if (length < 1e-12) return;  // already where it was
  for (double& value : image) value /= length;
  mirror_ = std::move(image);
}

void Rotation::apply(std::span<double> x) const {
  apply_without_reflection(x);
  if (mirror_.empty()) return;
  const double twice = 2.0 * dot(x, mirror_);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] -= twice * mirror_[i];
}

void Rotation::apply_without_reflection(std::span<double> x) const {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= signs_[i];
  for (std::size_t begin = 0; begin < x.size(); begin += block_) hadamard(x.subspan(begin, block_));
  if (across_.empty()) return;
  const std::size_t blocks = x.size() / block_;
  std::vector<double> mixed(x.size(), 0.0);
  for (std::size_t from = 0; from < blocks; ++from)
    for (std::size_t to = 0; to < blocks; ++to) {
      const double share = across_[from * blocks + to];
      for (std::size_t i = 0; i < block_; ++i) mixed[to * block_ + i] += share * x[from * block_ + i];
    }
  std::copy(mixed.begin(), mixed.end(), x.begin());
}

void rotate_parts(const Parts& parts, std::span<double> x) {
  std::size_t begin = 0;
  for (const Rotation* part : parts) {
    part->apply(x.subspan(begin, part->width()));
    begin += part->width();
  }
}

}  // namespace nibble::model
