#include "model/gguf/gguf_rotary.h"

#include <cmath>

#include "core/error.h"

namespace nibble::model {

using Kind = RotaryScaling::Kind;

const RotarySpec* gguf_rotary(const Architecture& architecture) {
  const RotarySpec* any = nullptr;
  for (const BlockSpec& block : architecture.blocks) {
    const auto& rotary = block.attention.rotary;
    if (!rotary) continue;
    if (block.attention.window == 0) return &*rotary;
    if (any == nullptr) any = &*rotary;
  }
  return any;
}

double gguf_yarn_magnitude(double factor, double multiplier) {
  return factor <= 1.0 ? 1.0 : 0.1 * multiplier * std::log(factor) + 1.0;
}

namespace {

/// What frequencies are divided by, in short texts and in long ones; empty where each is what its rule says.
struct FactorLists {
  std::vector<float> brief, lengthy;
};

std::vector<float> floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

FactorLists factor_lists(const RotarySpec& rotary) {
  const RotaryScaling& scaling = rotary.scaling;
  if (scaling.kind == Kind::kLongRope) return {floats(scaling.short_factors), floats(scaling.long_factors)};
  if (scaling.kind != Kind::kLlama3) return {};
  RotarySpec plain = rotary;
  plain.scaling = {};
  const std::vector<double> own = rotary_frequencies(plain, 1), scaled = rotary_frequencies(rotary, 1);
  std::vector<float> factors(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) factors[i] = static_cast<float>(own[i] / scaled[i]);
  return {factors, factors};
}

/// Two tensors, the same list twice if need be. Where they say the same one is enough, whatever the original context.
bool writes_two(const FactorLists& lists, const GgufArchitecture& names) {
  return lists.brief != lists.lengthy || names.factors == GgufArchitecture::Factors::kTwo;
}

}  // namespace

std::size_t gguf_factor_lists(const Architecture& architecture) {
  const RotarySpec* const rotary = gguf_rotary(architecture);
  if (rotary == nullptr) return 0;
  const FactorLists lists = factor_lists(*rotary);
  return lists.brief.empty() ? 0 : lists.brief == lists.lengthy ? 1 : 2;
}

void add_gguf_rotary(GgufMetadata& metadata, const Architecture& architecture, const GgufArchitecture& names) {
  const RotarySpec* const rotary = gguf_rotary(architecture);
  if (rotary == nullptr) return;
  const auto natural = [&](std::string_view key, std::size_t value) {
    metadata.add(fmt::format("{}.rope.{}", names.name, key), GgufValue(static_cast<std::uint32_t>(value)));
  };
  const auto number = [&](std::string_view key, double value) {
    metadata.add(fmt::format("{}.rope.{}", names.name, key), GgufValue(static_cast<float>(value)));
  };
  const auto text = [&](std::string_view key, std::string value) {
    metadata.add(fmt::format("{}.rope.{}", names.name, key), GgufValue(std::move(value)));
  };
  natural("dimension_count", rotary->dims);
  number("freq_base", rotary->base);
  for (const BlockSpec& block : architecture.blocks) {  // where blocks with a window turn by a base of their own
    const auto& own = block.attention.rotary;
    if (!own || own->base == rotary->base) continue;
    number("freq_base_swa", own->base);
    break;
  }
  const RotaryScaling& scaling = rotary->scaling;
  switch (scaling.kind) {
    case Kind::kNone:
    case Kind::kDynamic:  // nothing within the context that the file says (gguf_describe.cc)
    case Kind::kLlama3:   // factors
      return;
    case Kind::kLinear:
      text("scaling.type", "linear");
      number("scaling.factor", scaling.factor);
      return;
    case Kind::kYarn: {
      text("scaling.type", "yarn");
      number("scaling.factor", scaling.factor);
      natural("scaling.original_context_length", scaling.original_context);
      number("scaling.yarn_beta_fast", scaling.beta_fast);
      number("scaling.yarn_beta_slow", scaling.beta_slow);
      const double own = gguf_yarn_magnitude(scaling.factor, 1.0);  // what llama.cpp multiplies by itself
      if (std::abs(scaling.magnitude - own) > 1e-6 * own) number("scaling.attn_factor", scaling.magnitude / own);
      return;
    }
    case Kind::kLongRope: {
      const bool two = writes_two(factor_lists(*rotary), names);
      if (two && names.factors != GgufArchitecture::Factors::kTwo) text("scaling.type", "longrope");
      if (two) natural("scaling.original_context_length", scaling.original_context);
      if (two || scaling.magnitude != 1.0) number("scaling.attn_factor", scaling.magnitude);
      return;
    }
  }
}

std::vector<std::pair<std::string, std::vector<float>>> gguf_rotary_factors(const Architecture& architecture,
                                                                            const GgufArchitecture& names) {
  const RotarySpec* const rotary = gguf_rotary(architecture);
  if (rotary == nullptr) return {};
  FactorLists lists = factor_lists(*rotary);
  if (lists.brief.empty()) return {};
  if (!writes_two(lists, names)) return {{"rope_freqs.weight", std::move(lists.brief)}};
  return {{"rope_factors_long.weight", std::move(lists.lengthy)},
          {"rope_factors_short.weight", std::move(lists.brief)}};
}

}  // namespace nibble::model
