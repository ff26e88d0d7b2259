#include "tests/model/transformer/naive_transformer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>
#include <vector>

namespace nibble::test {
namespace {

using model::Activation;
using model::Architecture;
using model::AttentionSpec;
using model::BlockSpec;
using model::ExpertsSpec;
using model::MlpSpec;
using model::NormSpec;
using model::Parameter;
using model::RotaryScaling;
using model::RotarySpec;
using model::WeightProvider;
using Row = std::vector<double>;
using Rows = std::vector<Row>;

// Angle per position of pair `pair` in a sequence of `length` positions.
double frequency(const RotarySpec& rotary, std::size_t pair, std::size_t length) {
  const RotaryScaling& s = rotary.scaling;
  const double dims = static_cast<double>(rotary.dims), exponent = 2.0 * static_cast<double>(pair) / dims;
  const double context = static_cast<double>(s.original_context), pi = std::numbers::pi;
  const double plain = 1.0 / std::pow(rotary.base, exponent);
  // Turns within the original context.
  const double turns = context * plain / (2.0 * pi);
  switch (s.kind) {
    case RotaryScaling::Kind::kNone:
      return plain;
    case RotaryScaling::Kind::kLinear:
      return plain / s.factor;
    case RotaryScaling::Kind::kDynamic: {
      const double reach = std::max(static_cast<double>(length), context);
      const double growth = s.factor * reach / context - (s.factor - 1.0);
      return 1.0 / std::pow(rotary.base * std::pow(growth, dims / (dims - 2.0)), exponent);
    }
    case RotaryScaling::Kind::kLlama3: {
      // Many turns stay, few are slowed down by the factor.
      if (turns > s.high_frequency_factor) return plain;
      if (turns < s.low_frequency_factor) return plain / s.factor;
      const double smooth = (turns - s.low_frequency_factor) / (s.high_frequency_factor - s.low_frequency_factor);
      return plain * ((1.0 - smooth) / s.factor + smooth);
    }
    case RotaryScaling::Kind::kYarn: {
      const auto pair_with = [&](double rotations) {
        return dims * std::log(context / (rotations * 2.0 * pi)) / (2.0 * std::log(rotary.base));
      };
      double low = pair_with(s.beta_fast), high = pair_with(s.beta_slow);
      if (s.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
      }
      low = std::max(low, 0.0);
      high = std::min(high, dims - 1.0);
      if (low == high) high += 0.001;
      const double ramp = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
      return plain * (1.0 - ramp) + plain / s.factor * ramp;
    }
    case RotaryScaling::Kind::kLongRope:
      return plain / (length > s.original_context ? s.long_factors : s.short_factors)[pair];
  }
  return plain;
}

double silu(double x) { return x / (1.0 + std::exp(-x)); }

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return silu(x);
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kRelu2:
      return std::max(x, 0.0) * std::max(x, 0.0);
    case Activation::kClampedSwiglu:
      break;
  }
  return std::nan("");
}

struct Naive {
  const Architecture& architecture;
  const WeightProvider& weights;

  Rows matrix(const Parameter& p) const {
    std::vector<float> values(p.out * p.in);
    weights.matrix(p)->decode_rows(0, p.out, values.data());
    Rows rows(p.out, Row(p.in));
    for (std::size_t i = 0; i < values.size(); ++i) rows[i / p.in][i % p.in] = static_cast<double>(values[i]);
    return rows;
  }

