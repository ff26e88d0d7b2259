// What one decoded token costs outside the matrix products: a transformer of Llama-3.2-1B's shape whose linear layers
// do nothing but hand out one empty task per thread, with caches of several types and lengths. Median of the runs.
// Arguments: threads (0: all), tokens per run, runs, contexts (1 128 512 2048).
#include <fmt/format.h>

#include <cstdlib>

#include "core/machine/thread_pool.h"
#include "model/architecture/families.h"
#include "model/architecture/known_shapes.h"
#include "model/transformer/build.h"
#include "model/transformer/cache/sequence.h"
#include "model/transformer/sampling.h"
#include "tests/bench/measure.h"

namespace {

using namespace nibble;
using model::CacheOptions;
using model::CacheType;

class EmptyLinear final : public LinearOp<float> {
 public:
  EmptyLinear(std::size_t out, std::size_t in) : out_(out), in_(in) {}
  std::size_t in_features() const override { return in_; }
  std::size_t out_features() const override { return out_; }
  void forward(MatrixView<const float>, MatrixView<float>) const override {
    parallel_for(thread_count(), [](std::size_t) {});
  }
  void backward_input(MatrixView<const float>, MatrixView<float>) const override {}

 private:
  std::size_t out_, in_;
};

class Ones final : public WeightSource {
 public:
  Ones(std::size_t rows, std::size_t cols) : rows_(rows), cols_(cols) {}
  std::size_t rows() const override { return rows_; }
  std::size_t cols() const override { return cols_; }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    std::fill_n(destination, (end - begin) * cols_, 1.0f);
  }

 private:
  std::size_t rows_, cols_;
};

class EmptyWeights final : public model::WeightProvider {
 public:
  bool contains(const std::string& tensor) const override { return tensor.find("bias") == std::string::npos; }
  std::vector<float> vector(const model::Stored& stored) const override {
    return std::vector<float>(stored.part.count, 1.0f);
  }
  std::shared_ptr<const WeightSource> matrix(const model::Parameter& p) const override {
    return std::make_shared<Ones>(p.out, p.in);
  }
  std::unique_ptr<LinearOp<float>> linear(const model::Parameter& p) const override {
    return std::make_unique<EmptyLinear>(p.out, p.in);
  }
};

model::Architecture llama_1b() {
  return model::parse_architecture(model::architecture_config("llama-3.2-1b", {}), "config");
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0);
  const std::size_t tokens = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 50;
  const std::size_t runs = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 5;
  const auto network = model::make_model(llama_1b(), EmptyWeights());
  fmt::print("{} threads, microseconds per token\n{:>8} {:>10} {:>10} {:>10}\n", thread_count(), "context", "f32",
             "f16", "int8");
  Random random(0);
  const auto greedy = [&](auto, MatrixView<const float> logits) { model::sample_token(logits.row(0), {}, random); };
  std::vector<std::size_t> contexts;
  for (int i = 4; i < argc; ++i) contexts.push_back(std::strtoul(argv[i], nullptr, 10));
  if (contexts.empty()) contexts = {1, 128, 512, 2048};
  for (const std::size_t context : contexts) {
    fmt::print("{:>8}", context);
    for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
      const auto sequence = model::make_sequence(*network, CacheOptions{.type = type, .capacity = context + tokens});
      const TokenId token = 1;
      std::vector<double> seconds;
      for (std::size_t run = 0; run < runs; ++run) {
        sequence->reset();
        sequence->extend(std::vector<TokenId>(context, 1), 0, greedy);
        seconds.push_back(bench::seconds_of([&] {
          for (std::size_t i = 0; i < tokens; ++i) sequence->extend({&token, 1}, 1, greedy);
        }));
      }
      fmt::print(" {:>10.1f}", bench::timing_of(std::move(seconds)).median_seconds / static_cast<double>(tokens) * 1e6);
    }
    fmt::print("\n");
  }
  return 0;
}
