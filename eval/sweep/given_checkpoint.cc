#include "eval/sweep/given_checkpoint.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "model/open/open_model.h"
#include "quant/store/model_size.h"

namespace nibble::eval {
namespace {

bool same_heads(const model::Architecture& a, const model::Architecture& b) {
  return std::equal(a.blocks.begin(), a.blocks.end(), b.blocks.begin(), b.blocks.end(),
                    [](const model::BlockSpec& x, const model::BlockSpec& y) {
                      return x.attention.heads == y.attention.heads && x.attention.kv_heads == y.attention.kv_heads;
                    });
}

// GGUF keeps such numbers as floats.
bool same_number(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

double rotary_base(const model::BlockSpec& block) {
  return block.attention.rotary ? block.attention.rotary->base : 0.0;
}

double norm_epsilon(const model::BlockSpec& block) {
  for (const auto* norm : {&block.attention_norm, &block.mlp_norm, &block.attention_post_norm})
    if (*norm) return (*norm)->epsilon;
  return 0.0;
}

}  // namespace

std::shared_ptr<const model::Checkpoint> open_given(const std::filesystem::path& path, const PlannedModel& model) {
  auto checkpoint = model::open_checkpoint(path);
  const model::Architecture& found = checkpoint->architecture();
  NIBBLE_REQUIRE(
      model::same_linear_layers(found, model.architecture) && found.vocabulary == model.architecture.vocabulary &&
          same_heads(found, model.architecture),
      InvalidArgument,
      "sweep: checkpoint '{}' is no form of model '{}': it has {} linear layers, a width of {}, {} heads and "
      "a vocabulary of {}, the model {}, {}, {} and {}; several models have one each: write {{model}} for "
      "the model's name in the path, or leave cells out with `exclude`",
      path.string(), model.source.name, model::linear_layers(found).size(), found.hidden,
      found.blocks.front().attention.heads, found.vocabulary, model::linear_layers(model.architecture).size(),
      model.architecture.hidden, model.architecture.blocks.front().attention.heads, model.architecture.vocabulary);
  const double bits =
      quant::measure_model(*checkpoint, found, quant::open_quantized_weights(checkpoint)).bits_per_weight;
  NIBBLE_REQUIRE(
      bits < 16.0, InvalidArgument,
      "sweep: checkpoint '{}' is not quantized: its linear layers have {:.1f} bits per weight; a float model "
      "belongs to `models`, and the word `float` in the list measures it",
      path.string(), bits);
  return checkpoint;
}

std::vector<std::string> other_settings(const model::Architecture& given, const model::Architecture& model) {
  std::vector<std::string> others;
  const auto compare = [&](double (*number)(const model::BlockSpec&), const char* name) {
    for (std::size_t i = 0; i < std::min(given.blocks.size(), model.blocks.size()); ++i) {
      const double here = number(given.blocks[i]), there = number(model.blocks[i]);
      if (same_number(here, there)) continue;
      others.push_back(fmt::format("{} ({:g} for {:g})", name, here, there));
      return;
    }
  };
  compare(rotary_base, "rotary base");
  compare(norm_epsilon, "epsilon of the norms");
  return others;
}

}  // namespace nibble::eval
