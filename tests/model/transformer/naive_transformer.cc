#include "tests/model/transformer/naive_transformer.h"

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

namespace nibble::test {
namespace {

using model::Config;
using model::WeightProvider;
using Rows = std::vector<std::vector<double>>;

struct Naive {
  const Config& config;
  const WeightProvider& weights;
  bool gpt2 = config.family == model::Family::kGpt2;

  Rows matrix(const std::string& module, std::size_t out, std::size_t in) const {
    std::vector<float> values(out * in);
    weights.matrix(module, out, in, gpt2)->decode_rows(0, out, values.data());
    Rows rows(out, std::vector<double>(in));
    for (std::size_t i = 0; i < values.size(); ++i) rows[i / in][i % in] = static_cast<double>(values[i]);
    return rows;
  }

  Rows linear(const std::string& module, const Rows& x, std::size_t out) const {
    const std::size_t in = x[0].size();
    const Rows w = matrix(module, out, in);
    std::vector<float> bias(out);
    if (weights.contains(module + ".bias")) bias = weights.vector(module + ".bias", out);
    Rows y(x.size(), std::vector<double>(out));
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t o = 0; o < out; ++o) {
        y[t][o] = static_cast<double>(bias[o]);
        for (std::size_t i = 0; i < in; ++i) y[t][o] += w[o][i] * x[t][i];
      }
    return y;
  }

  Rows norm(const std::string& module, Rows x) const {
    const std::size_t n = config.hidden;
    const auto gain = weights.vector(module + ".weight", n);
    const auto bias = gpt2 ? weights.vector(module + ".bias", n) : std::vector<float>(n);
    for (auto& row : x) {
      double mean = 0.0, square = 0.0;
      if (gpt2)
        for (const double v : row) mean += v / static_cast<double>(n);
      for (const double v : row) square += (v - mean) * (v - mean) / static_cast<double>(n);
      for (std::size_t i = 0; i < n; ++i)
        row[i] = (row[i] - mean) / std::sqrt(square + config.norm_epsilon) * static_cast<double>(gain[i]) +
                 static_cast<double>(bias[i]);
    }
    return x;
  }

  double frequency(std::size_t pair) const {
    const double plain =
        1.0 / std::pow(config.rope_theta, 2.0 * static_cast<double>(pair) / static_cast<double>(config.head_dim));
    if (!config.rope_scaling) return plain;
    const auto& s = *config.rope_scaling;
    // Turns within the original context: many turns stay, few are slowed down by the factor.
    const double turns = static_cast<double>(s.original_context) * plain / (2.0 * std::numbers::pi);
    if (turns > s.high_frequency_factor) return plain;
    if (turns < s.low_frequency_factor) return plain / s.factor;
    const double smooth = (turns - s.low_frequency_factor) / (s.high_frequency_factor - s.low_frequency_factor);
    return plain * ((1.0 - smooth) / s.factor + smooth);
  }

  // Element i of head `head` of `row` at position `position`, after the rotary embedding.
  double rotated(const std::vector<double>& row, std::size_t head, std::size_t i, std::size_t position) const {
    const std::size_t d = config.head_dim, half = d / 2, base = head * d;
    if (gpt2) return row[base + i];
    const double angle = static_cast<double>(position) * frequency(i % half);
    if (i < half) return row[base + i] * std::cos(angle) - row[base + i + half] * std::sin(angle);
    return row[base + i] * std::cos(angle) + row[base + i - half] * std::sin(angle);
  }

  Rows attention(const Rows& q, const Rows& k, const Rows& v) const {
    const std::size_t tokens = q.size(), d = config.head_dim;
    Rows out(tokens, std::vector<double>(config.q_width()));
    for (std::size_t head = 0; head < config.heads; ++head) {
      const std::size_t kv = head * config.kv_heads / config.heads;
      for (std::size_t t = 0; t < tokens; ++t) {
        std::vector<double> p(t + 1);
        double sum = 0.0;
        for (std::size_t u = 0; u <= t; ++u) {
          for (std::size_t i = 0; i < d; ++i) p[u] += rotated(q[t], head, i, t) * rotated(k[u], kv, i, u);
          p[u] = std::exp(p[u] / std::sqrt(static_cast<double>(d)));
          sum += p[u];
        }
        for (std::size_t u = 0; u <= t; ++u)
          for (std::size_t i = 0; i < d; ++i) out[t][head * d + i] += p[u] / sum * v[u][kv * d + i];
      }
    }
    return out;
  }

