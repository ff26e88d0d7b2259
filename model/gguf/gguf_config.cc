#include "model/gguf/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/text/json.h"
#include "model/gguf/gguf_harmless_keys.h"
#include "model/gguf/gguf_rotary.h"
#include "model/gguf/gguf_source.h"
#include "model/gguf/gguf_weights.h"

namespace nibble::model {
namespace {

using Json = nlohmann::ordered_json;

/// The shortest decimal that is the same float: files hold floats, and 1e-5f is 1e-5 in a config.
double shortest(double value) { return std::stod(fmt::format("{}", static_cast<float>(value))); }

/// Ids at which texts end: that of a text alone, or those of a turn and of a message too.
enum class Ends { kOfText, kAll };

/// Reads the keys of one architecture and collects config.json.
class ConfigWriter {
 public:
  explicit ConfigWriter(const GgufFile& file)
      : file_(file), metadata_(file.metadata()), architecture_(gguf_architecture_of(file)) {
    config_["model_type"] = architecture_.model_type;
  }

  Json take() { return std::move(config_); }
  const GgufArchitecture& architecture() const { return architecture_; }
  std::string_view name() const { return architecture_.name; }
  const std::string& what() const { return metadata_.name(); }

  template <class T>
  void set(const char* key, T value) {
    config_[key] = std::move(value);
  }

  void drop(const char* key) { config_.erase(key); }
  bool truth_or(std::string_view key, bool fallback) const { return metadata_.truth(full(key)).value_or(fallback); }

  /// A setting that llama.cpp's code fixes: a file that says it says the same.
  void require_number(std::string_view key, double computed) const {
    const double value = number_or(key, computed);
    NIBBLE_REQUIRE(std::abs(value - computed) <= 1e-5 * computed, FormatError,
                   "{}: '{}' is {}; expected {}, which is what is computed, or no such key", metadata_.name(),
                   full(key), shortest(value), shortest(computed));
  }
  void require_natural(std::string_view key, std::uint64_t computed) const {
    NIBBLE_REQUIRE(natural_or(key, computed) == computed, FormatError,
                   "{}: '{}' is {}; expected {}, which is what is computed, or no such key", metadata_.name(),
                   full(key), natural_or(key, computed), computed);
  }
  void require_truth(std::string_view key, bool computed) const {
    NIBBLE_REQUIRE(truth_or(key, computed) == computed, FormatError,
                   "{}: '{}' is {}; expected {}, which is what is computed, or no such key", metadata_.name(),
                   full(key), !computed, computed);
  }
  /// Counts a key as understood.
  void mark(std::string_view key) const { full(key); }
  /// Throws for a key of the architecture that nobody asked for, unless it leaves the network alone.
  void refuse_unread() const {
    const std::string prefix = fmt::format("{}.", architecture_.name);
    for (const auto& [key, value] : metadata_.items())
      NIBBLE_REQUIRE(!key.starts_with(prefix) || asked_.contains(key) ||
                         is_harmless_gguf_key(std::string_view(key).substr(prefix.size()), value),
                     FormatError, "{}: '{}' is {}: a setting that is not computed", metadata_.name(), key,
                     value.describe());
  }

  bool has(std::string_view key) const { return metadata_.find(full(key)) != nullptr; }
  /// A whole number; where the file has one for each layer, they must agree.
  std::uint64_t natural(std::string_view key) const {
    const GgufValue* const value = metadata_.find(full(key));
    if (value == nullptr || value->array() == nullptr) return metadata_.need_natural(full(key));
    const auto values = metadata_.per_layer(full(key), metadata_.need_natural(full("block_count"))).value();
    NIBBLE_REQUIRE(!values.empty() && std::set(values.begin(), values.end()).size() == 1, FormatError,
                   "{}: '{}' differs between layers, which is not computed", metadata_.name(), full(key));
    return values.front();
  }
  std::uint64_t natural_or(std::string_view key, std::uint64_t fallback) const {
    return has(key) ? natural(key) : fallback;
  }
  double number(std::string_view key) const {
    const double value = metadata_.need_number(full(key));
    NIBBLE_REQUIRE(std::isfinite(static_cast<float>(value)), FormatError,
                   "{}: '{}' is {}: expected a number that float32 holds", metadata_.name(), full(key), value);
    return value;
  }
  double number_or(std::string_view key, double fallback) const { return has(key) ? number(key) : fallback; }

