#include <gmock/gmock.h>

#include <cstring>
#include <map>

#include "core/checked_math.h"
#include "core/text/json.h"
#include "model/architecture/families.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_source.h"
#include "model/gguf/gguf_weights.h"
#include "tests/model/gguf/sha256.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"

namespace nibble::model {
namespace {

using nlohmann::json;
using test::read_file;
using test::sha256;
using test::shared_path;

TEST(Sha256, IsTheStandards) {  // FIPS 180-4's examples
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/// Where a parameter of a Hugging Face checkpoint is in a GGUF file.
struct Place {
  std::string name;
  bool transposed = false;  ///< stored (in, out) there, (out, in) here
  std::size_t heads = 0;    ///< > 0: rows of so many heads, interleaved here
};

Place place_of(const std::string& name, const GgufMetadata& metadata) {
  static const std::map<std::string, std::string> kParts{
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", "ffn_norm"},
      {"ln_1", "attn_norm"},
      {"ln_2", "ffn_norm"},
      {"attn.c_attn", "attn_qkv"},
      {"attn.c_proj", "attn_output"},
      {"mlp.c_fc", "ffn_up"},
      {"mlp.c_proj", "ffn_down"},
  };
  static const std::map<std::string, std::string> kTop{{"model.embed_tokens.weight", "token_embd.weight"},
                                                       {"model.norm.weight", "output_norm.weight"},
                                                       {"lm_head.weight", "output.weight"},
                                                       {"wte.weight", "token_embd.weight"},
                                                       {"wpe.weight", "position_embd.weight"},
                                                       {"ln_f.weight", "output_norm.weight"},
                                                       {"ln_f.bias", "output_norm.bias"}};
  if (const auto top = kTop.find(name); top != kTop.end()) return {top->second};
  const std::size_t layer = name.starts_with("h.") ? 2 : std::string_view("model.layers.").size();
  const std::size_t dot = name.find('.', layer), last = name.rfind('.');
  const std::string part = kParts.at(name.substr(dot + 1, last - dot - 1)), suffix = name.substr(last);
  Place place{"blk." + name.substr(layer, dot - layer) + "." + part + suffix};
  place.transposed = layer == 2 && suffix == ".weight" && !part.ends_with("_norm");
  if (part == "attn_q" || part == "attn_k")
    place.heads =
        metadata.need_natural(part == "attn_q" ? "llama.attention.head_count" : "llama.attention.head_count_kv");
  return place;
}

class LlamaCppFiles : public testing::TestWithParam<const char*> {};

// Files by llama.cpp's own quantizer; the hashes are of the floats that transformers' loader (gguf-py) makes of them.
TEST_P(LlamaCppFiles, DecodeToTheSameBits) {
  const std::string base = std::string("golden/exports/") + GetParam();
  NIBBLE_NEEDS_SHARED(base + ".gguf");
  const auto file = GgufFile::open(shared_path(base + ".gguf"));
  const json golden = json::parse(read_file(shared_path(base + ".golden.json")));
  std::size_t checked = 0;
  for (const auto& [name, expected] : golden["weights"].items()) {
    SCOPED_TRACE(name);
    Place place = place_of(name, file->metadata());
    if (file->find(place.name) == nullptr && name == "lm_head.weight") place.name = "token_embd.weight";
    const GgufTensor& tensor = file->tensor(place.name);
    const auto source = make_gguf_source(file, tensor, {.interleaved_heads = place.heads});
    const std::size_t rows = source->rows(), cols = source->cols();
    std::vector<float> values(rows * cols);
    source->decode_rows(0, rows, values.data());
    if (place.transposed) {
      std::vector<float> stored(values.size());
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < cols; ++c) stored[c * rows + r] = values[r * cols + c];
      values = stored;
    }
    const auto shape = expected["shape"].get<std::vector<std::uint64_t>>();
    ASSERT_EQ(checked_element_count(shape, name), values.size());
    EXPECT_EQ(sha256({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}),
              expected["sha256_float32"]);
    ++checked;
  }
  EXPECT_EQ(checked, golden["weights"].size());
  EXPECT_GE(checked, file->tensors().size());
}

// The same through the architecture: configuration made of the metadata, parameters found by role.
TEST_P(LlamaCppFiles, ServeAnArchitecturesParameters) {
  const std::string base = std::string("golden/exports/") + GetParam();
  NIBBLE_NEEDS_SHARED(base + ".gguf");
  const auto file = GgufFile::open(shared_path(base + ".gguf"));
  const json golden = json::parse(read_file(shared_path(base + ".golden.json")));
  const Architecture architecture = parse_architecture(gguf_config_json(*file), "the GGUF file");

  const std::string source = std::string(GetParam()).starts_with("gpt2") ? "gpt2-novels" : "llama-novels";
  const std::string own = read_file(shared_path("models/" + source + "/config.json"));
  EXPECT_EQ(describe(architecture), describe(parse_architecture(own, "config.json")));
  EXPECT_EQ(architecture.eos, std::optional<std::uint32_t>(8191));
  EXPECT_TRUE(test::near(architecture.final_norm->epsilon, 1e-5, {})) << "the float of the file is 1e-5f";

  const auto provider = make_gguf_provider(file, architecture);
  std::map<std::string, std::vector<float>> tensors;  // as the checkpoint holds them
  for (const Parameter* const parameter : matrices(architecture)) {
    SCOPED_TRACE(parameter->module);
    const Stored& stored = parameter->weight;
    const auto rows = provider->matrix(*parameter);
    ASSERT_EQ(rows->rows(), parameter->out);
    std::vector<float> values(parameter->out * parameter->in);
    rows->decode_rows(0, parameter->out, values.data());
    std::vector<float>& tensor = tensors[stored.tensor];
    tensor.resize(stored.rows * stored.cols);
    for (std::size_t i = 0; i < stored.part.count; ++i) {
      const std::size_t row = stored.part.row(i);
      for (std::size_t c = 0; c < stored.cols; ++c)
        tensor[stored.transposed ? c * stored.rows + row : row * stored.cols + c] = values[i * stored.cols + c];
    }
    EXPECT_EQ(provider->contains(parameter->bias.tensor), parameter->biased);
    if (!parameter->biased) continue;
    std::vector<float>& bias = tensors[parameter->bias.tensor];
    bias.resize(parameter->bias.rows);
    const std::vector<float> part = provider->vector(parameter->bias);
    for (std::size_t i = 0; i < part.size(); ++i) bias.at(parameter->bias.part.row(i)) = part[i];
  }
  for (const NormSpec* const norm : norms(architecture)) {
    tensors[norm->gain->tensor] = provider->vector(*norm->gain);
    if (norm->bias) tensors[norm->bias->tensor] = provider->vector(*norm->bias);
  }
  std::size_t checked = 0;
  for (const auto& [name, expected] : golden["weights"].items()) {
    if (name == "lm_head.weight" && architecture.head.tied) continue;
    ASSERT_TRUE(tensors.contains(name)) << name;
    const std::vector<float>& values = tensors[name];
    EXPECT_EQ(sha256({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}),
              expected["sha256_float32"])
        << name;
    ++checked;
  }
  EXPECT_EQ(checked, tensors.size());
}

INSTANTIATE_TEST_SUITE_P(Golden, LlamaCppFiles, testing::Values("gpt2-Q3_K_M", "llama-IQ4_XS", "llama-Q4_K_M"));

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

// One small matrix in each type, by ggml and by gguf-py.
TEST(GoldenVectors, DecodeToTheSameBits) {
  NIBBLE_NEEDS_SHARED("golden/exports/golden_vectors.json");
  const json golden = json::parse(read_file(shared_path("golden/exports/golden_vectors.json")));
  std::size_t checked = 0;
  for (const auto& [name, format] : golden["formats"].items()) {
    if (!name.starts_with("gguf ")) continue;
    SCOPED_TRACE(name);
    const std::string_view rest = std::string_view(name).substr(5);
    const auto type = find_block_type(rest.substr(0, rest.find(' ')));
    ASSERT_TRUE(type);
    const std::string blocks = from_hex(format["tensors"]["data"]["hex"]);
    std::vector<float> values(blocks.size() / type->bytes * type->weights);
    type->decode(reinterpret_cast<const std::byte*>(blocks.data()), blocks.size() / type->bytes, values.data());
    const std::string decoded = from_hex(format["decoded_float32_hex"]);
    ASSERT_EQ(decoded.size(), values.size() * sizeof(float));
    std::vector<float> expected(values.size());
    std::memcpy(expected.data(), decoded.data(), decoded.size());
    EXPECT_TRUE(test::same_bits(values, expected));
    ++checked;
  }
  EXPECT_GE(checked, 17u);
}

}  // namespace
}  // namespace nibble::model
