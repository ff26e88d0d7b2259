#include "tests/quant/job/tiny_models.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "calib/collect/plan.h"
#include "core/matrix/dtype.h"
#include "core/random.h"
#include "model/checkpoint/checkpoint.h"
#include "quant/store/load_model.h"
#include "tests/support/files.h"

namespace nibble::test {
namespace {

// Adds tensors with values of their own, drawn from a seed that grows.
class Filler {
 public:
  Filler(TinyModel& model, MakeTensor make) : model_(model), make_(make) {}
  void add(const std::string& name, const std::vector<std::uint64_t>& shape, double deviation, float offset = 0.0f,
           const std::function<void(std::vector<float>&)>& change = {}) {
    std::size_t count = 1;
    for (const std::uint64_t extent : shape) count *= extent;
    auto values = normal_values(count, ++seed_, deviation);
    for (float& value : values) value = round_to_f16(value + offset);
    if (change) change(values);
    model_.tensors.push_back(make_(name, shape, values));
  }

 private:
  TinyModel& model_;
  MakeTensor make_;
  std::uint64_t seed_ = 0;
};

// ln p of every token of the vocabulary at every position of a window.
std::vector<std::vector<double>> log_probabilities(const std::filesystem::path& directory,
                                                   const quant::CalibrationText& text, std::size_t window) {
  const auto loaded = quant::load_model(directory);
  const std::size_t length = text.window_tokens;
  const std::vector<std::size_t> starts{0, length};
  std::vector<std::size_t> rows(length);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  std::vector<std::vector<double>> all(length);
  loaded.transformer->forward({std::span(text.tokens).subspan(length * window, length), starts}, rows,
                              [&](auto chunk, auto logits) {
                                for (std::size_t i = 0; i < chunk.size(); ++i) {
                                  double sum = 0.0;
                                  for (const float x : logits.row(i)) sum += std::exp(static_cast<double>(x));
                                  for (const float x : logits.row(i))
                                    all[chunk[i]].push_back(static_cast<double>(x) - std::log(sum));
                                }
                              });
  return all;
}

}  // namespace

TinyTensor& TinyModel::tensor(std::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  if (found == tensors.end()) throw std::invalid_argument(std::string(name));
  return *found;
}

TinyModel tiny_gpt2(MakeTensor make, const std::string& prefix) {
  TinyModel model;
  model.config_json =
      R"({"model_type": "gpt2", "vocab_size": 40, "n_positions": 24, "n_embd": 16, "n_layer": 2, "n_head": 2,
          "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05})";
  Filler filler(model, make);
  filler.add(prefix + "wte.weight", {40, 16}, 0.5);
  filler.add(prefix + "wpe.weight", {24, 16}, 0.1);
  const auto norm = [&](const std::string& name) {
    filler.add(name + ".weight", {16}, 0.1, 1.0f);
    filler.add(name + ".bias", {16}, 0.1);
  };
  const auto linear = [&](const std::string& name, std::uint64_t out, std::uint64_t in) {  // stored (in, out)
    filler.add(name + ".weight", {in, out}, 0.3);
    filler.add(name + ".bias", {out}, 0.1);
  };
  for (const std::string block : {"h.0.", "h.1."}) {
    norm(prefix + block + "ln_1");
    linear(prefix + block + "attn.c_attn", 48, 16);
    linear(prefix + block + "attn.c_proj", 16, 16);
    norm(prefix + block + "ln_2");
    linear(prefix + block + "mlp.c_fc", 64, 16);
    linear(prefix + block + "mlp.c_proj", 16, 64);
  }
  norm(prefix + "ln_f");
  return model;
}

TinyModel tiny_llama(MakeTensor make, std::size_t layers) {
  TinyModel model;
  model.config_json = R"({"model_type": "llama", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": )" +
                      std::to_string(layers) + R"(, "num_attention_heads": 2,
          "num_key_value_heads": 1, "intermediate_size": 27, "max_position_embeddings": 64, "rms_norm_eps": 1e-05,
          "hidden_act": "silu", "tie_word_embeddings": false})";
  Filler filler(model, make);
  filler.add("model.embed_tokens.weight", {40, 16}, 0.5);
  filler.add("lm_head.weight", {40, 16}, 0.5);
  filler.add("model.norm.weight", {16}, 0.1, 1.0f);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string block = "model.layers." + std::to_string(layer) + ".";
    filler.add(block + "input_layernorm.weight", {16}, 0.1, 1.0f);
    filler.add(block + "post_attention_layernorm.weight", {16}, 0.1, 1.0f);
    filler.add(block + "self_attn.q_proj.weight", {16, 16}, 0.3);
    filler.add(block + "self_attn.k_proj.weight", {8, 16}, 0.3);
    filler.add(block + "self_attn.v_proj.weight", {8, 16}, 0.3);
    filler.add(block + "self_attn.o_proj.weight", {16, 16}, 0.3);
    filler.add(block + "mlp.gate_proj.weight", {27, 16}, 0.3);
    filler.add(block + "mlp.up_proj.weight", {27, 16}, 0.3);
    filler.add(block + "mlp.down_proj.weight", {16, 27}, 0.3);
  }
  return model;
}

TinyModel tiny_cohere() {
  TinyModel model = tiny_llama();
  model.config_json =
      R"({"model_type": "cohere", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
          "num_key_value_heads": 1, "intermediate_size": 27, "max_position_embeddings": 64, "layer_norm_eps": 1e-05,
          "hidden_act": "silu", "logit_scale": 0.5, "tie_word_embeddings": true})";
  std::erase_if(model.tensors, [](const TinyTensor& tensor) {
    return tensor.name == "lm_head.weight" || tensor.name.find("post_attention_layernorm") != std::string::npos;
  });
  return model;
}

