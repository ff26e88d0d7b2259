#pragma once

#include <stdexcept>

#include "model/transformer/transformer.h"

namespace nibble::test {

/// A model that is asked for nothing but what a test gives it by overriding: all else throws.
class RefusingModel : public model::Model {
 public:
  void forward(const model::Batch&, std::span<const std::size_t>, const model::LogitSink<float>&,
               const model::ForwardOptions&, const model::Hooks<float>*) const override {
    refuse();
  }
  void extend(std::span<const TokenId>, model::KvCache<float>&, std::span<const std::size_t>,
              const model::LogitSink<float>&, const model::ForwardOptions&) const override {
    refuse();
  }
  void embed(const model::Batch&, MatrixView<float>) const override { refuse(); }
  void forward_block(std::size_t, const model::Batch&, MatrixView<float>, const model::ForwardOptions&,
                     const model::Hooks<float>*) const override {
    refuse();
  }
  void backward_block(std::size_t, const model::Batch&, MatrixView<const float>, MatrixView<float>,
                      const model::Hooks<float>*) const override {
    refuse();
  }
  void backward_head(MatrixView<const float>, std::span<const std::int64_t>, std::span<const float>, std::span<float>,
                     MatrixView<float>, const model::Hooks<float>*) const override {
    refuse();
  }
  void forward_head(MatrixView<const float>, std::span<const std::size_t>,
                    const model::LogitSink<float>&) const override {
    refuse();
  }
  void backward_logits(MatrixView<const float>, std::span<const std::size_t>, const model::LogitGradient<float>&,
                       MatrixView<float>, const model::Hooks<float>*) const override {
    refuse();
  }
  void release_block(std::size_t) const override { refuse(); }

 private:
  [[noreturn]] static void refuse() { throw std::logic_error("a part of the model that the test does not have"); }
};

}  // namespace nibble::test
