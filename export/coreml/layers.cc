#include "export/coreml/layers.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "export/coreml/names.h"
#include "export/coreml/ops.h"

namespace nibble::coreml {

using model::Activation;
using model::NormSpec;

namespace {

// The least that float16 holds stands for what it would make 0 of, which leaves a row of zeros 0 / 0.
Var half_epsilon(Graph& graph, double epsilon) {
  constexpr double kLeastHalf = 0x1p-24;
  return graph.half(std::max(epsilon, kLeastHalf));
}

}  // namespace

Var Layers::weight(const model::Parameter& parameter) { return weight_rows(parameter, {0, parameter.out}); }

Var Layers::weight_rows(const model::Parameter& parameter, Rows rows) {
  const bool whole = rows.begin == 0 && rows.end == parameter.out;
  const std::string name = whole ? matrix_name(parameter) : rows_name(parameter, rows.begin);
  return g_.stored(g_.pool().get(name, [&] { return weights_.matrix(parameter, rows, g_.pool()); }), name);
}

Var Layers::vector(std::span<const float> values, const std::vector<std::uint64_t>& shape, const std::string& name) {
  return g_.stored(g_.pool().halves(shape, values, name), name);
}

Var Layers::linear(const Var& x, const model::Parameter& parameter, const std::string& name) {
  return linear_rows(x, parameter, {0, parameter.out}, name);
}

Var Layers::linear_rows(const Var& x, const model::Parameter& parameter, Rows rows, const std::string& name) {
  std::vector<float> bias = model::bias_of(parameter, weights_.provider);
  const bool biased = !bias.empty();
  bias.resize(parameter.out);
  const std::span<const float> part = std::span(bias).subspan(rows.begin, rows.count());
  const bool whole = part.size() == bias.size();
  const std::string label = !biased ? "zeros"
                            : whole ? vector_name(parameter.bias)
                                    : vector_rows_name(vector_name(parameter.bias), rows.begin);
  return g_.op(
      "linear",
      {{"x", {x}}, {"weight", {weight_rows(parameter, rows)}}, {"bias", {vector(part, {rows.count()}, label)}}}, name);
}

Var Layers::rms(const Var& x, double epsilon, const std::string& name) {
  if (layout_ == Layout::kAne) {
    const Var pair = concat(g_, {x, mul(g_, x, g_.half(-1.0), name + "_negated")}, -1, name + "_pair");
    const Var normed =
        g_.op("layer_norm", {{"x", {pair}}, {"axes", {g_.integers({-1})}}, {"epsilon", {half_epsilon(g_, epsilon)}}},
              name + "_both");
    return slice_axis(g_, normed, x.shape().size() - 1, 0, static_cast<std::int32_t>(x.shape().back()), name + "_unit");
  }
  const Var wide = cast(g_, x, "fp32", name + "_wide"), squares = mul(g_, wide, wide, name + "_squares");
  const Var mean = g_.op(
      "reduce_mean", {{"x", {squares}}, {"axes", {g_.integers({-1})}}, {"keep_dims", {g_.flag(true)}}}, name + "_mean");
  const Var inverse = g_.op("rsqrt", {{"x", {mean}}, {"epsilon", {g_.single(epsilon)}}}, name + "_inverse");
  return cast(g_, mul(g_, wide, inverse, name + "_scaled"), "fp16", name + "_unit");
}

Var Layers::norm(const Var& x, const NormSpec& spec, const std::string& name) {
  const std::vector<float> gains = model::gain_of(spec, weights_.provider);
  const std::vector<float> biases = spec.bias ? weights_.provider.vector(*spec.bias) : std::vector<float>{};
  const bool simple = gains.size() == spec.width && spec.gain_offset == 0.0;
  const auto bias = [&] {
    std::vector<float> all = biases;
    all.resize(spec.width);
    return vector(all, {spec.width}, biases.empty() ? "zeros" : vector_name(*spec.bias));
  };
  Var y;
  bool finished = false;
  if (spec.kind == NormSpec::Kind::kRms) {
    y = rms(x, spec.epsilon, name);
  } else {
    Graph::Inputs inputs{{"x", {x}}, {"axes", {g_.integers({-1})}}, {"epsilon", {half_epsilon(g_, spec.epsilon)}}};
    if (simple) {
      inputs.push_back({"gamma", {vector(gains, {spec.width}, gain_name(spec))}});
      inputs.push_back({"beta", {bias()}});
    }
    finished = simple;
    y = g_.op("layer_norm", inputs, simple ? name : name + "_unit");
  }
  if (finished) return y;
  if (!gains.empty()) {
    const std::size_t groups = gains.size() / spec.width;
    Var gain = vector(
        gains, groups == 1 ? std::vector<std::uint64_t>{spec.width} : std::vector<std::uint64_t>{groups, spec.width},
        gain_name(spec));
    if (spec.gain_offset != 0.0) gain = add(g_, gain, g_.half(spec.gain_offset), name + "_gain");
    y = mul(g_, y, gain, name);
  }
  return biases.empty() ? y : add(g_, y, bias(), name + "_biased");
}

Var Layers::activated(const Var& x, Activation activation, const std::string& name) {
  switch (activation) {
    case Activation::kSilu:
      return unary(g_, "silu", x, name);
    case Activation::kGelu:
      return g_.op("gelu", {{"x", {x}}, {"mode", {g_.text("EXACT")}}}, name);
    case Activation::kGeluTanh:
      return g_.op("gelu", {{"x", {x}}, {"mode", {g_.text("TANH_APPROXIMATION")}}}, name);
    case Activation::kRelu:
      return unary(g_, "relu", x, name);
    case Activation::kRelu2: {
      const Var positive = unary(g_, "relu", x, name + "_positive");
      return mul(g_, positive, positive, name);
    }
    case Activation::kClampedSwiglu:
      break;
  }
  throw InvalidArgument(fmt::format("activation {} has no operation here", model::activation_name(activation)));
}

Var Layers::mlp(const Var& x, const model::MlpSpec& spec, const std::string& name) {
  if (!spec.gate) {
    const Var up = linear(x, spec.up, name + "_up");
    return linear(activated(up, spec.activation, name + "_activated"), spec.down, name + "_down");
  }
  const Var gate = activated(linear(x, *spec.gate, name + "_gate"), spec.activation, name + "_activated");
  const Var up = linear(x, spec.up, name + "_up");
  return linear(mul(g_, gate, up, name + "_gated"), spec.down, name + "_down");
}

const Layers::Turning& Layers::turning(const model::RotarySpec& spec, const Var& positions) {
  const auto found = std::find_if(turnings_.begin(), turnings_.end(), [&](const Turning& t) { return t.spec == spec; });
  if (found != turnings_.end()) return *found;
  const std::vector<double> frequencies = model::rotary_frequencies(spec, positions_);
  const std::size_t half = frequencies.size();
  std::vector<float> cosines(positions_ * spec.dims), sines(cosines.size());
  for (std::size_t p = 0; p < positions_; ++p)
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * frequencies[i];
      // The element that meets each of the pair's two: neighbours, or halves.
      for (const std::size_t at : {spec.interleaved ? 2 * i : i, spec.interleaved ? 2 * i + 1 : i + half}) {
        cosines[p * spec.dims + at] = static_cast<float>(std::cos(angle) * spec.scaling.magnitude);
        sines[p * spec.dims + at] = static_cast<float>(std::sin(angle) * spec.scaling.magnitude);
      }
    }
  const auto rows = [&](std::span<const float> values, const std::string& name) {
    const Var table = vector(values, {positions_, spec.dims}, name + "_table");
    return expand_dims(g_, gather(g_, table, positions, name + "_rows"), {0, 1}, name);
  };
  turnings_.push_back({spec, rows(cosines, "cosines"), rows(sines, "sines")});
  return turnings_.back();
}

