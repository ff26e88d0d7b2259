#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "tests/model/gguf/tiny_gguf.h"

namespace nibble::test {

/// A whole GGUF model of one block, small enough to be made in a test, and made so that a test can spoil any part of
/// it: llama, width 32, 2 heads of 16 (1 of keys and values), MLP 64, a SentencePiece vocabulary of 288 tokens. Weights
/// are F32 but for those that spoil() or a test changes.
class TinyLlama {
 public:
  static constexpr std::size_t kWidth = 32, kHeads = 2, kKvHeads = 1, kHeadDim = 16, kMlp = 64, kVocabulary = 288;

  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> extents;  ///< as in the file: the fastest first
    std::uint32_t type = 0;
    std::string data;
  };

  std::vector<std::pair<std::string, std::string>> keys;  ///< key, and the whole pair as bytes
  std::vector<Tensor> tensors;

  TinyLlama() {
    set("general.architecture", 8, text("llama"));
    set("llama.context_length", 4, u32(64));
    set("llama.embedding_length", 4, u32(kWidth));
    set("llama.block_count", 4, u32(1));
    set("llama.feed_forward_length", 4, u32(kMlp));
    set("llama.attention.head_count", 4, u32(kHeads));
    set("llama.attention.head_count_kv", 4, u32(kKvHeads));
    set("llama.attention.layer_norm_rms_epsilon", 6, le(1e-5f));
    set_tokenizer();
    add("token_embd.weight", {kWidth, kVocabulary});
    add("output_norm.weight", {kWidth});
    add("blk.0.attn_norm.weight", {kWidth});
    add("blk.0.ffn_norm.weight", {kWidth});
    add("blk.0.attn_q.weight", {kWidth, kHeads * kHeadDim});
    add("blk.0.attn_k.weight", {kWidth, kKvHeads * kHeadDim});
    add("blk.0.attn_v.weight", {kWidth, kKvHeads * kHeadDim});
    add("blk.0.attn_output.weight", {kHeads * kHeadDim, kWidth});
    add("blk.0.ffn_gate.weight", {kWidth, kMlp});
    add("blk.0.ffn_up.weight", {kWidth, kMlp});
    add("blk.0.ffn_down.weight", {kMlp, kWidth});
  }

  /// Adds a key, or puts another value in the place of its own.
  void set(const std::string& key, std::uint32_t type, const std::string& value) {
    for (auto& [name, bytes] : keys)
      if (name == key) return void(bytes = pair(key, type, value));
    keys.emplace_back(key, pair(key, type, value));
  }
  void remove_key(const std::string& key) {
    std::erase_if(keys, [&](const auto& item) { return item.first == key; });
  }
  void remove_tensor(const std::string& name) {
    std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.name == name; });
  }
  Tensor& tensor(const std::string& name) {
    for (Tensor& tensor : tensors)
      if (tensor.name == name) return tensor;
    throw std::out_of_range(name);
  }

  /// Adds a tensor of random floats, or puts it in the place of the one there.
  void add(const std::string& name, std::vector<std::uint64_t> extents) {
    std::size_t count = 1;
    for (const std::uint64_t extent : extents) count *= extent;
    Tensor tensor{name, std::move(extents), 0, {}};
    const bool gain = name.find("norm") != std::string::npos;
    for (std::size_t i = 0; i < count; ++i)
      tensor.data += le(static_cast<float>((gain ? 1.0 : 0.0) + 0.2 * random_.normal()));
    remove_tensor(name);
    tensors.push_back(std::move(tensor));
  }

  /// Rounds a tensor to Q8_0: blocks of a float16 scale (0x2000, 2^-7) and 32 codes.
  void make_q8_0(const std::string& name) {
    Tensor& of = tensor(name);
    std::string blocks;
    for (std::size_t i = 0; i < of.data.size() / 4; ++i) {
      if (i % 32 == 0) blocks += std::string("\x00\x20", 2);
      float value = 0.0f;
      std::memcpy(&value, of.data.data() + 4 * i, 4);
      blocks += static_cast<char>(static_cast<int>(value * 128.0f));
    }
    of.type = 8;
    of.data = blocks;
  }

  std::string bytes() const {
    std::vector<std::string> pairs;
    for (const auto& [key, bytes] : keys) pairs.push_back(bytes);
    std::vector<TinyGgufTensor> infos;
    std::string data;
    for (const Tensor& tensor : tensors) {
      infos.push_back({tensor.name, tensor.extents, tensor.type, data.size()});
      data += tensor.data;
      data.resize((data.size() + 31) / 32 * 32);
    }
    return gguf_bytes(pairs, infos, data);
  }

  static std::string strings(const std::vector<std::string>& values) {
    std::string bytes = u32(8) + u64(values.size());
    for (const std::string& value : values) bytes += text(value);
    return bytes;
  }
  template <class T>
  static std::string numbers(std::uint32_t type, const std::vector<T>& values) {
    std::string bytes = u32(type) + u64(values.size());
    for (const T value : values) bytes += le(value);
    return bytes;
  }

  /// <unk> <s> </s>, 256 bytes, then pieces.
  static std::vector<std::string> tokens() {
    std::vector<std::string> list{"<unk>", "<s>", "</s>"};
    const char* const digits = "0123456789ABCDEF";
    for (int byte = 0; byte < 256; ++byte)
      list.push_back(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">");
    for (const char* piece : {"\u2581",    "a",
                              "b",         "c",
                              "d",         "e",
                              "h",         "l",
                              "o",         "t",
                              "w",         "r",
                              "\u2581t",   "he",
                              "\u2581the", "ll",
                              "lo",        "\u2581w",
                              "or",        "\u2581wor",
                              "ld",        "\u2581world",
                              "ab",        "cd",
                              "abcd",      "\u2581\u2581",
                              "re",        "er",
                              "\u2581a"})
      list.emplace_back(piece);
    return list;
  }

 private:
  void set_tokenizer() {
    const std::vector<std::string> list = tokens();
    std::vector<float> scores;
    std::vector<std::int32_t> types;
    for (std::size_t i = 0; i < list.size(); ++i) {
      scores.push_back(i < 259 ? 0.0f : -static_cast<float>(i - 258));
      types.push_back(i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1);
    }
    set("tokenizer.ggml.model", 8, text("llama"));
    set("tokenizer.ggml.tokens", 9, strings(list));
    set("tokenizer.ggml.scores", 9, numbers(6, scores));
    set("tokenizer.ggml.token_type", 9, numbers(5, types));
    set("tokenizer.ggml.bos_token_id", 4, u32(1));
    set("tokenizer.ggml.eos_token_id", 4, u32(2));
  }

  Random random_{12};
};

}  // namespace nibble::test