TinyModel tiny_mixtral(std::uint64_t intermediate) {
  TinyModel model;
  model.config_json =
      R"({"model_type": "mixtral", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2,
          "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": )" +
      std::to_string(intermediate) + R"(, "num_local_experts": 4,
          "num_experts_per_tok": 2, "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-05,
          "tie_word_embeddings": false})";
  Filler filler(model, f32_tensor);
  // Channel 0 of the residual stream tells the rare token from the others, and nothing adds to it.
  using Values = std::vector<float>;
  const auto silent_first = [](Values& values, std::size_t cols) { std::fill_n(values.begin(), cols, 0.0f); };
  filler.add("model.embed_tokens.weight", {40, 16}, 0.5, 0.0f, [](Values& values) {
    for (std::size_t token = 0; token < 40; ++token) values[token * 16] = token == kRareToken ? -6.0f : 3.0f;
  });
  filler.add("lm_head.weight", {40, 16}, 0.5);
  filler.add("model.norm.weight", {16}, 0.1, 1.0f);
  for (const std::string block : {"model.layers.0.", "model.layers.1."}) {
    filler.add(block + "input_layernorm.weight", {16}, 0.1, 1.0f);
    filler.add(block + "post_attention_layernorm.weight", {16}, 0.1, 1.0f);
    filler.add(block + "self_attn.q_proj.weight", {16, 16}, 0.3);
    filler.add(block + "self_attn.k_proj.weight", {8, 16}, 0.3);
    filler.add(block + "self_attn.v_proj.weight", {8, 16}, 0.3);
    filler.add(block + "self_attn.o_proj.weight", {16, 16}, 0.3, 0.0f, [&](Values& v) { silent_first(v, 16); });
    filler.add(block + "block_sparse_moe.gate.weight", {4, 16}, 0.3, 0.0f, [](Values& values) {
      for (std::size_t expert = 0; expert < 4; ++expert) values[expert * 16] = 0.0f;
      std::fill_n(values.begin() + 3 * 16, 16, 0.0f);
      values[3 * 16] = -8.0f;
    });
    for (const std::string expert : {"0.", "1.", "2.", "3."}) {
      const std::string name = block + "block_sparse_moe.experts." + expert;
      filler.add(name + "w1.weight", {intermediate, 16}, 0.3);
      filler.add(name + "w2.weight", {16, intermediate}, 0.3, 0.0f, [&](Values& v) { silent_first(v, intermediate); });
      filler.add(name + "w3.weight", {intermediate, 16}, 0.3);
    }
  }
  return model;
}

std::uint64_t least_memory(const std::filesystem::path& directory, const quant::CalibrationText& text) {
  calib::RunSettings settings;
  settings.collected = {.activations = true, .hessian = true};
  settings.window_tokens = text.window_tokens;
  settings.windows = text.tokens.size() / text.window_tokens;
  const auto architecture = model::Checkpoint::open(directory)->architecture();
  const auto plan = calib::plan_calibration(architecture, settings, std::uint64_t{1} << 40);
  return plan.memory_bytes - plan.residual_bytes;
}

void stop_quantizing(double share, const std::function<void(const ProgressSink&)>& job) {
  struct Stop {};
  try {
    job([&](const ProgressUpdate& at) {
      if (at.stage == "quantizing" && at.done >= share * at.total) throw Stop();
    });
  } catch (const Stop&) {
    return;
  }
  throw std::logic_error("the job was to be stopped, and ended");
}

quant::CalibrationText random_text(std::uint64_t seed, std::size_t windows, std::size_t window_tokens,
                                   std::uint64_t kinds) {
  Random random(seed);
  quant::CalibrationText text{.tokens = {}, .window_tokens = window_tokens, .fingerprint = "text"};
  for (std::size_t i = 0; i < windows * window_tokens; ++i)
    text.tokens.push_back(static_cast<TokenId>(random.below(kinds)));
  return text;
}

std::vector<float> logits_of_model(const std::filesystem::path& directory) {
  const auto loaded = quant::load_model(directory);
  std::vector<TokenId> tokens(20);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i * 7 % 40);
  const std::vector<std::size_t> starts{0, tokens.size()};
  std::vector<std::size_t> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), 0u);
  std::vector<float> logits;
  loaded.transformer->forward({tokens, starts}, rows, [&](std::span<const std::size_t>, MatrixView<const float> chunk) {
    for (std::size_t r = 0; r < chunk.rows(); ++r)
      logits.insert(logits.end(), chunk.row(r).begin(), chunk.row(r).end());
  });
  return logits;
}

double divergence_between(const std::filesystem::path& model, const std::filesystem::path& quantized,
                          const quant::CalibrationText& text, std::span<const std::size_t> windows) {
  double sum = 0.0;
  for (const std::size_t window : windows) {
    const auto p = log_probabilities(model, text, window), q = log_probabilities(quantized, text, window);
    for (std::size_t r = 0; r < p.size(); ++r)
      for (std::size_t k = 0; k < p[r].size(); ++k) sum += std::exp(p[r][k]) * (p[r][k] - q[r][k]);
  }
  return sum / static_cast<double>(windows.size() * text.window_tokens);
}

std::map<std::string, std::string> files_of(const std::filesystem::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), directory).string()] = read_file(entry.path());
  return files;
}

std::map<std::string, std::string> files_without_times(const std::filesystem::path& directory) {
  auto files = files_of(directory);
  std::string& report = files.at("quantization.json");
  constexpr std::string_view kKey = "\"seconds\": ";
  for (auto at = report.find(kKey); at != std::string::npos; at = report.find(kKey, at + 1))
    report.erase(at + kKey.size(), report.find_first_of(",\n", at) - at - kKey.size());
  return files;
}

}  // namespace nibble::test