  void copy_natural(std::string_view from, const char* to) { set(to, natural(from)); }
  void copy_number(std::string_view from, const char* to) { set(to, shortest(number(from))); }
  void copy_number_if(std::string_view from, const char* to) {
    if (has(from)) copy_number(from, to);
  }
  void copy_natural_if(std::string_view from, const char* to) {
    if (has(from)) copy_natural(from, to);
  }
  /// The window, or null: its absence means a default to some families.
  void window() {
    set("sliding_window", nullptr);
    copy_natural_if("attention.sliding_window", "sliding_window");
  }

  /// Which blocks have a window is the architecture's; a file that says it says the same.
  void require_usual_windows() const {
    const char* const key = "attention.sliding_window_pattern";
    if (architecture_.window_every == 0 || !has(key)) return;
    const GgufArray* const blocks = metadata_.find(full(key))->array();
    bool same = blocks == nullptr ? natural(key) == architecture_.window_every : blocks->type == GgufType::kBool;
    for (std::size_t i = 0; same && blocks != nullptr && i < blocks->size; ++i)
      same = blocks->truth(i) == ((i + 1) % architecture_.window_every != 0);
    NIBBLE_REQUIRE(same, FormatError, "{}: '{}' is {}; expected windows in all blocks but every {}th", metadata_.name(),
                   full(key), metadata_.find(full(key))->describe(), architecture_.window_every);
  }

  bool has_tensor(const std::string& name) const { return file_.find(name) != nullptr; }
  bool has_parameter(Role role, bool bias, bool expert = false, std::size_t block = 0) const {
    GgufParameter parameter{.role = role, .block = block, .expert = {}, .shared_expert = false, .bias = bias};
    if (expert) parameter.expert = 0;
    return find_gguf_place(file_, architecture_, parameter).has_value();
  }

  std::uint64_t heads() const { return natural("attention.head_count"); }
  std::uint64_t kv_heads() const { return natural_or("attention.head_count_kv", heads()); }
  std::uint64_t hidden() const { return natural("embedding_length"); }
  std::uint64_t head_dim() const {
    if (has("attention.key_length")) return natural("attention.key_length");
    const std::uint64_t count = heads();
    NIBBLE_REQUIRE(count != 0 && hidden() % count == 0, FormatError, "{}: {} elements cannot be {} heads",
                   metadata_.name(), hidden(), count);
    return hidden() / count;
  }

  void vocabulary_and_tokens(Ends which) {
    set("vocab_size", file_.tensor("token_embd.weight").rows());
    set("tie_word_embeddings", !has_tensor("output.weight"));
    if (const auto bos = token("bos")) set("bos_token_id", *bos);
    const std::vector<std::uint64_t> ends = ends_of_texts(which);
    if (ends.size() == 1) set("eos_token_id", ends.front());
    if (ends.size() > 1) set("eos_token_id", ends);
  }

  /// The token that fills up, or null.
  void padding() {
    set("pad_token_id", nullptr);
    if (const auto id = token("padding")) set("pad_token_id", *id);
  }

  /// The keys that nearly all families share.
  void common() {
    copy_natural("embedding_length", "hidden_size");
    copy_natural("block_count", "num_hidden_layers");
    set("num_attention_heads", heads());
    set("num_key_value_heads", kv_heads());
    copy_natural("context_length", "max_position_embeddings");
    if (has("attention.value_length")) {
      NIBBLE_REQUIRE(natural("attention.value_length") == head_dim(), FormatError,
                     "{}: heads of keys ({}) and of values ({}) of different sizes are not computed", metadata_.name(),
                     head_dim(), natural("attention.value_length"));
    }
    if (head_dim() * heads() != hidden()) set("head_dim", head_dim());
    if (has("feed_forward_length")) copy_natural("feed_forward_length", "intermediate_size");
  }

  void rms_epsilon() { copy_number("attention.layer_norm_rms_epsilon", "rms_norm_eps"); }
  void layer_epsilon(const char* key) { copy_number("attention.layer_norm_epsilon", key); }

