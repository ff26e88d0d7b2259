#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/progress.h"
#include "model/architecture/architecture.h"
#include "quant/job/statistics/calibration_text.h"
#include "tests/support/tiny_checkpoint.h"

namespace nibble::test {

/// config.json and the tensors of a complete little model with random weights, for tests to change and write.
struct TinyModel {
  std::string config_json;
  std::vector<TinyTensor> tensors;

  TinyTensor& tensor(std::string_view name);
  void write(const std::filesystem::path& directory) const { write_checkpoint(directory, config_json, tensors); }
};

/// Weights are rounded to float16, so that float16 holds them exactly, whatever type they are stored as.
using MakeTensor = TinyTensor (*)(std::string, std::vector<std::uint64_t>, std::span<const float>);

/// GPT-2: 2 layers, width 16, 2 heads, vocabulary 40, 24 positions, tied head; names get `prefix`.
TinyModel tiny_gpt2(MakeTensor make = f32_tensor, const std::string& prefix = "");
/// Llama: `layers`, width 16, 2 heads of 8, 1 for keys and values, MLP 27 (odd rows), vocabulary 40, untied head.
TinyModel tiny_llama(MakeTensor make = f32_tensor, std::size_t layers = 2);
/// Cohere: the same with one norm a layer, which feeds attention and MLP side by side, and a tied head.
TinyModel tiny_cohere();
/// Mixtral: 2 layers, width 16, 4 experts of `intermediate` of which a token takes 2, vocabulary 40, 64 positions,
/// untied head. The last expert of each layer is chosen by kRareToken, and by no other token.
TinyModel tiny_mixtral(std::uint64_t intermediate = 12);
inline constexpr std::uint32_t kRareToken = 7;

/// As many windows of as many random tokens, each one of the first `kinds`.
quant::CalibrationText random_text(std::uint64_t seed, std::size_t windows, std::size_t window_tokens = 20,
                                   std::uint64_t kinds = 40);

/// What one block, its sums and one batch of that text take: the least memory that running it through the model in
/// `directory` is granted.
std::uint64_t least_memory(const std::filesystem::path& directory, const quant::CalibrationText& text);

/// Runs a job and stops it, as a kill would, once that share of quantizing is done; throws if it ends before.
void stop_quantizing(double share, const std::function<void(const ProgressSink&)>& job);

/// Logits (tokens, vocabulary) of a fixed sequence of 20 tokens by the model in `directory`, float or quantized.
std::vector<float> logits_of_model(const std::filesystem::path& directory);

/// KL(float ‖ quantized) of two checkpoints, mean over all positions of some windows of a text, nats per token: sums in
/// double of probabilities of logits that are floats.
double divergence_between(const std::filesystem::path& model, const std::filesystem::path& quantized,
                          const quant::CalibrationText& text, std::span<const std::size_t> windows);

/// All files below `directory`, by relative path.
std::map<std::string, std::string> files_of(const std::filesystem::path& directory);
/// The same of a quantized checkpoint, without the seconds in quantization.json: what equal jobs have in common.
std::map<std::string, std::string> files_without_times(const std::filesystem::path& directory);

}  // namespace nibble::test