  Rows linear(const Parameter& p, const Rows& x) const {
    const Rows w = matrix(p);
    std::vector<float> bias(p.out);
    if (p.biased) bias = weights.vector(p.bias);
    Rows y(x.size(), Row(p.out));
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t o = 0; o < p.out; ++o) {
        y[t][o] = static_cast<double>(bias[o]);
        for (std::size_t i = 0; i < p.in; ++i) y[t][o] += w[o][i] * x[t][i];
      }
    return y;
  }

  Rows norm(const std::optional<NormSpec>& spec, Rows x) const {
    if (!spec) return x;
    const std::size_t n = spec->width;
    const auto gain = spec->gain ? weights.vector(*spec->gain) : std::vector<float>(n, 1.0f);
    const auto bias = spec->bias ? weights.vector(*spec->bias) : std::vector<float>(n);
    const double offset = spec->gain ? spec->gain_offset : 0.0;
    for (auto& row : x) {
      for (std::size_t first = 0; first < row.size(); first += n) {
        double mean = 0.0, square = 0.0;
        if (spec->kind == NormSpec::Kind::kLayer)
          for (std::size_t i = 0; i < n; ++i) mean += row[first + i] / static_cast<double>(n);
        for (std::size_t i = 0; i < n; ++i)
          square += (row[first + i] - mean) * (row[first + i] - mean) / static_cast<double>(n);
        for (std::size_t i = 0; i < n; ++i)
          row[first + i] = (row[first + i] - mean) / std::sqrt(square + spec->epsilon) *
                               (static_cast<double>(gain[(first + i) % gain.size()]) + offset) +
                           static_cast<double>(bias[(first + i) % bias.size()]);
      }
    }
    return x;
  }

  static void clip(double limit, Rows& x) {
    if (limit == 0.0) return;
    for (auto& row : x)
      for (double& value : row) value = std::min(std::max(value, -limit), limit);
  }

  // Every head of every row, row t at position t, after the rotary embedding.
  static Rows rotated(const AttentionSpec& attention, const Rows& x) {
    if (!attention.rotary) return x;
    const RotarySpec& rotary = *attention.rotary;
    Rows y = x;
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t head = 0; head < x[t].size(); head += attention.head_dim) {
        for (std::size_t pair = 0; pair < rotary.dims / 2; ++pair) {
          const std::size_t a = head + (rotary.interleaved ? 2 * pair : pair);
          const std::size_t b = head + (rotary.interleaved ? 2 * pair + 1 : pair + rotary.dims / 2);
          const double turned = static_cast<double>(t) * frequency(rotary, pair, x.size());
          const double angle = rotary.backwards ? -turned : turned;
          y[t][a] = rotary.scaling.magnitude * (x[t][a] * std::cos(angle) - x[t][b] * std::sin(angle));
          y[t][b] = rotary.scaling.magnitude * (x[t][a] * std::sin(angle) + x[t][b] * std::cos(angle));
        }
      }
    }
    return y;
  }

  Rows attention(const AttentionSpec& s, const Rows& input) const {
    Rows q = linear(s.q, input), k = linear(s.k, input), v = linear(s.v, input);
    for (Rows* rows : {&q, &k, &v}) clip(s.clip, *rows);
    const bool behind = s.norms_behind_rotary;
    q = behind ? norm(s.q_norm, rotated(s, q)) : rotated(s, norm(s.q_norm, q));
    k = behind ? norm(s.k_norm, rotated(s, k)) : rotated(s, norm(s.k_norm, k));
    for (std::size_t t = 0; t < q.size(); ++t)
      for (double& value : q[t])
        value *=
            1.0 + s.growth.by * std::log(1.0 + std::floor(static_cast<double>(t) / static_cast<double>(s.growth.from)));
    const std::size_t tokens = q.size(), d = s.head_dim;
    const auto sinks = s.sinks ? weights.vector(*s.sinks) : std::vector<float>();
    Rows out(tokens, Row(s.q_width()));
    for (std::size_t head = 0; head < s.heads; ++head) {
      const std::size_t kv = head * s.kv_heads / s.heads;
      for (std::size_t t = 0; t < tokens; ++t) {
        Row weight(t + 1);
        double sum = sinks.empty() ? 0.0 : std::exp(static_cast<double>(sinks[head]));
        for (std::size_t u = 0; u <= t; ++u) {
          if (s.window > 0 && t - u >= s.window) continue;  // its weight stays 0
          double score = 0.0;
          for (std::size_t i = 0; i < d; ++i) score += q[t][head * d + i] * k[u][kv * d + i];
          score *= s.scale;
          if (s.softcap > 0.0) score = s.softcap * std::tanh(score / s.softcap);
          if (!s.alibi.empty()) score -= s.alibi[head] * static_cast<double>(t - u);
          weight[u] = std::exp(score);
          sum += weight[u];
        }
        for (std::size_t u = 0; u <= t; ++u)
          for (std::size_t i = 0; i < d; ++i) out[t][head * d + i] += weight[u] / sum * v[u][kv * d + i];
      }
    }
    return linear(s.o, out);
  }

  Rows mlp(const MlpSpec& s, const Rows& x) const {
    Rows inner = linear(s.up, x);
    const Rows gate = s.gate ? linear(*s.gate, x) : Rows();
    for (std::size_t t = 0; t < inner.size(); ++t) {
      for (std::size_t i = 0; i < inner[t].size(); ++i) {
        double& value = inner[t][i];
        if (s.activation == Activation::kClampedSwiglu) {
          const double g = std::min(gate[t][i], s.limit), u = std::min(std::max(value, -s.limit), s.limit);
          value = g / (1.0 + std::exp(-s.alpha * g)) * (u + 1.0);
        } else {
          value = s.gate ? activated(s.activation, gate[t][i]) * value : activated(s.activation, value);
        }
      }
    }
    return linear(s.down, inner);
  }

  // Indices from the largest value down, of equal ones in their order.
  static std::vector<std::size_t> descending(const Row& values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
    return order;
  }

  // What experts are chosen by: minus infinity in groups that are not among the best.
  static Row choices(const ExpertsSpec& s, const Row& scores, const std::vector<float>& correction) {
    Row value = scores;
    for (std::size_t e = 0; e < correction.size(); ++e) value[e] += static_cast<double>(correction[e]);
    const std::size_t size = value.size() / s.groups;
    Row worth(s.groups);
    for (std::size_t g = 0; s.groups > 1 && g < s.groups; ++g) {
      const Row group(value.begin() + static_cast<std::ptrdiff_t>(g * size),
                      value.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
      const auto order = descending(group);
      worth[g] = group[order[0]] + group[order[1]];
    }
    const auto order = descending(worth);
    for (std::size_t i = s.active_groups; i < s.groups; ++i)
      for (std::size_t e = order[i] * size; e < (order[i] + 1) * size; ++e)
        value[e] = -std::numeric_limits<double>::infinity();
    return value;
  }

  // The weights of all experts for one token, 0 for those not chosen.
  static Row expert_weights(const ExpertsSpec& s, const Row& logits, const std::vector<float>& correction) {
    using Rule = ExpertsSpec::Routing;
    double all = 0.0, chosen = 0.0;
    for (const double logit : logits) all += std::exp(logit);
    Row score = logits;
    if (s.routing == Rule::kSoftmaxThenTop)
      for (double& value : score) value = std::exp(value) / all;
    if (s.routing == Rule::kSigmoidThenTop)
      for (double& value : score) value = 1.0 / (1.0 + std::exp(-value));
    const auto order = descending(choices(s, score, correction));
    if (s.routing == Rule::kTopThenSoftmax)
      for (double& value : score) value = std::exp(value);
    for (std::size_t i = 0; i < s.active; ++i) chosen += score[order[i]];
    if (s.routing == Rule::kSigmoidThenTop) chosen += 1e-20;
    const bool of_chosen = s.routing == Rule::kTopThenSoftmax || s.renormalise;
    Row weight(logits.size());
    for (std::size_t i = 0; i < s.active; ++i)
      weight[order[i]] = s.scale * score[order[i]] / (of_chosen ? chosen : 1.0);
    return weight;
  }

  Rows experts(const ExpertsSpec& s, const Rows& x) const {
    const Rows logits = linear(s.router, x);
    const auto correction = s.correction ? weights.vector(*s.correction) : std::vector<float>();
    Rows y(x.size(), Row(architecture.hidden));
    const auto add_weighted = [&](const Rows& part, const auto& weight_of) {
      for (std::size_t t = 0; t < x.size(); ++t)
        for (std::size_t i = 0; i < y[t].size(); ++i) y[t][i] += weight_of(t) * part[t][i];
    };
    for (std::size_t e = 0; e < s.experts.size(); ++e)
      add_weighted(mlp(s.experts[e], x), [&](std::size_t t) { return expert_weights(s, logits[t], correction)[e]; });
    if (!s.shared) return y;
    const Rows gate = s.shared_gate ? linear(*s.shared_gate, x) : Rows();
    add_weighted(mlp(*s.shared, x),
                 [&](std::size_t t) { return gate.empty() ? 1.0 : 1.0 / (1.0 + std::exp(-gate[t][0])); });
    return y;
  }

  static void add(double factor, const Rows& x, Rows& y) {
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t i = 0; i < x[t].size(); ++i) y[t][i] += factor * x[t][i];
  }

  void block(const BlockSpec& s, Rows& x) const {
    const auto second_half = [&](const Rows& input) {
      return norm(s.mlp_post_norm, s.mlp ? mlp(*s.mlp, input) : experts(*s.experts, input));
    };
    const Rows first_input = norm(s.attention_norm, x);
    const Rows first = norm(s.attention_post_norm, attention(s.attention, first_input));
    if (s.residual == BlockSpec::Residual::kParallel) {
      const Rows second = second_half(s.mlp_norm ? norm(s.mlp_norm, x) : first_input);
      add(s.residual_multiplier, first, x);
      add(s.residual_multiplier, second, x);
    } else {
      add(s.residual_multiplier, first, x);
      add(s.residual_multiplier, second_half(norm(s.mlp_norm, x)), x);
    }
  }
};

}  // namespace

