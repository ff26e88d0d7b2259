#include "quant/job/plan/scaled_source.h"

#include <utility>

namespace nibble::quant {
namespace {

class ScaledSource final : public WeightSource {
 public:
  ScaledSource(std::shared_ptr<const WeightSource> source, InputScales scales, bool divide)
      : source_(std::move(source)), scales_(std::move(scales)), divide_(divide) {}

  std::size_t rows() const override { return source_->rows(); }
  std::size_t cols() const override { return source_->cols(); }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    source_->decode_rows(begin, end, destination);
    const std::vector<float>& s = *scales_;
    for (std::size_t r = begin; r < end; ++r, destination += s.size())
      for (std::size_t j = 0; j < s.size(); ++j)
        destination[j] = divide_ ? destination[j] / s[j] : destination[j] * s[j];
  }
  void release() const override { source_->release(); }

 private:
  std::shared_ptr<const WeightSource> source_;
  InputScales scales_;
  bool divide_;
};

}  // namespace

std::shared_ptr<const WeightSource> scale_columns(std::shared_ptr<const WeightSource> source, InputScales scales) {
  return std::make_shared<ScaledSource>(std::move(source), std::move(scales), false);
}

std::shared_ptr<const WeightSource> unscale_columns(std::shared_ptr<const WeightSource> source, InputScales scales) {
  return std::make_shared<ScaledSource>(std::move(source), std::move(scales), true);
}

}  // namespace nibble::quant
