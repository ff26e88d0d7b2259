#include "export/mlx_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "core/text/json.h"

namespace nibble::exporting {
namespace mlx_network {
namespace {

using model::Activation;
using model::Architecture;
using model::AttentionSpec;
using model::BlockSpec;
using model::MlpSpec;
using model::Parameter;
using model::Role;
using model::RotaryScaling;
using model::RotarySpec;
using Json = nlohmann::ordered_json;
using Kind = RotaryScaling::Kind;

constexpr double kTolerance = 1e-5;  // of numbers that float32 holds after some arithmetic

bool alike(double a, double b) { return std::abs(a - b) <= kTolerance * std::abs(b); }

// ---- what its implementations read, family by family

constexpr unsigned scalings(std::initializer_list<Kind> kinds) {
  unsigned set = 0;
  for (const Kind kind : kinds) set |= 1u << static_cast<unsigned>(kind);
  return set;
}
constexpr unsigned kAnyScaling = scalings({Kind::kLinear, Kind::kDynamic, Kind::kLlama3, Kind::kYarn, Kind::kLongRope});

/// How an implementation knows which blocks have a window.
enum class Windows {
  kNone,       ///< it has none
  kTypes,      ///< layer_types, at least one block without a window
  kBothTypes,  ///< layer_types, at least one block of either kind
  kLetters,    ///< sliding_window_pattern, a text of L and G with both letters, or null where no block has a window
  kEvery,      ///< sliding_window_pattern n: all but every n-th block, of which there is at least one
};

/// What scores are multiplied by: 1/√head_dim, 1/√query_pre_attn_scalar, attention_multiplier.
enum class Scale { kByWidth, kScalar, kMultiplier };

/// Which layers of attention have biases, whatever config.json says: it opens no file with others or without these.
enum class Biases { kNone, kQkv, kAll };

struct Family {
  std::string_view name;
  std::string_view model_type = {};  ///< what its implementation is for, if not `name`
  Activation activation = Activation::kSilu;
  std::string_view epsilon = "rms_norm_eps";
  std::string_view base = "rope_theta";        ///< key of the rotary base; empty: 10000
  std::string_view partial = {};               ///< key of the share of heads that turns; empty: all of them
  std::string_view dims = {};                  ///< or of how many elements turn
  std::string_view turning = {};               ///< key that lists which blocks have a rotary embedding
  std::string_view positions = {};             ///< or that says whether all have or none: rope, nope
  bool ramp_rounded = false;                   ///< YaRN's ramp is rounded in everybody's files of it: a note
  unsigned rotary = scalings({});              ///< the kinds of scaling that it reads
  bool grows = false;                          ///< queries grow: it reads all rotary settings from rope_parameters
  bool local_unscaled = false;                 ///< scaling leaves blocks with a window alone
  std::string_view local_base = "rope_theta";  ///< key of the base of blocks with a window
  Windows windows = Windows::kNone;
  Scale scale = Scale::kByWidth;
  std::string_view logit_scale = {};  ///< key of a factor of the logits
  std::string_view named = {};        ///< what config.json has to call the activation, if anything
  bool caps = false;                  ///< scores and logits go through tanh, always; otherwise never
  std::string_view bias = {};         ///< key that says whether q, k and v have biases
  bool output_bias = true;            ///< ... and whether o has one; otherwise it has none
  Biases biases = Biases::kNone;      ///< where there is no such key
  std::string_view mlp_bias = {};
  bool mlp_biases = false;             ///< where there is no such key
  bool heads_fill_width = false;       ///< it takes hidden / heads for head_dim, whatever config.json says
  bool qk_norms = true;                ///< it has them where the model has
  std::string_view qk_norm = {};       ///< key that says whether there are
  bool attention_alone = false;        ///< it wants to be told that blocks have attention, and how wide their MLPs are
  bool renormalises = true;            ///< it can make the weights of the chosen experts sum to 1
  std::string_view shared_width = {};  ///< key of the width of a shared expert that it wants even where there is none
  bool deepseek = false;               ///< its experts are told by DeepSeek's keys: groups, shared ones, a scale
};

constexpr Family kFamilies[] = {
    {.name = "cohere",
     .epsilon = "layer_norm_eps",
     .logit_scale = "logit_scale",
     .bias = "attention_bias",
     .heads_fill_width = true},
    {.name = "cohere2",
     .epsilon = "layer_norm_eps",
     .windows = Windows::kEvery,
     .logit_scale = "logit_scale",
     .bias = "attention_bias",
     .heads_fill_width = true},
    {.name = "dots1", .rotary = kAnyScaling, .deepseek = true},
    {.name = "ernie4_5", .bias = "use_bias", .mlp_bias = "use_bias"},
    {.name = "exaone4", .rotary = kAnyScaling, .windows = Windows::kLetters},
    {.name = "gemma", .activation = Activation::kGelu},
    {.name = "gemma2", .activation = Activation::kGeluTanh, .scale = Scale::kScalar, .caps = true},
    {.name = "gemma3_text",
     .activation = Activation::kGeluTanh,
     .rotary = kAnyScaling,
     .local_unscaled = true,
     .local_base = "rope_local_base_freq",
     .windows = Windows::kEvery,
     .scale = Scale::kScalar},
    {.name = "glm4", .partial = "partial_rotary_factor", .bias = "attention_bias"},
    {.name = "glm4_moe",
     .partial = "partial_rotary_factor",
     .bias = "attention_bias",
     .output_bias = false,
     .qk_norm = "use_qk_norm",
     .deepseek = true},
    {.name = "gpt2",
     .activation = Activation::kGeluTanh,
     .epsilon = "layer_norm_epsilon",
     .biases = Biases::kAll,
     .mlp_biases = true,
     .heads_fill_width = true},
    {.name = "gpt_neox",
     .activation = Activation::kGeluTanh,
     .epsilon = "layer_norm_eps",
     .base = "rotary_emb_base",
     .partial = "rotary_pct",
     .biases = Biases::kAll,
     .mlp_biases = true,
     .heads_fill_width = true},
    // It does not tell its rotary embedding how many positions there are, which two kinds of scaling need.
    {.name = "gpt_oss",
     .activation = Activation::kClampedSwiglu,
     .ramp_rounded = true,
     .rotary = scalings({Kind::kLinear, Kind::kLlama3, Kind::kYarn}),
     .windows = Windows::kBothTypes,
     .biases = Biases::kAll,
     .mlp_biases = true},
    {.name = "gptj",
     .activation = Activation::kGeluTanh,
     .epsilon = "layer_norm_epsilon",
     .base = {},
     .dims = "rotary_dim",
     .mlp_biases = true,
     .heads_fill_width = true},
    {.name = "granite",
     .rotary = kAnyScaling,
     .scale = Scale::kMultiplier,
     .bias = "attention_bias",
     .mlp_bias = "mlp_bias",
     .heads_fill_width = true},
    {.name = "granitemoe",
     .rotary = kAnyScaling,
     .scale = Scale::kMultiplier,
     .bias = "attention_bias",
     .heads_fill_width = true},
    {.name = "granitemoehybrid",
     .positions = "position_embedding_type",
     .scale = Scale::kMultiplier,
     .bias = "attention_bias",
     .heads_fill_width = true,
     .attention_alone = true},
    {.name = "helium",
     .bias = "attention_bias",
     .output_bias = false,
     .mlp_bias = "mlp_bias",
     .heads_fill_width = true},
    {.name = "hunyuan_v1_dense", .bias = "attention_bias", .qk_norm = "use_qk_norm"},
    {.name = "internlm3",
     .rotary = scalings({Kind::kLinear, Kind::kDynamic}),
     .bias = "qkv_bias",
     .mlp_bias = "bias",
     .heads_fill_width = true},
    {.name = "iquestcoder", .rotary = kAnyScaling, .bias = "attention_bias", .mlp_bias = "mlp_bias"},
    {.name = "llama", .rotary = kAnyScaling, .bias = "attention_bias", .mlp_bias = "mlp_bias"},
    {.name = "minimax_m2", .dims = "rotary_dim", .qk_norm = "use_qk_norm", .shared_width = "shared_intermediate_size"},
    {.name = "ministral", .model_type = "mistral", .rotary = kAnyScaling, .windows = Windows::kTypes},
    {.name = "ministral3", .rotary = scalings({Kind::kYarn}), .grows = true},
    {.name = "mistral", .rotary = kAnyScaling},
    {.name = "mixtral", .heads_fill_width = true},
    {.name = "nemotron",
     .activation = Activation::kRelu2,
     .epsilon = "norm_eps",
     .partial = "partial_rotary_factor",
     .rotary = scalings({Kind::kLinear}),
     .named = "relu2",
     .bias = "attention_bias",
     .mlp_bias = "mlp_bias"},
    {.name = "olmo2", .rotary = kAnyScaling, .bias = "attention_bias"},
    {.name = "olmo3",
     .rotary = kAnyScaling,
     .local_unscaled = true,
     .windows = Windows::kBothTypes,
     .bias = "attention_bias"},
    {.name = "olmoe", .rotary = kAnyScaling, .bias = "attention_bias"},
    {.name = "phi",
     .activation = Activation::kGeluTanh,
     .epsilon = "layer_norm_eps",
     .partial = "partial_rotary_factor",
     .biases = Biases::kAll,
     .mlp_biases = true,
     .heads_fill_width = true,
     .qk_norms = false},
    {.name = "phi3",
     .partial = "partial_rotary_factor",
     .rotary = scalings({Kind::kLongRope}),
     .heads_fill_width = true},
    {.name = "qwen2", .rotary = kAnyScaling, .biases = Biases::kQkv, .heads_fill_width = true},
    {.name = "qwen2_moe", .biases = Biases::kQkv, .heads_fill_width = true, .renormalises = false},
    {.name = "qwen3", .rotary = kAnyScaling},
    {.name = "qwen3_moe"},
    {.name = "seed_oss", .rotary = kAnyScaling, .bias = "attention_bias", .mlp_bias = "mlp_bias"},
    {.name = "smollm3",
     .turning = "no_rope_layers",
     .rotary = kAnyScaling,
     .windows = Windows::kTypes,
     .bias = "attention_bias",
     .mlp_bias = "mlp_bias"},
    {.name = "stablelm",
     .epsilon = "layer_norm_eps",
     .partial = "partial_rotary_factor",
     .bias = "use_qkv_bias",
     .heads_fill_width = true},
    {.name = "starcoder2",
     .activation = Activation::kGelu,
     .epsilon = "norm_epsilon",
     .biases = Biases::kAll,
     .mlp_biases = true,
     .heads_fill_width = true},
};

const Family* find_family(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kFamilies), std::end(kFamilies), [&](const Family& f) { return f.name == name; });
  return found == std::end(kFamilies) ? nullptr : found;
}

// ---- the network as it asks for it

// The window of those blocks that have one, 0 where none has.
std::size_t window_of(const Architecture& architecture) {
  for (const BlockSpec& block : architecture.blocks)
    if (block.attention.window != 0) return block.attention.window;
  return 0;
}

std::size_t windowed_blocks(const Architecture& architecture) {
  return static_cast<std::size_t>(std::count_if(architecture.blocks.begin(), architecture.blocks.end(),
                                                [](const BlockSpec& block) { return block.attention.window != 0; }));
}

// n where every n-th block has no window and the others have one, 0 where it is not so.
std::size_t every_nth(const Architecture& architecture) {
  const auto full = [](const BlockSpec& block) { return block.attention.window == 0; };
  const auto& blocks = architecture.blocks;
  const auto first = std::find_if(blocks.begin(), blocks.end(), full);
  if (first == blocks.end()) return 0;
  const auto n = static_cast<std::size_t>(first - blocks.begin()) + 1;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (full(blocks[i]) != ((i + 1) % n == 0)) return 0;
  return n;
}

// The rotary embedding that config.json's main settings are of: that of blocks without a window where those are apart.
const RotarySpec* main_rotary(const Family& family, const Architecture& architecture) {
  const RotarySpec* any = nullptr;
  for (const BlockSpec& block : architecture.blocks) {
    if (!block.attention.rotary) continue;
    if (!family.local_unscaled || block.attention.window == 0) return &*block.attention.rotary;
    if (any == nullptr) any = &*block.attention.rotary;
  }
  return any;
}

const RotarySpec* local_rotary(const Architecture& architecture) {
  for (const BlockSpec& block : architecture.blocks)
    if (block.attention.window != 0 && block.attention.rotary) return &*block.attention.rotary;
  return nullptr;
}

std::vector<const MlpSpec*> mlps_of(const BlockSpec& block) {
  std::vector<const MlpSpec*> all;
  if (block.mlp) all.push_back(&*block.mlp);
  if (!block.experts) return all;
  for (const MlpSpec& expert : block.experts->experts) all.push_back(&expert);
  if (block.experts->shared) all.push_back(&*block.experts->shared);
  return all;
}

bool is_gelu(Activation activation) { return activation == Activation::kGelu || activation == Activation::kGeluTanh; }

std::string_view scaling_name(Kind kind) {
  constexpr std::string_view kNames[] = {"default", "linear", "dynamic", "llama3", "yarn", "longrope"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string scalings_text(unsigned set) {
  std::string text;
  for (const Kind kind : {Kind::kLinear, Kind::kDynamic, Kind::kLlama3, Kind::kYarn, Kind::kLongRope})
    if ((set >> static_cast<unsigned>(kind) & 1u) != 0)
      text += (text.empty() ? "" : ", ") + std::string(scaling_name(kind));
  return text.empty() ? "none" : text;
}

// It rounds the bounds of YaRN's ramp to whole numbers, whatever `truncate` says.
bool rounds_ramp(const RotarySpec& rotary) {
  if (rotary.scaling.kind != Kind::kYarn || rotary.scaling.truncate) return false;
  RotarySpec rounded = rotary;
  rounded.scaling.truncate = true;
  const auto own = model::rotary_frequencies(rotary, 1), theirs = model::rotary_frequencies(rounded, 1);
  for (std::size_t i = 0; i < own.size(); ++i)
    if (!alike(theirs[i], own[i])) return true;
  return false;
}

// By its rule, which no key changes.
double long_rope_magnitude(const Architecture& architecture, const RotaryScaling& scaling) {
  const double context = static_cast<double>(scaling.original_context);
  const double factor = static_cast<double>(architecture.max_positions) / context;
  return factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(context));
}

// ---- why not

std::string differs(std::string_view what, const std::string& theirs, const std::string& own) {
  return fmt::format("{}: its implementation computes {}, and the model has {}", what, theirs, own);
}

std::string activation_objection(const Family& family, const BlockSpec& block) {
  constexpr double kAlpha = 1.702, kLimit = 7.0;  // of its clamped SwiGLU, which reads no key
  for (const MlpSpec* mlp : mlps_of(block)) {
    if (mlp->activation != family.activation && !(is_gelu(mlp->activation) && is_gelu(family.activation)))
      return differs("activation", std::string(model::activation_name(family.activation)),
                     std::string(model::activation_name(mlp->activation)));
    if (mlp->activation == Activation::kClampedSwiglu && !(alike(mlp->alpha, kAlpha) && alike(mlp->limit, kLimit)))
      return differs("activation", fmt::format("alpha {} and limit {}", kAlpha, kLimit),
                     fmt::format("alpha {} and limit {}", mlp->alpha, mlp->limit));
  }
  if (block.experts && block.experts->routing == model::ExpertsSpec::Routing::kSoftmaxThenTop &&
      block.experts->renormalise && !family.renormalises)
    return differs("weights of experts", "those of all experts' softmax", "weights that sum to 1 (norm_topk_prob)");
  return {};
}

// Its mixtures of DeepSeek's kind. Experts of groups that are not chosen stay there with a score of 0, which others may
// be below.
std::string deepseek_objection(const model::ExpertsSpec& experts) {
  if (experts.groups > 1) return differs("groups of experts", "one (n_group)", fmt::format("{}", experts.groups));
  if (experts.active == 1 && experts.renormalise)
    return differs("weight of a single expert", "its sigmoid", "1 (norm_topk_prob)");
  return {};
}

std::string attention_objection(const Family& family, const AttentionSpec& attention) {
  const double by_width = 1.0 / std::sqrt(static_cast<double>(attention.head_dim));
  if (family.scale == Scale::kByWidth && !alike(attention.scale, by_width))
    return differs("scale of scores", fmt::format("{}", by_width), fmt::format("{}", attention.scale));
  if (family.caps != (attention.softcap != 0.0))
    return differs("attn_logit_softcapping", family.caps ? "one always" : "none", fmt::format("{}", attention.softcap));
  if (!family.qk_norms && attention.q_norm) return differs("norms of q and k", "none", "some");
  return {};
}

// Whether a layer has a bias, where config.json does not decide it.
std::optional<bool> fixed_bias(const Family& family, const Parameter& layer) {
  if (!model::is_attention(layer)) return family.mlp_bias.empty() ? std::optional(family.mlp_biases) : std::nullopt;
  if (!family.bias.empty()) return layer.role == Role::kO && !family.output_bias ? std::optional(false) : std::nullopt;
  return family.biases == Biases::kAll || (family.biases == Biases::kQkv && layer.role != Role::kO);
}

std::string bias_objection(const Family& family, const Architecture& architecture) {
  for (const Parameter* const layer : model::linear_layers(architecture)) {
    const auto fixed = fixed_bias(family, *layer);
    if (fixed && *fixed != layer->biased)
      return differs(fmt::format("bias of '{}'", layer->module), *fixed ? "one always" : "none",
                     layer->biased ? "one" : "none");
  }
  return {};
}

std::string scaling_objection(const Family& family, const Architecture& architecture, const RotarySpec& rotary) {
  const RotaryScaling& scaling = rotary.scaling;
  if (scaling.kind == Kind::kNone) return {};
  if ((family.rotary >> static_cast<unsigned>(scaling.kind) & 1u) == 0)
    return differs("scaling of rotary embeddings", scalings_text(family.rotary),
                   std::string(scaling_name(scaling.kind)));
  if (rounds_ramp(rotary) && !family.ramp_rounded)
    return differs("YaRN's ramp", "bounds rounded to whole numbers", "truncate: false");
  const double magnitude = scaling.kind == Kind::kLongRope ? long_rope_magnitude(architecture, scaling) : 1.0;
  const bool settable = scaling.kind == Kind::kYarn && scaling.factor > 1.0;  // by mscale
  if (!settable && !alike(scaling.magnitude, magnitude))
    return differs("attention_factor of rotary embeddings", fmt::format("{}", magnitude),
                   fmt::format("{}", scaling.magnitude));
  return {};
}

// Blocks with a window where those have rotary settings of their own.
std::string local_objection(const Family& family, const Architecture& architecture) {
  const RotarySpec *const all = main_rotary(family, architecture), *const local = local_rotary(architecture);
  if (!family.local_unscaled || local == nullptr) return {};
  if (local->scaling.kind != Kind::kNone)
    return differs("scaling of rotary embeddings in blocks with a window", "none",
                   std::string(scaling_name(local->scaling.kind)));
  if (family.local_base == family.base && !alike(local->base, all->base))
    return differs("rotary base of blocks with a window", fmt::format("{}", all->base), fmt::format("{}", local->base));
  return {};
}

std::string windows_objection(const Family& family, const Architecture& architecture) {
  const std::size_t windowed = windowed_blocks(architecture), full = architecture.blocks.size() - windowed;
  const auto turning = static_cast<std::size_t>(
      std::count_if(architecture.blocks.begin(), architecture.blocks.end(),
                    [](const BlockSpec& block) { return block.attention.rotary.has_value(); }));
  const std::string own = fmt::format("a window in {} of {} blocks", windowed, architecture.blocks.size());
  constexpr std::string_view kWhat = "windows";
  switch (family.windows) {
    case Windows::kNone:
      return {};  // a note
    case Windows::kTypes:
      return full > 0 ? "" : differs(kWhat, "at least one block without", own);
    case Windows::kBothTypes:
      return full > 0 && windowed > 0 ? "" : differs(kWhat, "blocks with and blocks without", own);
    case Windows::kLetters:
      if (full == 0) return differs(kWhat, "at least one block without", own);
      return windowed > 0 || turning == architecture.blocks.size()
                 ? ""
                 : differs("rotary embeddings", "one in every block where none has a window",
                           fmt::format("one in {} of {}", turning, architecture.blocks.size()));
    case Windows::kEvery:
      return every_nth(architecture) > 0
                 ? ""
                 : differs(kWhat, "a window in all but every n-th block, of which there is one", own);
  }
  return {};
}

std::string objection(const Family& family, const Architecture& architecture) {
  for (std::size_t i = 0; i < architecture.blocks.size(); ++i) {
    const BlockSpec& block = architecture.blocks[i];
    std::string why = activation_objection(family, block);
    if (why.empty()) why = attention_objection(family, block.attention);
    if (why.empty() && block.experts && family.deepseek) why = deepseek_objection(*block.experts);
    if (why.empty() && family.heads_fill_width && block.attention.q_width() != architecture.hidden)
      why = differs("head_dim", fmt::format("{} / {}", architecture.hidden, block.attention.heads),
                    fmt::format("{}", block.attention.head_dim));
    if (!why.empty()) return fmt::format("block {}: {}", i, why);
  }
  if (family.caps != (architecture.head.softcap != 0.0))
    return differs("final_logit_softcapping", family.caps ? "one always" : "none",
                   fmt::format("{}", architecture.head.softcap));
  if (std::string why = windows_objection(family, architecture); !why.empty()) return why;
  if (std::string why = bias_objection(family, architecture); !why.empty()) return why;
  const RotarySpec* const rotary = main_rotary(family, architecture);
  std::string why = rotary == nullptr ? std::string() : scaling_objection(family, architecture, *rotary);
  return why.empty() ? local_objection(family, architecture) : why;
}

// ---- config.json

// Keeps what stands there where it says the same.
void state(Json& config, std::string_view key, const Json& value) {
  const std::string name(key);
  const auto found = config.find(name);
  if (found != config.end() && *found == value) return;
  config[name] = value;
}

void state_number(Json& config, std::string_view key, double value) {
  constexpr double kRounding = 1e-14;  // of a reciprocal taken twice
  const auto found = config.find(std::string(key));
  if (found != config.end() && found->is_number() &&
      std::abs(found->get<double>() - value) <= kRounding * std::abs(value))
    return;
  config[std::string(key)] = value;
}

void state_if_absent(Json& config, std::string_view key, const Json& value) {
  if (!key.empty() && !config.contains(std::string(key))) config[std::string(key)] = value;
}

// The share of which the whole part of share · width is `dims`, as it computes it.
double share_of(std::size_t dims, std::size_t width) {
  const double share = static_cast<double>(dims) / static_cast<double>(width);
  return static_cast<std::size_t>(static_cast<double>(width) * share) < dims ? std::nextafter(share, 1.0) : share;
}

Json scaling_json(const RotaryScaling& scaling) {
  if (scaling.kind == Kind::kNone) return nullptr;
  const std::string name(scaling_name(scaling.kind));
  Json json{{"type", name}, {"rope_type", name}, {"factor", scaling.factor}};
  if (scaling.kind == Kind::kLinear || scaling.kind == Kind::kDynamic) return json;
  json["original_max_position_embeddings"] = scaling.original_context;
  if (scaling.kind == Kind::kLlama3) {
    json["low_freq_factor"] = scaling.low_frequency_factor;
    json["high_freq_factor"] = scaling.high_frequency_factor;
  } else if (scaling.kind == Kind::kYarn) {
    json["beta_fast"] = scaling.beta_fast;
    json["beta_slow"] = scaling.beta_slow;
    // Its magnitude is 0.1 · mscale · ln(factor) + 1, and it reads no attention_factor.
    if (scaling.factor > 1.0) json["mscale"] = (scaling.magnitude - 1.0) / (0.1 * std::log(scaling.factor));
  } else {
    // It turns texts of any length by the long factors. Given the short ones, it computes this network as far as
    // those are for.
    json["short_factor"] = json["long_factor"] = scaling.short_factors;
  }
  return json;
}

Json growing_rope(const Architecture& architecture, const RotarySpec& rotary) {
  const model::QueryGrowth& growth = architecture.blocks.front().attention.growth;
  Json json = rotary.scaling.kind == Kind::kNone ? Json{{"rope_type", "default"}} : scaling_json(rotary.scaling);
  json["rope_theta"] = rotary.base;
  json["llama_4_scaling_beta"] = growth.by;
  json["original_max_position_embeddings"] = growth.from;
  return json;
}

void state_rotary(const Family& family, Json& config, const Architecture& architecture) {
  const RotarySpec* const rotary = main_rotary(family, architecture);
  if (rotary == nullptr) return;
  if (!family.base.empty()) state_number(config, family.base, rotary->base);
  if (!family.dims.empty()) state(config, family.dims, rotary->dims);
  const std::size_t width = architecture.blocks.front().attention.head_dim;
  if (!family.partial.empty()) state_number(config, family.partial, share_of(rotary->dims, width));
  const RotarySpec* const local = local_rotary(architecture);
  if (family.local_unscaled && local != nullptr) state_number(config, family.local_base, local->base);
  state(config, "rope_scaling", scaling_json(rotary->scaling));
  if (family.grows) state(config, "rope_parameters", growing_rope(architecture, *rotary));
  if (rotary->scaling.kind == Kind::kLongRope)
    state(config, "original_max_position_embeddings", rotary->scaling.original_context);
}

Json layer_types(const Architecture& architecture) {
  Json types = Json::array();
  for (const BlockSpec& block : architecture.blocks)
    types.push_back(block.attention.window != 0 ? "sliding_attention" : "full_attention");
  return types;
}

std::string window_letters(const Architecture& architecture) {
  std::string letters;
  for (const BlockSpec& block : architecture.blocks) letters += block.attention.window != 0 ? 'L' : 'G';
  return letters;
}

void state_windows(const Family& family, Json& config, const Architecture& architecture) {
  if (family.windows == Windows::kNone) return;
  const std::size_t window = window_of(architecture);
  if (window != 0) state(config, "sliding_window", window);
  state_if_absent(config, "sliding_window", nullptr);
  if (family.windows == Windows::kTypes || family.windows == Windows::kBothTypes)
    state(config, "layer_types", layer_types(architecture));
  if (family.windows == Windows::kLetters)
    state(config, "sliding_window_pattern", window == 0 ? Json(nullptr) : Json(window_letters(architecture)));
  if (family.windows == Windows::kEvery) state(config, "sliding_window_pattern", every_nth(architecture));
}

void state_deepseek(Json& config, std::size_t dense_blocks, const model::ExpertsSpec& experts) {
  state(config, "n_routed_experts", experts.experts.size());
  state(config, "n_shared_experts", experts.shared_count());
  state(config, "num_experts_per_tok", experts.active);
  state(config, "moe_intermediate_size", experts.experts.front().intermediate());
  state(config, "first_k_dense_replace", dense_blocks);
  state(config, "norm_topk_prob", experts.renormalise);
  state_number(config, "routed_scaling_factor", experts.scale);
  for (const char* key : {"n_group", "topk_group"}) state(config, key, 1);
}

void state_experts(const Family& family, Json& config, const Architecture& architecture) {
  Json dense = Json::array();
  const model::ExpertsSpec* experts = nullptr;
  for (std::size_t i = 0; i < architecture.blocks.size(); ++i) {
    if (!architecture.blocks[i].experts) {
      dense.push_back(i);
    } else if (experts == nullptr) {
      experts = &*architecture.blocks[i].experts;
    }
  }
  if (experts == nullptr) return;
  if (family.deepseek) return state_deepseek(config, dense.size(), *experts);
  for (const char* key : {"num_experts", "num_local_experts"}) state(config, key, experts->experts.size());
  state(config, "num_experts_per_tok", experts->active);
  state(config, "norm_topk_prob", experts->renormalise);
  state(config, "moe_intermediate_size", experts->experts.front().intermediate());
  if (experts->shared) state(config, "shared_expert_intermediate_size", experts->shared->intermediate());
  if (!family.shared_width.empty())
    state(config, family.shared_width, experts->shared ? experts->shared->intermediate() : 0);
  state(config, "decoder_sparse_step", 1);
  state(config, "mlp_only_layers", dense);
}

void state_scales(const Family& family, Json& config, const Architecture& architecture) {
  const BlockSpec& block = architecture.blocks.front();
  if (family.scale == Scale::kScalar)
    state_number(config, "query_pre_attn_scalar", 1.0 / (block.attention.scale * block.attention.scale));
  if (family.caps) {
    state_number(config, "attn_logit_softcapping", block.attention.softcap);
    state_number(config, "final_logit_softcapping", architecture.head.softcap);
  }
  if (family.scale == Scale::kMultiplier) {
    state_number(config, "attention_multiplier", block.attention.scale);
    state_number(config, "embedding_multiplier", architecture.embedding_scale);
    state_number(config, "residual_multiplier", block.residual_multiplier);
    state_number(config, "logits_scaling", 1.0 / architecture.head.scale);
  }
  if (!family.logit_scale.empty()) state_number(config, family.logit_scale, architecture.head.scale);
}

// The oldest families have names of their own, and none of the other keys.
void state_sizes(Json& config, const Architecture& architecture) {
  const AttentionSpec& attention = architecture.blocks.front().attention;
  if (config.contains("n_embd")) {
    for (const char* key : {"n_positions", "n_ctx"}) state(config, key, architecture.max_positions);
    return;
  }
  state(config, "max_position_embeddings", architecture.max_positions);
  state(config, "num_key_value_heads", attention.kv_heads);
  state(config, "head_dim", attention.head_dim);
}

void state_turning_blocks(const Family& family, Json& config, const Architecture& architecture) {
  if (!family.positions.empty())
    state(config, family.positions, architecture.blocks.front().attention.rotary ? "rope" : "nope");
  if (family.turning.empty()) return;
  Json turns = Json::array();
  for (const BlockSpec& block : architecture.blocks) turns.push_back(block.attention.rotary ? 1 : 0);
  state(config, family.turning, turns);
}

// Of a family whose blocks may be state-space models or have experts, and of which these have neither.
void state_attention_alone(const Family& family, Json& config, const Architecture& architecture) {
  if (!family.attention_alone) return;
  state(config, "layer_types", Json(architecture.blocks.size(), "attention"));
  state(config, "intermediate_size", architecture.blocks.front().mlp->intermediate());
}

}  // namespace
}  // namespace mlx_network

