// How near does the transformer come to the bare matrix products it consists of? For the models of ../shared and for
// one layer of the shape of Llama-3.1-8B: forward, and forward + backward + Fisher, at context 512, against the GEMM
// rate measured in the same run. Work counts the linear layers, the head, and the causal half of attention. The GEMM
// rate is that of the model's own linear layers as float matrices in memory, all threads, each with the best of several
// tiles; it is measured in turn with the model, because shared machines drift. Median of the runs, with the smallest
// and largest share. Arguments: threads (0: all), runs, a part of the names to measure, and "cpu" to count processor
// time of all threads instead of wall time: steadier where other programs compete, blind to idle threads.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <vector>

#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "core/matrix/gemm.h"
#include "core/random.h"
#include "model/checkpoint/safetensors_writer.h"
#include "model/transformer/transformer.h"
#include "tests/support/files.h"
#include "tests/support/layers.h"

namespace {

using namespace nibble;
using model::Architecture;

constexpr std::size_t kContext = 512;
bool processor_time = false;

// Seconds of one run, after one to warm up.
template <class Work>
double seconds_of(const Work& work) {
  work();
  timespec begin{}, end{};
  const clockid_t clock = processor_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  clock_gettime(clock, &begin);
  work();
  clock_gettime(clock, &end);
  const double elapsed =
      static_cast<double>(end.tv_sec - begin.tv_sec) + 1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec);
  return processor_time ? elapsed / static_cast<double>(thread_count()) : elapsed;
}

struct Product {
  std::size_t out, in;
};

struct Loaded {
  std::shared_ptr<const model::Checkpoint> checkpoint;
  model::Architecture architecture;
  std::unique_ptr<model::Model> network;
};

Loaded load(const std::filesystem::path& directory) {
  Loaded loaded;
  loaded.checkpoint = model::Checkpoint::open(directory);
  loaded.architecture = loaded.checkpoint->architecture();
  loaded.network = model::make_model(loaded.architecture, *model::make_float_provider(loaded.checkpoint));
  return loaded;
}

double linear_flops(const std::vector<Product>& products, std::size_t tokens) {
  double sum = 0.0;
  for (const Product& p : products) sum += 2.0 * static_cast<double>(tokens * p.out) * static_cast<double>(p.in);
  return sum;
}

// Scores and mixing of the values at or below the diagonal.
double attention_flops(const model::Architecture& architecture, std::size_t tokens) {
  const double pairs = static_cast<double>(tokens / kContext) * static_cast<double>(kContext * (kContext + 1)) / 2.0;
  std::size_t width = 0;
  for (const model::BlockSpec& block : architecture.blocks) width += block.attention.q_width();
  return 4.0 * static_cast<double>(width) * pairs;
}

/// The linear layers as plain products of float matrices in memory, each with the best of these tiles.
class BareProducts {
 public:
  BareProducts(std::vector<Product> products, std::size_t tokens) : products_(std::move(products)), tokens_(tokens) {
    std::size_t in = 0, out = 0, weight = 0;
    for (const Product& p : products_) {
      in = std::max(in, p.in);
      out = std::max(out, p.out);
      weight = std::max(weight, p.in * p.out);
    }
    x_.assign(tokens * in, 0.5f);
    y_.assign(tokens * out, 0.0f);
    w_.assign(weight, 0.25f);
  }

  /// Seconds for all of them.
  double seconds() {
    double sum = 0.0;
    for (const Product& p : products_) {
      const auto known = std::find_if(measured_.begin(), measured_.end(),
                                      [&](const auto& m) { return m.product.out == p.out && m.product.in == p.in; });
      sum += known != measured_.end() ? known->seconds : measured_.emplace_back(p, best_seconds(p)).seconds;
    }
    measured_.clear();
    return sum;
  }

 private:
  struct Measured {
    Measured(Product p, double s) : product(p), seconds(s) {}
    Product product;
    double seconds;
  };

  double best_seconds(const Product& p) {
    double best = INFINITY;
    const auto inner = static_cast<std::size_t>(std::max(1.0, 2e9 / linear_flops({p}, tokens_)));
    for (const auto& [rows, cols] :
         {std::pair<std::size_t, std::size_t>{256, 128}, {512, 128}, {256, 256}, {512, 256}}) {
      const double seconds = seconds_of([&, tile_rows = rows, tile_cols = cols] {
        for (std::size_t i = 0; i < inner; ++i) multiply(p, tile_rows, tile_cols);
      });
      best = std::min(best, seconds / static_cast<double>(inner));
    }
    return best;
  }