Matrix<double> naive_logits(const Architecture& architecture, const WeightProvider& weights,
                            std::span<const std::uint32_t> tokens) {
  const Naive naive{architecture, weights};
  const Rows embedding = naive.matrix(architecture.embedding);
  Rows x(tokens.size(), Row(architecture.hidden));
  for (std::size_t t = 0; t < tokens.size(); ++t)
    for (std::size_t i = 0; i < architecture.hidden; ++i)
      x[t][i] = architecture.embedding_scale * embedding[tokens[t]][i];
  if (architecture.positions) {
    const Rows positions = naive.matrix(*architecture.positions);
    for (std::size_t t = 0; t < tokens.size(); ++t)
      for (std::size_t i = 0; i < architecture.hidden; ++i) x[t][i] += positions[t + architecture.position_offset][i];
  }
  x = naive.norm(architecture.embedding_norm, x);
  for (const BlockSpec& block : architecture.blocks) naive.block(block, x);
  const model::HeadSpec& head = architecture.head;
  const Rows y = naive.linear(head.linear, naive.norm(architecture.final_norm, x));
  Matrix<double> logits(tokens.size(), architecture.vocabulary);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    for (std::size_t o = 0; o < architecture.vocabulary; ++o) {
      logits(t, o) = head.scale * y[t][o];
      if (head.softcap > 0.0) logits(t, o) = head.softcap * std::tanh(logits(t, o) / head.softcap);
    }
  }
  return logits;
}

}  // namespace nibble::test