std::string mlx_objection(const model::Architecture& architecture) {
  const auto* const family = mlx_network::find_family(architecture.family);
  if (family == nullptr) return "nobody compared its implementation with the network";
  const std::string why = mlx_network::objection(*family, architecture);
  return why.empty() ? why : why + "; --format dequantized writes it for transformers";
}

bool mlx_lacks_bias(const model::Architecture& architecture, const model::Parameter& layer) {
  const auto* const family = mlx_network::find_family(architecture.family);
  return family != nullptr && !mlx_network::fixed_bias(*family, layer).value_or(true);
}

std::vector<std::string> mlx_notes(const model::Architecture& architecture) {
  using namespace mlx_network;
  std::vector<std::string> notes;
  const Family* const family = find_family(architecture.family);
  if (family == nullptr) return notes;
  const std::string of = fmt::format("mlx-lm's '{}'", architecture.family);
  const auto beyond = [&](std::size_t length, std::string_view why) {
    if (length < architecture.max_positions)
      notes.push_back(fmt::format("{} {}: beyond {} tokens it computes another network", of, why, length));
  };
  if (family->windows == Windows::kNone && window_of(architecture) != 0)
    beyond(window_of(architecture), "has no window");
  const RotarySpec* const rotary = main_rotary(*family, architecture);
  if (rotary != nullptr && rotary->scaling.has_two_sets())
    beyond(rotary->scaling.original_context, "has one set of longrope factors, and is given the short ones");
  if (rotary != nullptr && rounds_ramp(*rotary))
    notes.push_back(
        fmt::format("{} rounds the bounds of YaRN's ramp and the network does not: their logits differ a little", of));
  const auto mlps = mlps_of(architecture.blocks.front());
  if (const Activation own = mlps.front()->activation; own != family->activation)
    notes.push_back(fmt::format("{} computes {} and the network {}, up to 5e-4 apart: their logits differ a little", of,
                                model::activation_name(family->activation), model::activation_name(own)));
  return notes;
}

void state_mlx_network(nlohmann::ordered_json& config, const model::Architecture& architecture) {
  using namespace mlx_network;
  const Family* const family = find_family(architecture.family);
  if (family == nullptr) return;
  const BlockSpec& block = architecture.blocks.front();
  state(config, "tie_word_embeddings", architecture.head.tied);
  if (architecture.final_norm) state_number(config, family->epsilon, architecture.final_norm->epsilon);
  state_sizes(config, architecture);
  state_rotary(*family, config, architecture);
  state_windows(*family, config, architecture);
  state_scales(*family, config, architecture);
  state_experts(*family, config, architecture);
  state_turning_blocks(*family, config, architecture);
  state_attention_alone(*family, config, architecture);
  if (!family->qk_norm.empty()) state(config, family->qk_norm, block.attention.q_norm.has_value());
  if (!family->model_type.empty()) state(config, "model_type", family->model_type);
  if (!family->named.empty()) state_if_absent(config, "hidden_act", family->named);
  // Shifting may have given a layer biases, which the caller's flags have said already.
  state_if_absent(config, family->bias, block.attention.q.biased);
  if (block.mlp) state_if_absent(config, family->mlp_bias, block.mlp->up.biased);
}

}  // namespace nibble::exporting