  void multiply(const Product& p, std::size_t tile_rows, std::size_t tile_cols) {
    const MatrixView<const float> x(x_.data(), tokens_, p.in), w(w_.data(), p.out, p.in);
    const MatrixView<float> y(y_.data(), tokens_, p.out);
    const std::size_t across = (p.out + tile_cols - 1) / tile_cols, down = (tokens_ + tile_rows - 1) / tile_rows;
    parallel_for(across * down, [&](std::size_t tile) {
      const std::size_t r = tile % down * tile_rows, c = tile / down * tile_cols;
      const std::size_t rows = std::min(tile_rows, tokens_ - r), cols = std::min(tile_cols, p.out - c);
      gemm<float>(Transpose::kNo, Transpose::kYes, 1.0f, x.rows_slice(r, rows), w.rows_slice(c, cols), 0.0f,
                  y.block(r, c, rows, cols));
    });
  }

  std::vector<Product> products_;
  std::size_t tokens_;
  std::vector<float> x_, y_, w_;
  std::vector<Measured> measured_;
};

/// Squared gradients of each window, added up: what calibration does with the hooks, in tiles on all threads.
class FisherSums {
 public:
  void add(const std::string& module, MatrixView<const float> x, MatrixView<const float> dy) {
    if (module == "lm_head") return;
    auto& sum = sums_[module];
    if (sum.size() == 0) sum = Matrix<double>(dy.cols(), x.cols());
    constexpr std::size_t kTile = 256;
    const std::size_t across = (x.cols() + kTile - 1) / kTile, down = (dy.cols() + kTile - 1) / kTile;
    parallel_for(across * down, [&](std::size_t tile) {
      const std::size_t r = tile / across * kTile, c = tile % across * kTile;
      const std::size_t rows = std::min(kTile, dy.cols() - r), cols = std::min(kTile, x.cols() - c);
      thread_local std::vector<float> buffer(kTile * kTile);
      const MatrixView<float> gradient(buffer.data(), rows, cols);
      for (std::size_t window = 0; window < x.rows(); window += kContext) {
        gemm<float>(Transpose::kYes, Transpose::kNo, 1.0f, dy.block(window, r, kContext, rows),
                    x.block(window, c, kContext, cols), 0.0f, gradient);
        for (std::size_t i = 0; i < rows; ++i)
          for (std::size_t j = 0; j < cols; ++j) {
            const double value = static_cast<double>(gradient(i, j));
            sum(r + i, c + j) += value * value;
          }
      }
    });
  }

 private:
  std::map<std::string, Matrix<double>> sums_;
};

class Workload {
 public:
  Workload(const Loaded& loaded, std::size_t tokens) : loaded_(loaded), tokens_(tokens) {
    for (std::size_t start = 0; start <= tokens; start += kContext) starts_.push_back(start);
    Random random(1);
    for (std::size_t r = 0; r < tokens; ++r) {
      ids_.push_back(static_cast<TokenId>(random.below(loaded.architecture.vocabulary)));
      targets_.push_back(r % kContext == kContext - 1 ? -1 : static_cast<std::int64_t>(ids_.back()));
      rows_.push_back(r);
    }
    weights_.assign(tokens, 1.0f / (kContext - 1));
    losses_.resize(tokens);
    dx_ = Matrix<float>(tokens, loaded.architecture.hidden);
  }

  void forward() {
    loaded_.network->forward({ids_, starts_}, rows_, [](auto, auto) {});
  }

  /// Block by block as calibration goes: inputs of the blocks are kept, their internals recomputed.
  void fisher() {
    const model::Batch batch{ids_, starts_};
    const std::size_t layers = loaded_.architecture.blocks.size();
    boundaries_.resize(layers + 1, Matrix<float>(tokens_, loaded_.architecture.hidden));
    model::Hooks<float> hooks;
    hooks.on_linear_gradient = [&](const std::string& module, auto x, auto dy, const auto&) {
      sums_.add(module, x, dy);
    };
    loaded_.network->embed(batch, boundaries_[0]);
    for (std::size_t i = 0; i < layers; ++i) {
      std::copy_n(boundaries_[i].data(), boundaries_[i].size(), boundaries_[i + 1].data());
      loaded_.network->forward_block(i, batch, boundaries_[i + 1], {}, nullptr);
    }
    loaded_.network->backward_head(boundaries_[layers], targets_, weights_, losses_, dx_, &hooks);
    for (std::size_t i = layers; i-- > 0;) loaded_.network->backward_block(i, batch, boundaries_[i], dx_, &hooks);
  }