  /// Share of a head's elements that turn.
  double rotary_share() const {
    return static_cast<double>(natural_or("rope.dimension_count", head_dim())) / static_cast<double>(head_dim());
  }

  /// rope_theta, how much of a head turns where that is not all of it, and how the frequencies are scaled.
  void rotary() {
    set("rope_theta", shortest(number_or("rope.freq_base", 10000.0)));
    if (rotary_share() != 1.0) set("partial_rotary_factor", rotary_share());
    rope_scaling();
  }

  void rope_scaling() {
    Json scaling = rotary_scaling();
    if (scaling.is_null()) return;
    if (has("rope.scaling.original_context_length"))
      scaling["original_max_position_embeddings"] = natural("rope.scaling.original_context_length");
    set("rope_scaling", scaling);
  }

  void grow_queries(double by) {
    Json& scaling = config_["rope_scaling"];
    if (scaling.is_null()) scaling = {{"rope_type", "default"}};
    scaling["llama_4_scaling_beta"] = shortest(by);
    scaling["original_max_position_embeddings"] =
        natural_or("rope.scaling.original_context_length", natural("context_length"));
  }

  /// The bounds of yarn's ramp are not rounded; no key tells.
  void leave_yarn_bounds_alone() {
    if (config_.contains("rope_scaling") && config_["rope_scaling"]["rope_type"] == "yarn")
      config_["rope_scaling"]["truncate"] = false;
  }

  void experts(const char* count) {
    set(count, natural("expert_count"));
    copy_natural("expert_used_count", "num_experts_per_tok");
  }

  /// Whether they do is the architecture's.
  void expert_weights_sum_to_one(bool wanted) {
    require_truth("expert_weights_norm", wanted);
    set("norm_topk_prob", wanted);
  }

  void biases(bool output_too) {
    const bool attention = has_parameter(Role::kQ, true);
    set("attention_bias", attention);
    NIBBLE_REQUIRE(!output_too || attention == has_parameter(Role::kO, true), FormatError,
                   "{}: q and attn_output have biases one without the other, which '{}' does not know",
                   metadata_.name(), architecture_.model_type);
  }

 private:
  /// A special token that has a row of the embedding.
  std::optional<std::uint64_t> token(std::string_view name) const {
    const auto id = metadata_.natural(fmt::format("tokenizer.ggml.{}_token_id", name));
    return id && *id < file_.tensor("token_embd.weight").rows() ? id : std::nullopt;
  }

  /// The end of a text, then those of a turn and of a message where they are others: llama.cpp stops at each.
  std::vector<std::uint64_t> ends_of_texts(Ends which) const {
    std::vector<std::uint64_t> ends;
    if (const auto eos = token("eos")) ends.push_back(*eos);
    if (which == Ends::kOfText) return ends;
    for (const char* name : {"eot", "eom"})
      if (const auto id = token(name); id && std::find(ends.begin(), ends.end(), *id) == ends.end())
        ends.push_back(*id);
    return ends;
  }

  /// The key as the file has it; whoever asks for it has understood it.
  std::string full(std::string_view key) const {
    std::string name = fmt::format("{}.{}", architecture_.name, key);
    asked_.insert(name);
    return name;
  }

  Json rotary_scaling() const {
    const std::string* const text = metadata_.text(full("rope.scaling.type"));
    const std::string type = text == nullptr ? "linear" : *text;  // what llama.cpp assumes
    const bool by_length = has_tensor("rope_factors_long.weight") || has_tensor("rope_factors_short.weight");
    const bool factors_given = by_length || has_tensor("rope_freqs.weight");
    const bool known = type == "none" || type == "linear" || (factors_given ? type == "longrope" : type == "yarn");
    NIBBLE_REQUIRE(known, FormatError, "{}: '{}' is '{}'; expected none, linear, {}", metadata_.name(),
                   full("rope.scaling.type"), type,
                   factors_given ? "or longrope beside tensors of factors" : "yarn or tensors of factors");
    if (type == "none") mark("rope.scaling.factor");  // which is not applied then
    if (by_length) return factors("rope_factors_short.weight", "rope_factors_long.weight");
    if (factors_given) return factors("rope_freqs.weight", "rope_freqs.weight");  // what llama3's rule comes to
    if (type == "yarn") return yarn();
    if (type == "none") return {};
    const double factor = number_or("rope.scaling.factor", number_or("rope.scale_linear", 0.0));
    if (factor == 0.0 || factor == 1.0) return {};
    return {{"rope_type", "linear"}, {"factor", shortest(factor)}};
  }

