// What does a mixture cost beside a dense MLP of the same active work? A layer of 32 experts of 512, 4 of them active,
// against an MLP of 2048 over the same hidden width 1024, with BF16 weights that are decoded as products need them: a
// prompt forward, the same backward (with what it recomputes), and single tokens. Also the experts' products alone, as
// one expert after the other would have them if gathering and routing cost nothing. Measured in turn, because shared
// machines drift: median of the ratios of neighbouring runs, with the smallest and largest.
// Arguments: threads (0: all), runs, tokens of the prompt.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "core/random.h"
#include "model/transformer/layers/experts.h"
#include "model/transformer/layers/mlp.h"
#include "tests/bench/measure.h"

namespace {

using namespace nibble;
using namespace nibble::model;

constexpr std::size_t kHidden = 1024, kExperts = 32, kActive = 4, kWidth = 512;

/// Random BF16 weights in memory.
class Bf16Weights final : public WeightSource {
 public:
  Bf16Weights(std::size_t rows, std::size_t cols, std::uint64_t seed) : cols_(cols), values_(rows * cols) {
    Random random(seed);
    for (std::uint16_t& value : values_) value = f32_to_bf16(static_cast<float>(0.05 * (random.uniform() - 0.5)));
  }
  std::size_t rows() const override { return values_.size() / cols_; }
  std::size_t cols() const override { return cols_; }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    const auto* first = reinterpret_cast<const std::byte*>(values_.data() + begin * cols_);
    convert_to_f32(DType::kBF16, first, (end - begin) * cols_, destination);
  }

 private:
  std::size_t cols_;
  std::vector<std::uint16_t> values_;
};

/// Has no biases, and nothing else to give.
class NoBiases final : public WeightProvider {
 public:
  bool contains(const std::string&) const override { return false; }
  std::vector<float> vector(const Stored&) const override { throw InvalidArgument("no vectors here"); }
  std::shared_ptr<const WeightSource> matrix(const Parameter&) const override { throw InvalidArgument("no matrices"); }
  std::unique_ptr<LinearOp<float>> linear(const Parameter& p) const override {
    return std::make_unique<DecodingLinear>(std::make_shared<Bf16Weights>(p.out, p.in, ++seed_), std::vector<float>{});
  }

 private:
  mutable std::uint64_t seed_ = 0;
};

Parameter layer(std::size_t out, std::size_t in) {
  Parameter p;
  p.out = out, p.in = in;
  return p;
}

MlpSpec mlp_of(std::size_t intermediate) {
  MlpSpec spec;
  spec.gate = layer(intermediate, kHidden);
  spec.up = layer(intermediate, kHidden);
  spec.down = layer(kHidden, intermediate);
  return spec;
}

void compare(const char* what, std::size_t runs, const std::function<void()>& dense,
             const std::function<void()>& mixture) {
  dense();
  mixture();
  std::vector<double> dense_seconds, mixture_seconds, ratios;
  for (std::size_t i = 0; i < runs; ++i) {
    dense_seconds.push_back(bench::seconds_of(dense));
    mixture_seconds.push_back(bench::seconds_of(mixture));
    ratios.push_back(dense_seconds.back() / mixture_seconds.back());
  }
  const auto d = bench::timing_of(dense_seconds), m = bench::timing_of(mixture_seconds), r = bench::timing_of(ratios);
  fmt::print("  {:28} dense {:8.3f} ms, mixture {:8.3f} ms: {:.2f} of the dense speed ({:.2f} to {:.2f})\n", what,
             1e3 * d.median_seconds, 1e3 * m.median_seconds, r.median_seconds, r.min_seconds, r.max_seconds);
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0);
  const std::size_t runs = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 15;
  const std::size_t tokens = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 512;
  const NoBiases weights;
  const auto make = [&](const Parameter& p) { return weights.linear(p); };
  ExpertsSpec spec;
  spec.active = kActive;
  spec.router = layer(kExperts, kHidden);
  for (std::size_t e = 0; e < kExperts; ++e) spec.experts.push_back(mlp_of(kWidth));
  const Experts<float> mixture(spec, make, weights);
  const Mlp<float> dense(mlp_of(kActive * kWidth), make);
  std::vector<Mlp<float>> alone;
  for (std::size_t e = 0; e < kExperts; ++e) alone.emplace_back(mlp_of(kWidth), make);
  fmt::print("{} threads, {}: {} of {} experts of {}, hidden {}\n", thread_count(), isa_name(active_isa()), kActive,
             kExperts, kWidth, kHidden);

  Matrix<float> x(tokens, kHidden), y(tokens, kHidden), dx(tokens, kHidden);
  Random random(1);
  for (float& value : x.values()) value = static_cast<float>(random.normal());
  FeedForwardScratch<float> dense_scratch, scratch;
  compare(
      fmt::format("{} tokens forward", tokens).c_str(), runs, [&] { dense.forward(x, y, dense_scratch, nullptr); },
      [&] { mixture.forward(x, y, scratch, nullptr); });
  const std::size_t share = std::max<std::size_t>(1, tokens * kActive / kExperts);
  const MatrixView<const float> rows = x.view().rows_slice(0, share);
  compare(
      "its products alone", runs, [&] { dense.forward(x, y, dense_scratch, nullptr); },
      [&] {
        for (const Mlp<float>& one : alone) one.forward(rows, y.view().rows_slice(0, share), dense_scratch, nullptr);
      });
  const auto backward = [&](const FeedForward<float>& network, FeedForwardScratch<float>& memory) {
    network.recompute(x, {}, memory);
    network.backward(x, y, dx, memory, nullptr);
  };
  compare(
      fmt::format("{} tokens backward", tokens).c_str(), runs, [&] { backward(dense, dense_scratch); },
      [&] { backward(mixture, scratch); });
  Matrix<float> token(1, kHidden), out(1, kHidden);
  for (std::size_t i = 0; i < kHidden; ++i) token(0, i) = x(0, i);
  compare(
      "one token", runs, [&] { dense.forward(token, out, dense_scratch, nullptr); },
      [&] { mixture.forward(token, out, scratch, nullptr); });
  return 0;
}