 private:
  const Loaded& loaded_;
  std::size_t tokens_;
  std::vector<std::size_t> starts_, rows_;
  std::vector<TokenId> ids_;
  std::vector<std::int64_t> targets_;
  std::vector<float> weights_, losses_;
  Matrix<float> dx_;
  std::vector<Matrix<float>> boundaries_;
  FisherSums sums_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void report(const char* name, const Loaded& loaded, std::size_t tokens, std::size_t runs) {
  std::vector<Product> products;
  for (const auto& layer : test::layers_of(loaded.architecture)) products.push_back({layer.out, layer.in});
  products.push_back({loaded.architecture.vocabulary, loaded.architecture.hidden});
  const double linear = linear_flops(products, tokens), work = linear + attention_flops(loaded.architecture, tokens);
  BareProducts bare(products, tokens);
  Workload workload(loaded, tokens);
  std::vector<double> rates, forward_seconds, shares, fisher_ratios;
  for (std::size_t run = 0; run < runs; ++run) {
    const auto before = bare.seconds();
    const auto forward = seconds_of([&] { workload.forward(); });
    const auto fisher = seconds_of([&] { workload.fisher(); });
    const double gemm_rate = linear / before;
    rates.push_back(gemm_rate);
    forward_seconds.push_back(forward);
    shares.push_back(work / forward / gemm_rate);
    fisher_ratios.push_back(fisher / forward);
  }
  const auto [low, high] = std::minmax_element(shares.begin(), shares.end());
  const double seconds = median(forward_seconds);
  fmt::print("{:<22} {:>6} {:>10.0f} {:>10.1f} {:>10.1f} {:>7.1f} ({:.1f} to {:.1f}) {:>14.2f}\n", name, tokens,
             static_cast<double>(tokens) / seconds, work / seconds / 1e9, median(rates) / 1e9, 100.0 * median(shares),
             100.0 * *low, 100.0 * *high, median(fisher_ratios));
  std::fflush(stdout);
}

/// A checkpoint with one layer of Llama-3.1-8B's shape, small embeddings, random float16 weights.
void write_wide_layer(const std::filesystem::path& directory) {
  test::write_file(directory / "config.json", R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 1, "num_attention_heads": 32, "num_key_value_heads": 8,
    "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": true})");
  const std::string block = "model.layers.0.";
  const std::vector<model::TensorDeclaration> tensors{{"model.embed_tokens.weight", DType::kF16, {256, 4096}},
                                                      {"model.norm.weight", DType::kF16, {4096}},
                                                      {block + "input_layernorm.weight", DType::kF16, {4096}},
                                                      {block + "post_attention_layernorm.weight", DType::kF16, {4096}},
                                                      {block + "self_attn.q_proj.weight", DType::kF16, {4096, 4096}},
                                                      {block + "self_attn.k_proj.weight", DType::kF16, {1024, 4096}},
                                                      {block + "self_attn.v_proj.weight", DType::kF16, {1024, 4096}},
                                                      {block + "self_attn.o_proj.weight", DType::kF16, {4096, 4096}},
                                                      {block + "mlp.gate_proj.weight", DType::kF16, {14336, 4096}},
                                                      {block + "mlp.up_proj.weight", DType::kF16, {14336, 4096}},
                                                      {block + "mlp.down_proj.weight", DType::kF16, {4096, 14336}}};
  model::SafetensorsWriter writer(directory / "model.safetensors", tensors);
  Random random(1);
  std::vector<float> values(4096);
  std::vector<std::uint16_t> halves(values.size());
  for (const auto& tensor : tensors) {
    const std::uint64_t rows = tensor.shape.size() == 2 ? tensor.shape[0] * tensor.shape[1] / values.size() : 1;
    for (std::uint64_t row = 0; row < rows; ++row) {
      for (float& value : values) value = static_cast<float>((random.uniform() - 0.5) / 16.0);
      convert_to_f16(values, halves.data());
      writer.write(std::as_bytes(std::span(halves)));
    }
  }
  writer.commit();
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, std::size_t fallback) {
    return argc > i ? static_cast<std::size_t>(std::strtoul(argv[i], nullptr, 10)) : fallback;
  };
  set_thread_count(argument(1, 0));
  const std::size_t runs = argument(2, 5);
  processor_time = argc > 4 && std::string(argv[4]) == "cpu";
  const auto wanted = [&](const std::string& name) { return argc <= 3 || name.find(argv[3]) != std::string::npos; };
  fmt::print("{}, {} threads, context {}\n", gemm_identity(), thread_count(), kContext);
  fmt::print("{:<22} {:>6} {:>10} {:>10} {:>10} {:>23} {:>14}\n", "model", "batch", "tokens/s", "GFLOP/s", "GEMM",
             "share of GEMM, %", "fisher/forward");
  for (const char* name : {"gpt2-novels", "llama-novels"}) {
    const auto directory = test::shared_path(std::string("models/") + name);
    if (!wanted(name) || !std::filesystem::exists(directory)) continue;
    const Loaded loaded = load(directory);
    for (const std::size_t tokens : {2048u, 512u}) report(name, loaded, tokens, runs);
  }
  const std::string wide_name = "one layer of llama-8b";
  if (!wanted(wide_name)) return 0;
  const test::TempDir directory;
  write_wide_layer(directory.path());
  const Loaded wide = load(directory.path());
  for (const std::size_t tokens : {2048u, 512u})
    report(wide_name.c_str(), wide, tokens, std::min<std::size_t>(runs, 3));
  return 0;
}