  Json yarn() const {
    const double factor = shortest(number("rope.scaling.factor"));
    Json scaling = {{"rope_type", "yarn"}, {"factor", factor}};
    // llama.cpp asks for the bounds of the ramp, and for a multiplier, in files of mistral3 alone. In all others the
    // ramp goes from 32 to 1 there, whatever the file says, and so it does here.
    const bool asks = name() == "mistral3";
    for (const char* const beta : {"beta_fast", "beta_slow"})
      if (const std::string key = fmt::format("rope.scaling.yarn_{}", beta); asks && has(key))
        scaling[beta] = shortest(number(key));
    // Its context divides by the magnitude of the multiplier.
    const double multiplier = asks ? number_or("rope.scaling.yarn_log_multiplier", 0.0) : 0.0;
    const double by_rule = gguf_yarn_magnitude(factor, 1.0);
    const double magnitude = number_or("rope.scaling.attn_factor", 1.0) * by_rule /
                             (multiplier == 0.0 ? 1.0 : gguf_yarn_magnitude(factor, multiplier));
    NIBBLE_REQUIRE(magnitude > 0.0 && magnitude <= 1e6, FormatError,
                   "{}: '{}*': sines and cosines would be multiplied by {}", metadata_.name(), full("rope.scaling."),
                   magnitude);
    if (magnitude != by_rule) scaling["attention_factor"] = shortest(magnitude);
    // Converters put a checkpoint's attention factor here, where llama.cpp goes by the rule all the same.
    require_number("rope.scaling.yarn_attn_factor", magnitude);
    require_number("rope.scaling.yarn_ext_factor", 1.0);
    return scaling;
  }

  Json factors(const std::string& brief, const std::string& lengthy) const {
    const auto list = [&](const std::string& name) {
      const GgufTensor& tensor = file_.tensor(name);
      NIBBLE_REQUIRE(tensor.element_count() <= 1u << 16, FormatError, "tensor '{}' of '{}' has {} factors", name,
                     file_.path().string(), tensor.element_count());
      const std::vector<float> values = gguf_vector(file_, tensor);
      return std::vector<double>(values.begin(), values.end());
    };
    return {{"rope_type", "longrope"},
            {"short_factor", list(brief)},
            {"long_factor", list(lengthy)},
            {"attention_factor", shortest(number_or("rope.scaling.attn_factor", 1.0))}};
  }