  static Rows columns(const Rows& x, std::size_t first, std::size_t count) {
    Rows y;
    for (const auto& row : x) y.emplace_back(row.data() + first, row.data() + first + count);
    return y;
  }
  static void add(const Rows& x, Rows& y) {
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t i = 0; i < x[t].size(); ++i) y[t][i] += x[t][i];
  }

  void gpt2_block(const std::string& p, Rows& x) const {
    const std::size_t w = config.hidden;
    const Rows qkv = linear(p + "attn.c_attn", norm(p + "ln_1", x), 3 * w);
    add(linear(p + "attn.c_proj", attention(columns(qkv, 0, w), columns(qkv, w, w), columns(qkv, 2 * w, w)), w), x);
    Rows inner = linear(p + "mlp.c_fc", norm(p + "ln_2", x), config.intermediate);
    for (auto& row : inner)
      for (double& v : row)
        v = 0.5 * v * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
    add(linear(p + "mlp.c_proj", inner, w), x);
  }

  void llama_block(const std::string& p, Rows& x) const {
    const Rows n = norm(p + "input_layernorm", x);
    const Rows mixed = attention(linear(p + "self_attn.q_proj", n, config.q_width()),
                                 linear(p + "self_attn.k_proj", n, config.kv_width()),
                                 linear(p + "self_attn.v_proj", n, config.kv_width()));
    add(linear(p + "self_attn.o_proj", mixed, config.hidden), x);
    const Rows m = norm(p + "post_attention_layernorm", x);
    Rows inner = linear(p + "mlp.gate_proj", m, config.intermediate);
    const Rows up = linear(p + "mlp.up_proj", m, config.intermediate);
    for (std::size_t t = 0; t < inner.size(); ++t)
      for (std::size_t i = 0; i < inner[t].size(); ++i)
        inner[t][i] = inner[t][i] / (1.0 + std::exp(-inner[t][i])) * up[t][i];
    add(linear(p + "mlp.down_proj", inner, config.hidden), x);
  }
};

}  // namespace

Matrix<double> naive_logits(const Config& config, const WeightProvider& weights,
                            std::span<const std::uint32_t> tokens) {
  const Naive naive{config, weights};
  const std::string token_module = naive.gpt2 ? "wte" : "model.embed_tokens";
  const Rows embedding = naive.matrix(token_module, config.vocabulary, config.hidden);
  Rows x;
  for (const auto token : tokens) x.push_back(embedding[token]);
  if (naive.gpt2) {
    Rows positions = naive.matrix("wpe", config.max_positions, config.hidden);
    positions.resize(tokens.size());
    Naive::add(positions, x);
  }
  for (std::size_t block = 0; block < config.layers; ++block) {
    if (naive.gpt2) {
      naive.gpt2_block("h." + std::to_string(block) + ".", x);
    } else {
      naive.llama_block("model.layers." + std::to_string(block) + ".", x);
    }
  }
  x = naive.norm(naive.gpt2 ? "ln_f" : "model.norm", x);
  const Rows head = config.tied_head ? embedding : naive.matrix("lm_head", config.vocabulary, config.hidden);
  Matrix<double> logits(tokens.size(), config.vocabulary);
  for (std::size_t t = 0; t < tokens.size(); ++t)
    for (std::size_t o = 0; o < config.vocabulary; ++o)
      for (std::size_t i = 0; i < config.hidden; ++i) logits(t, o) += head[o][i] * x[t][i];
  return logits;
}

}  // namespace nibble::test