Var Layers::rotary(const Var& x, const model::RotarySpec& spec, const Var& positions, const std::string& name) {
  const Turning turn = turning(spec, positions);
  const std::size_t axis = x.shape().size() - 1;
  const auto dims = static_cast<std::int32_t>(spec.dims);
  const bool all = x.shape().back() == spec.dims;
  const Var turned = all ? x : slice_axis(g_, x, axis, 0, dims, name + "_turned");
  Var across;  // each element's partner of its pair, the first of them negated
  if (spec.interleaved) {
    std::vector<float> swap(spec.dims * spec.dims);
    for (std::size_t i = 0; i < spec.dims; i += 2)
      swap[(i + 1) * spec.dims + i] = -1.0f, swap[i * spec.dims + i + 1] = 1.0f;
    across = matmul(g_, turned, vector(swap, {1, 1, spec.dims, spec.dims}, "swap"), false, name + "_across");
  } else {
    const Var first = slice_axis(g_, turned, axis, 0, dims / 2, name + "_first");
    const Var second = slice_axis(g_, turned, axis, dims / 2, 0, name + "_second");
    across = concat(g_, {mul(g_, second, g_.half(-1.0), name + "_negated"), first}, -1, name + "_across");
  }
  const Var result = add(g_, mul(g_, turned, turn.cosines, name + "_cosine"),
                         mul(g_, across, turn.sines, name + "_sine"), all ? name : name + "_part");
  return all ? result : concat(g_, {result, slice_axis(g_, x, axis, dims, 0, name + "_kept")}, -1, name);
}

Var Layers::softcap(const Var& x, double cap, const std::string& name) {
  const Var bounded = unary(g_, "tanh", mul(g_, x, g_.half(1.0 / cap), name + "_divided"), name + "_tanh");
  return mul(g_, bounded, g_.half(cap), name);
}

Var Layers::scaled(const Var& x, double factor, const std::string& name) {
  return factor == 1.0 ? x : mul(g_, x, g_.half(factor), name);
}

Var Layers::clipped(const Var& x, double limit, const std::string& name) {
  return binary(g_, "minimum", binary(g_, "maximum", x, g_.half(-limit), name + "_low"), g_.half(limit), name);
}

}  // namespace nibble::coreml