  const GgufFile& file_;
  const GgufMetadata& metadata_;
  const GgufArchitecture& architecture_;
  mutable std::set<std::string, std::less<>> asked_;
  Json config_;
};

// Families that write their widths in GPT-2's words.
void gpt2_words(ConfigWriter& writer) {
  writer.set("n_embd", writer.hidden());
  writer.copy_natural("block_count", "n_layer");
  writer.set("n_head", writer.heads());
  writer.copy_natural("context_length", "n_positions");
  writer.copy_natural("feed_forward_length", "n_inner");
  writer.layer_epsilon("layer_norm_epsilon");
}

void llama(ConfigWriter& writer) {
  writer.common();
  writer.rms_epsilon();
  writer.rotary();
  if (writer.natural_or("expert_count", 0) != 0) {
    writer.set("model_type", "mixtral");
    writer.experts("num_local_experts");
    return;
  }
  writer.biases(true);
  writer.set("mlp_bias", writer.has_parameter(Role::kUp, true));
}

void rms_family(ConfigWriter& writer) {
  writer.common();
  writer.rms_epsilon();
  writer.rotary();
}

// Queries that grow from the original context on make it a Ministral 3.
void mistral(ConfigWriter& writer) {
  rms_family(writer);
  writer.window();
  const double growth = writer.name() == "mistral3" ? writer.number_or("attention.temperature_scale", 0.0) : 0.0;
  if (growth == 0.0) return;
  writer.set("model_type", "ministral3");
  writer.set("head_dim", writer.head_dim());
  writer.grow_queries(growth);
}

void qwen2_moe(ConfigWriter& writer) {
  rms_family(writer);
  writer.experts("num_experts");
  writer.copy_natural("expert_feed_forward_length", "moe_intermediate_size");
  writer.copy_natural("expert_shared_feed_forward_length", "shared_expert_intermediate_size");
  writer.expert_weights_sum_to_one(false);
}

void qwen3(ConfigWriter& writer) {
  rms_family(writer);
  writer.set("head_dim", writer.head_dim());
  writer.set("attention_bias", writer.has_parameter(Role::kQ, true));
}

void qwen3_moe(ConfigWriter& writer) {
  qwen3(writer);
  writer.experts("num_experts");
  writer.copy_natural("expert_feed_forward_length", "moe_intermediate_size");
  writer.expert_weights_sum_to_one(true);
}

/// Scores of the 27 B models are scaled by hidden / heads, of all others by head_dim; no key tells.
void gemma_score_scale(ConfigWriter& writer, std::uint64_t layers_of_27b) {
  const bool large = writer.natural("block_count") == layers_of_27b;
  writer.set("query_pre_attn_scalar", large ? writer.hidden() / writer.heads() : writer.head_dim());
}

void gemma(ConfigWriter& writer) {
  rms_family(writer);
  writer.set("head_dim", writer.head_dim());
  writer.set(writer.name() == "gemma" ? "hidden_act" : "hidden_activation", "gelu_pytorch_tanh");
  if (writer.name() == "gemma") return;
  if (writer.name() == "gemma2") {
    writer.set("sliding_window", writer.natural_or("attention.sliding_window", 4096));
    writer.set("attn_logit_softcapping", writer.number_or("attn_logit_softcapping", 50.0));
    writer.set("final_logit_softcapping", writer.number_or("final_logit_softcapping", 30.0));
    gemma_score_scale(writer, 46);
    return;
  }
  writer.copy_natural("attention.sliding_window", "sliding_window");
  writer.set("sliding_window_pattern", 6);
  writer.set("rope_local_base_freq", writer.number_or("rope.freq_base_swa", 10000.0));
  gemma_score_scale(writer, 62);
}

void phi(ConfigWriter& writer) {
  writer.common();
  writer.layer_epsilon("layer_norm_eps");
  writer.rotary();
  writer.set("partial_rotary_factor", writer.rotary_share());
  writer.set("hidden_act", "gelu_new");
}

void phi3(ConfigWriter& writer) {
  rms_family(writer);
  writer.padding();  // which its configuration in transformers takes to be 32000 where it is not said
  if (writer.rotary_share() != 1.0) writer.set("partial_rotary_factor", writer.rotary_share());
  writer.copy_natural_if("rope.scaling.original_context_length", "original_max_position_embeddings");
  writer.copy_natural_if("attention.sliding_window", "sliding_window");
}

void gpt_neox(ConfigWriter& writer) {
  writer.common();
  writer.layer_epsilon("layer_norm_eps");
  writer.set("rotary_pct", writer.rotary_share());
  writer.set("rotary_emb_base", writer.number_or("rope.freq_base", 10000.0));
  writer.rope_scaling();
  writer.set("use_parallel_residual", writer.truth_or("use_parallel_residual", true));
  writer.set("hidden_act", "gelu");
  writer.drop("num_key_value_heads");
}

void falcon(ConfigWriter& writer) {
  writer.set("hidden_size", writer.hidden());
  writer.copy_natural("block_count", "num_hidden_layers");
  writer.set("num_attention_heads", writer.heads());
  writer.set("num_kv_heads", writer.kv_heads());
  writer.copy_natural("feed_forward_length", "ffn_hidden_size");
  writer.layer_epsilon("layer_norm_epsilon");
  const bool grouped = writer.kv_heads() > 1 || writer.has_tensor("blk.0.attn_norm_2.weight");
  writer.set("new_decoder_architecture", grouped);
  writer.set("multi_query", writer.kv_heads() == 1);
  if (grouped) writer.set("num_ln_in_parallel_attn", writer.has_tensor("blk.0.attn_norm_2.weight") ? 2 : 1);
  writer.set("parallel_attn", true);
  writer.set("bias", false);
  writer.set("alibi", false);
  writer.rotary();
}

void bloom(ConfigWriter& writer) {
  writer.set("hidden_size", writer.hidden());
  writer.copy_natural("block_count", "n_layer");
  writer.set("n_head", writer.heads());
  writer.copy_natural("context_length", "seq_length");
  writer.layer_epsilon("layer_norm_epsilon");
}

void bigcode(ConfigWriter& writer) {
  gpt2_words(writer);
  writer.set("multi_query", writer.kv_heads() == 1);
  writer.set("activation_function", "gelu_pytorch_tanh");
}

void starcoder2(ConfigWriter& writer) {
  writer.common();
  writer.layer_epsilon("norm_epsilon");
  writer.rotary();
  writer.set("use_bias", writer.has_parameter(Role::kQ, true));
  writer.set("hidden_act", "gelu_pytorch_tanh");
}

void stablelm(ConfigWriter& writer) {
  writer.common();
  writer.layer_epsilon("layer_norm_eps");
  writer.rotary();
  writer.set("partial_rotary_factor", writer.rotary_share());
  writer.set("use_qkv_bias", writer.has_parameter(Role::kQ, true));
  writer.set("qk_layernorm", writer.has_parameter(Role::kQNorm, false));
  writer.mark("use_parallel_residual");  // tensors say it, to llama.cpp too
  writer.set("use_parallel_residual", !writer.has_parameter(Role::kMlpNorm, false));
}

void olmo(ConfigWriter& writer) {
  writer.common();
  writer.rotary();
  writer.require_number("attention.layer_norm_epsilon", 1e-5);  // no setting of its configuration
  if (writer.number_or("attention.clamp_kqv", 0.0) > 0.0) writer.copy_number("attention.clamp_kqv", "clip_qkv");
}

void olmoe(ConfigWriter& writer) {
  rms_family(writer);
  writer.experts("num_experts");
  writer.expert_weights_sum_to_one(false);
}

// The third generation is the second with windows.
void olmo2(ConfigWriter& writer) {
  rms_family(writer);
  if (!writer.has("attention.sliding_window")) return;
  writer.set("model_type", "olmo3");
  writer.copy_natural("attention.sliding_window", "sliding_window");
}

// Granite 4.0 without state-space layers: the converter writes of it alone whether heads turn, which to llama.cpp is
// what that key means in all Granites.
void granite4(ConfigWriter& writer) {
  writer.set("model_type", "granitemoehybrid");
  writer.set("layer_types", std::vector<std::string>(writer.natural("block_count"), "attention"));
  writer.set("num_local_experts", 0);
  writer.set("mamba_n_heads", 1);  // divides any width, as transformers wants it to, of layers that are not there
  writer.copy_natural("feed_forward_length", "shared_intermediate_size");
  writer.set("position_embedding_type", writer.truth_or("rope.scaling.finetuned", true) ? "rope" : "nope");
}

void granite(ConfigWriter& writer) {
  rms_family(writer);
  writer.biases(true);
  writer.copy_number_if("embedding_scale", "embedding_multiplier");
  writer.copy_number_if("residual_scale", "residual_multiplier");
  writer.copy_number_if("attention.scale", "attention_multiplier");
  writer.copy_number_if("logit_scale", "logits_scaling");
  if (writer.name() == "granite") {
    if (writer.has("rope.scaling.finetuned")) granite4(writer);
    return;
  }
  writer.require_truth("rope.scaling.finetuned", true);
  writer.experts("num_local_experts");
  if (writer.has("expert_shared_feed_forward_length")) {
    writer.set("model_type", "granitemoeshared");
    writer.copy_natural("expert_shared_feed_forward_length", "shared_intermediate_size");
  }
}

void cohere(ConfigWriter& writer) {
  writer.common();
  writer.layer_epsilon("layer_norm_eps");
  writer.rotary();
  writer.copy_number("logit_scale", "logit_scale");
  if (writer.name() == "command-r") {
    writer.set("use_qk_norm", writer.has_parameter(Role::kQNorm, false));
  } else {
    writer.copy_natural("attention.sliding_window", "sliding_window");
    writer.set("sliding_window_pattern", 4);
  }
}

void gpt_oss(ConfigWriter& writer) {
  rms_family(writer);
  writer.set("head_dim", writer.head_dim());
  writer.experts("num_local_experts");
  writer.copy_natural("expert_feed_forward_length", "intermediate_size");
  writer.copy_natural("attention.sliding_window", "sliding_window");
  writer.set("attention_bias", writer.has_parameter(Role::kQ, true));
  writer.set("swiglu_limit", 7.0);
  writer.leave_yarn_bounds_alone();
}

void nemotron(ConfigWriter& writer) {
  writer.common();
  writer.layer_epsilon("norm_eps");
  writer.rotary();
  writer.set("partial_rotary_factor", writer.rotary_share());
  writer.biases(true);
  writer.set("mlp_bias", writer.has_parameter(Role::kUp, true));
  writer.set("hidden_act", "relu2");
}

void exaone4(ConfigWriter& writer) {
  rms_family(writer);
  writer.set("head_dim", writer.head_dim());
  writer.window();
  if (writer.has("attention.sliding_window")) writer.set("sliding_window_pattern", 4);
}

void smollm3(ConfigWriter& writer) {
  rms_family(writer);
  writer.set("no_rope_layer_interval", 4);  // what llama.cpp assumes
}

void glm4(ConfigWriter& writer) {
  rms_family(writer);
  writer.padding();  // which its configuration in transformers takes to be 151329 where it is not said
  writer.set("head_dim", writer.head_dim());
  writer.set("partial_rotary_factor", writer.rotary_share());
  writer.set("attention_bias", writer.has_parameter(Role::kQ, true));
}

// Routers of sigmoids. Layers that guess at tokens further ahead are counted among the blocks.
void sigmoid_mixtures(ConfigWriter& writer) {
  rms_family(writer);
  writer.set("head_dim", writer.head_dim());
  const std::uint64_t blocks = writer.natural("block_count"), ahead = writer.natural_or("nextn_predict_layers", 0);
  writer.set("num_hidden_layers", blocks > ahead ? blocks - ahead : 0);
  writer.require_natural("expert_gating_func", kGgufSigmoids);
  writer.experts("n_routed_experts");
  writer.copy_natural("expert_feed_forward_length", "moe_intermediate_size");
  writer.copy_natural("expert_shared_count", "n_shared_experts");
  writer.set("first_k_dense_replace", writer.natural_or("leading_dense_block_count", 0));
  writer.set("norm_topk_prob", writer.truth_or("expert_weights_norm", false));
  const double scale = writer.number_or("expert_weights_scale", 0.0);
  writer.set("routed_scaling_factor", scale == 0.0 ? 1.0 : shortest(scale));  // as there, where 0 says nothing
  const std::uint64_t groups = writer.natural_or("expert_group_count", 0);
  writer.set("n_group", groups == 0 ? 1 : groups);
  const std::uint64_t chosen = writer.natural_or("expert_group_used_count", 0);
  writer.set("topk_group", groups <= 1 ? 1 : chosen);
}

void glm4_moe(ConfigWriter& writer) {
  sigmoid_mixtures(writer);
  writer.set("partial_rotary_factor", writer.rotary_share());
  writer.set("attention_bias", writer.has_parameter(Role::kQ, true));
  writer.set("use_qk_norm", writer.has_parameter(Role::kQNorm, false));
  writer.set("num_nextn_predict_layers", 0);  // whose tensors are left in the file
}

void dots1(ConfigWriter& writer) {
  sigmoid_mixtures(writer);
  writer.set("sliding_window", nullptr);
}

void minimax_m2(ConfigWriter& writer) {
  rms_family(writer);
  writer.set("head_dim", writer.head_dim());
  writer.require_natural("expert_gating_func", kGgufSigmoids);
  writer.experts("num_local_experts");
  writer.copy_natural("expert_feed_forward_length", "intermediate_size");
  writer.require_truth("expert_weights_norm", true);
  writer.require_number("expert_weights_scale", 1.0);
}

void ernie4_5(ConfigWriter& writer) {
  rms_family(writer);
  writer.set("head_dim", writer.head_dim());
}

// A correction may be left out; dense blocks between mixtures llama.cpp does not load.
void ernie4_5_moe(ConfigWriter& writer) {
  ernie4_5(writer);
  const std::uint64_t dense = writer.natural("leading_dense_block_count");
  writer.set("moe_layer_start_index", dense);
  writer.require_natural("interleave_moe_layer_step", 1);
  writer.copy_natural("expert_count", "moe_num_experts");
  writer.copy_natural("expert_used_count", "moe_k");
  const std::uint64_t width = writer.natural("expert_feed_forward_length"),
                      shared = writer.natural_or("expert_shared_feed_forward_length", 0);
  NIBBLE_REQUIRE(width > 0 && shared % width == 0, FormatError,
                 "{}: a shared expert of width {} is not made of experts of width {}", writer.what(), shared, width);
  writer.set("moe_intermediate_size", width);
  writer.set("moe_num_shared_experts", shared / width);
  writer.mark("expert_shared_count");  // by width, as there
  writer.require_truth("expert_weights_norm", true);
  writer.set("moe_use_aux_free", writer.has_parameter(Role::kRouterCorrection, true, false, dense));
}

void seed_oss(ConfigWriter& writer) {
  rms_family(writer);
  writer.set("head_dim", writer.head_dim());
  writer.set("attention_bias", writer.has_parameter(Role::kQ, true));
}

using Filler = void (*)(ConfigWriter& writer);

Filler filler_of(std::string_view name) {
  static constexpr std::pair<std::string_view, Filler> kFillers[] = {{"llama", llama},
                                                                     {"mistral3", mistral},
                                                                     {"qwen2", rms_family},
                                                                     {"qwen2moe", qwen2_moe},
                                                                     {"qwen3", qwen3},
                                                                     {"qwen3moe", qwen3_moe},
                                                                     {"gemma", gemma},
                                                                     {"gemma2", gemma},
                                                                     {"gemma3", gemma},
                                                                     {"phi2", phi},
                                                                     {"phi3", phi3},
                                                                     {"gptneox", gpt_neox},
                                                                     {"gpt2", gpt2_words},
                                                                     {"falcon", falcon},
                                                                     {"bloom", bloom},
                                                                     {"starcoder", bigcode},
                                                                     {"starcoder2", starcoder2},
                                                                     {"stablelm", stablelm},
                                                                     {"olmo", olmo},
                                                                     {"olmo2", olmo2},
                                                                     {"olmoe", olmoe},
                                                                     {"granite", granite},
                                                                     {"granitemoe", granite},
                                                                     {"command-r", cohere},
                                                                     {"cohere2", cohere},
                                                                     {"gpt-oss", gpt_oss},
                                                                     {"nemotron", nemotron},
                                                                     {"exaone4", exaone4},
                                                                     {"smollm3", smollm3},
                                                                     {"glm4", glm4},
                                                                     {"glm4moe", glm4_moe},
                                                                     {"dots1", dots1},
                                                                     {"chatglm", glm4},
                                                                     {"arcee", rms_family},
                                                                     {"ernie4_5", ernie4_5},
                                                                     {"ernie4_5-moe", ernie4_5_moe},
                                                                     {"minimax-m2", minimax_m2},
                                                                     {"hunyuan-dense", qwen3},
                                                                     {"seed_oss", seed_oss}};
  for (const auto& [known, filler] : kFillers)
    if (known == name) return filler;
  throw FormatError(fmt::format("GGUF: the configuration of '{}' is not read", name));
}

std::string config_json(const GgufFile& file, Ends which) {
  ConfigWriter writer(file);
  writer.vocabulary_and_tokens(which);
  filler_of(writer.name())(writer);
  writer.require_usual_windows();
  writer.refuse_unread();
  return writer.take().dump(2);
}

}  // namespace

std::string gguf_config_json(const GgufFile& file) { return config_json(file, Ends::kAll); }
std::string gguf_network_json(const GgufFile& file) { return config_json(file, Ends::kOfText); }

}  // namespace nibble::model
