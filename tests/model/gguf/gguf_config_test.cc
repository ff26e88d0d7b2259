#include "model/gguf/gguf_config.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/text/json.h"
#include "model/architecture/families.h"
#include "model/architecture/published_configs.h"
#include "model/gguf/gguf_describe.h"
#include "model/gguf/gguf_names.h"
#include "model/gguf/gguf_network.h"
#include "model/gguf/gguf_rotary.h"
#include "tests/model/gguf/tiny_gguf.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using nlohmann::json;
using test::le;
using test::pair;
using test::TempDir;
using test::text;
using test::throws_with;
using test::u32;
using test::u64;
using test::write_file;

/// Metadata and tensors (F32, one row each) of one file.
struct Contents {
  std::string architecture = "llama";
  std::vector<std::string> pairs;
  std::vector<std::string> tensors;

  Contents() = default;
  explicit Contents(std::string name) : architecture(std::move(name)) {
    natural("block_count", 2).natural("context_length", 512).natural("embedding_length", 64);
    natural("feed_forward_length", 160).natural("attention.head_count", 4);
  }
  Contents& natural(std::string_view key, std::uint32_t value) {
    pairs.push_back(pair(architecture + "." + std::string(key), 4, u32(value)));
    return *this;
  }
  Contents& number(std::string_view key, float value) {
    pairs.push_back(pair(architecture + "." + std::string(key), 6, le(value)));
    return *this;
  }
  Contents& word(std::string_view key, std::string_view value) {
    pairs.push_back(pair(architecture + "." + std::string(key), 8, text(value)));
    return *this;
  }
  Contents& truth(std::string_view key, bool value) {
    pairs.push_back(pair(architecture + "." + std::string(key), 7, std::string(1, value ? '\1' : '\0')));
    return *this;
  }
  /// Keys as the writer has them, but for the architecture's name.
  Contents& add(const GgufMetadata& metadata) {
    for (const auto& [key, value] : metadata.items()) {
      if (!key.starts_with(architecture + ".")) continue;
      std::string bytes;
      value.append_to(bytes);
      pairs.push_back(pair(key, static_cast<std::uint32_t>(value.type()), bytes));
    }
    return *this;
  }
  Contents& tensor(std::string name) {
    tensors.push_back(std::move(name));
    return *this;
  }

  json config() const {
    const TempDir directory;
    std::vector<std::string> all{pair("general.architecture", 8, text(architecture))};
    all.insert(all.end(), pairs.begin(), pairs.end());
    std::vector<test::TinyGgufTensor> list{{"token_embd.weight", {4, 300}, 0, 0}};
    std::uint64_t offset = 4800;
    for (const std::string& name : tensors) {
      list.push_back({name, {8}, 0, offset});
      offset += 32;
    }
    std::string data(offset, '\0');
    for (std::size_t at = 4800; at < data.size(); at += 4) data.replace(at, 4, le(1.5f));
    write_file(directory / "m.gguf", test::gguf_bytes(all, list, data));
    return json::parse(gguf_config_json(*GgufFile::open(directory / "m.gguf")));
  }
};

Contents llama() { return Contents("llama").number("attention.layer_norm_rms_epsilon", 1e-5f); }

template <class... Words>
testing::AssertionResult refuses(const Contents& contents, Words... words) {
  return throws_with<FormatError>([&] { contents.config(); }, "m.gguf", words...);
}

TEST(GgufConfig, OfLlamaIsItsConfigJson) {
  Contents contents = llama().natural("attention.head_count_kv", 2).number("rope.freq_base", 500000.0f);
  contents.pairs.push_back(pair("tokenizer.ggml.bos_token_id", 4, u32(1)));
  contents.pairs.push_back(pair("tokenizer.ggml.eos_token_id", 4, u32(299)));
  const json config = contents.config();
  EXPECT_EQ(config, json::parse(R"({"model_type": "llama", "vocab_size": 300, "tie_word_embeddings": true,
      "bos_token_id": 1, "eos_token_id": 299, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 512, "intermediate_size": 160, "rms_norm_eps": 1e-05,
      "rope_theta": 500000.0, "attention_bias": false, "mlp_bias": false})"));
  const Architecture architecture = parse_architecture(config.dump(), "m.gguf");
  EXPECT_EQ(architecture.blocks.size(), 2u);
  EXPECT_EQ(architecture.blocks[0].attention.kv_heads, 2u);
}

// llama.cpp stops at the end of a text, of a turn and of a message.
TEST(GgufConfig, ListsEveryIdThatEndsAText) {
  const auto with = [](std::initializer_list<std::pair<const char*, std::string>> ids) {
    Contents contents = llama();
    for (const auto& [name, bytes] : ids)
      contents.pairs.push_back(pair(fmt::format("tokenizer.ggml.{}_token_id", name), bytes.size() == 4 ? 4 : 8, bytes));
    return contents;
  };
  EXPECT_EQ(with({{"eos", u32(2)}, {"eot", u32(7)}, {"eom", u32(5)}}).config()["eos_token_id"], json::array({2, 7, 5}));
  EXPECT_EQ(with({{"eos", u32(2)}, {"eom", u32(5)}}).config()["eos_token_id"], json::array({2, 5}));
  EXPECT_EQ(with({{"eos", u32(2)}, {"eot", u32(2)}}).config()["eos_token_id"], 2) << "none twice";
  EXPECT_EQ(with({{"eot", u32(299)}}).config()["eos_token_id"], 299);
  EXPECT_EQ(parse_architecture(with({{"eos", u32(2)}, {"eot", u32(7)}}).config().dump(), "m.gguf").stop_tokens,
            (std::vector<std::uint32_t>{2, 7}));
  EXPECT_EQ(with({{"eos", u32(2)}, {"eot", u32(300)}, {"eom", u32(0xFFFFFFFF)}}).config()["eos_token_id"], 2)
      << "an id without a row ends nothing, as bos and eos";
  EXPECT_TRUE(refuses(with({{"eot", text("<end>")}}), "'tokenizer.ggml.eot_token_id' should be a whole number"));
}

TEST(GgufConfig, AsksTheTensorsForWhatNoKeySays) {
  const json config = llama()
                          .natural("attention.key_length", 32)
                          .natural("attention.value_length", 32)
                          .tensor("output.weight")
                          .tensor("blk.0.attn_q.bias")
                          .tensor("blk.0.attn_output.bias")
                          .tensor("blk.0.ffn_up.bias")
                          .config();
  EXPECT_EQ(config["tie_word_embeddings"], false);
  EXPECT_EQ(config["attention_bias"], true);
  EXPECT_EQ(config["mlp_bias"], true);
  EXPECT_EQ(config["head_dim"], 32);
  EXPECT_EQ(config["num_key_value_heads"], 4);
  EXPECT_EQ(config["rope_theta"], 10000.0);
  EXPECT_TRUE(refuses(llama().tensor("blk.0.attn_q.bias"), "biases one without the other", "'llama'"));
}

TEST(GgufConfig, HasHowRotaryFrequenciesAreScaled) {
  EXPECT_FALSE(llama().config().contains("rope_scaling"));
  EXPECT_FALSE(llama().word("rope.scaling.type", "none").config().contains("rope_scaling"));
  EXPECT_EQ(llama().word("rope.scaling.type", "linear").number("rope.scaling.factor", 4.0f).config()["rope_scaling"],
            json::parse(R"({"rope_type": "linear", "factor": 4.0})"));
  EXPECT_EQ(llama().number("rope.scale_linear", 2.0f).config()["rope_scaling"]["factor"], 2.0) << "the key of 2023";
  EXPECT_EQ(llama()
                .word("rope.scaling.type", "yarn")
                .number("rope.scaling.factor", 32.0f)
                .natural("rope.scaling.original_context_length", 4096)
                .config()["rope_scaling"],
            json::parse(R"({"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096})"));
  const json factors = llama().tensor("rope_freqs.weight").config()["rope_scaling"];
  EXPECT_EQ(factors["rope_type"], "longrope");
  EXPECT_EQ(factors["short_factor"], json::array({1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5}));
  EXPECT_EQ(factors["long_factor"], factors["short_factor"]);
  EXPECT_EQ(factors["attention_factor"], 1.0);
  EXPECT_EQ(llama()
                .tensor("rope_freqs.weight")
                .number("rope.scaling.attn_factor", 1.25f)
                .config()["rope_scaling"]["attention_factor"],
            1.25);
  parse_architecture(llama().tensor("rope_freqs.weight").config().dump(), "m.gguf");  // 8 pairs of 16 elements
  EXPECT_TRUE(refuses(llama().word("rope.scaling.type", "warp"), "'llama.rope.scaling.type' is 'warp'"));
}

// llama.cpp asks for these in files of mistral3 alone (llama-model.cpp), and takes 32 and 1 in all others.
TEST(GgufConfig, HasBoundsOfYarnsRampWhereTheProgramReadsThem) {
  const auto bounds = [](const char* architecture) {
    const Architecture network = parse_architecture(Contents(architecture)
                                                        .number("attention.layer_norm_rms_epsilon", 1e-5f)
                                                        .word("rope.scaling.type", "yarn")
                                                        .number("rope.scaling.factor", 16.0f)
                                                        .natural("rope.scaling.original_context_length", 32)
                                                        .number("rope.scaling.yarn_beta_fast", 16.0f)
                                                        .number("rope.scaling.yarn_beta_slow", 2.0f)
                                                        .config()
                                                        .dump(),
                                                    "m.gguf");
    const RotaryScaling& scaling = network.blocks[0].attention.rotary->scaling;
    return std::pair(scaling.beta_fast, scaling.beta_slow);
  };
  EXPECT_EQ(bounds("mistral3"), std::pair(16.0, 2.0));
  EXPECT_EQ(bounds("llama"), std::pair(32.0, 1.0));
}

// llama.cpp multiplies sines and cosines by attn_factor · m(1), or · m(1) / m(multiplier) where a file of mistral3 has
// one: m(x) = 0.1 x ln(factor) + 1 (llama-context.cpp).
TEST(GgufConfig, HasWhatYarnMultipliesBy) {
  const auto yarn = [](const char* architecture) {
    return Contents(architecture)
        .number("attention.layer_norm_rms_epsilon", 1e-5f)
        .word("rope.scaling.type", "yarn")
        .number("rope.scaling.factor", 16.0f)
        .natural("rope.scaling.original_context_length", 32);
  };
  const auto magnitude = [](const Contents& contents) {
    const Architecture architecture = parse_architecture(contents.config().dump(), "m.gguf");
    return architecture.blocks[0].attention.rotary->scaling.magnitude;
  };
  constexpr double kRule = 1.2772588722239782;  // 0.1 ln(16) + 1
  const test::Bound tolerance{.rel = 1e-6};     // files hold floats
  EXPECT_TRUE(test::near(magnitude(yarn("llama")), kRule, tolerance));
  EXPECT_TRUE(test::near(magnitude(yarn("llama").number("rope.scaling.attn_factor", 0.5f)), 0.5 * kRule, tolerance));
  EXPECT_TRUE(test::near(magnitude(yarn("mistral3").number("rope.scaling.yarn_log_multiplier", 1.0f)), 1.0, tolerance));
  EXPECT_TRUE(test::near(
      magnitude(
          yarn("mistral3").number("rope.scaling.yarn_log_multiplier", 0.5f).number("rope.scaling.attn_factor", 2.0f)),
      2.0 * kRule / 1.1386294361119891, tolerance));
  EXPECT_TRUE(test::near(magnitude(yarn("llama")
                                       .number("rope.scaling.yarn_attn_factor", static_cast<float>(kRule))
                                       .number("rope.scaling.yarn_ext_factor", 1.0f)),
                         kRule, tolerance));
  EXPECT_TRUE(refuses(yarn("llama").number("rope.scaling.yarn_attn_factor", 1.0f),
                      "'llama.rope.scaling.yarn_attn_factor' is 1", "expected 1.2772"));
  EXPECT_TRUE(refuses(yarn("llama").number("rope.scaling.yarn_ext_factor", 0.5f), "yarn_ext_factor' is 0.5"));
  EXPECT_TRUE(refuses(yarn("llama").number("rope.scaling.attn_factor", 0.0f), "multiplied by 0"));
  EXPECT_TRUE(refuses(yarn("llama").number("rope.scaling.yarn_log_multiplier", 1.0f), "yarn_log_multiplier' is 1"));
  EXPECT_TRUE(refuses(yarn("llama").tensor("rope_freqs.weight"), "'llama.rope.scaling.type' is 'yarn'"));
}

// The writer's keys, read again: any magnitude comes back.
TEST(GgufConfig, HasTheMagnitudeThatWasWritten) {
  for (const double magnitude : {1.0, 0.75, 1.1386294361119891}) {
    Architecture architecture = parse_architecture(llama().config().dump(), "m.gguf");
    for (BlockSpec& block : architecture.blocks) {
      RotaryScaling& scaling = block.attention.rotary->scaling;
      scaling.kind = RotaryScaling::Kind::kYarn;
      scaling.factor = 4.0;
      scaling.original_context = 128;
      scaling.magnitude = magnitude;
    }
    GgufMetadata metadata;
    add_gguf_rotary(metadata, architecture, *find_gguf_architecture("llama"));
    Contents contents = llama();
    contents.add(metadata);
    const Architecture read = parse_architecture(contents.config().dump(), "m.gguf");
    EXPECT_TRUE(test::near(read.blocks[0].attention.rotary->scaling.magnitude, magnitude, {.rel = 1e-6}));
  }
}

// A file that llama.cpp would refuse is none that is written again.
TEST(GgufConfig, OfAFamilyWithoutRotaryFactorsIsNotWrittenAgain) {
  const auto with_factors = [](const char* name) {
    const json config =
        Contents(name).number("attention.layer_norm_rms_epsilon", 1e-6f).tensor("rope_freqs.weight").config();
    return parse_architecture(config.dump(), "m.gguf");
  };
  EXPECT_EQ(gguf_architecture_for(with_factors("llama")).name, "llama");
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { gguf_architecture_for(with_factors("qwen2")); },
                                           "llama.cpp's 'qwen2' does not compute a factor for each rotary frequency"));
}

// Nothing that the writer says is refused as unread.
TEST(GgufConfig, ReadsWhatIsWrittenOfPublishedModels) {
  std::size_t written = 0;
  for (const PublishedConfig& published : published_configs()) {
    SCOPED_TRACE(published.name);
    const Architecture architecture = parse_architecture(published.json, "config.json");
    if (find_gguf_architecture_of_family(architecture.family) == nullptr) continue;
    GgufMetadata metadata;
    describe_gguf(metadata, architecture, "m");
    Contents contents;
    contents.architecture = metadata.need_text("general.architecture");
    contents.add(metadata);
    for (const auto& [name, factors] : gguf_rotary_factors(architecture, gguf_architecture_for(architecture)))
      contents.tensor(name);
    EXPECT_NO_THROW(contents.config());
    ++written;
  }
  EXPECT_GE(written, 8u);
}

TEST(GgufConfig, RefusesSettingsThatAreNotComputed) {
  EXPECT_TRUE(refuses(llama().number("attention.temperature_scale", 0.1f), "'llama.attention.temperature_scale' is 0.1",
                      "not computed"));
  llama().number("attention.temperature_scale", 0.0f).natural("attention.temperature_length", 8192).config();
  EXPECT_TRUE(refuses(llama().number("rope.scaling.attn_factor", 1.5f), "'llama.rope.scaling.attn_factor' is 1.5"));
  EXPECT_TRUE(refuses(llama().tensor("rope_freqs.weight").number("rope.scaling.factor", 8.0f), "factor' is 8"));
  EXPECT_TRUE(refuses(llama().number("final_logit_softcapping", 30.0f), "final_logit_softcapping"));
  EXPECT_TRUE(refuses(llama().natural("attention.sliding_window", 128), "sliding_window' is 128"));
  EXPECT_TRUE(refuses(llama().natural("a_key_of_tomorrow", 1), "'llama.a_key_of_tomorrow' is 1"));
  EXPECT_TRUE(refuses(llama().word("a_key_of_tomorrow", "x"), "is 'x'"));
  Contents acausal = llama();
  acausal.pairs.push_back(pair("llama.attention.causal", 7, std::string(1, '\0')));
  EXPECT_TRUE(refuses(acausal, "'llama.attention.causal' is false"));
  const auto qwen = [] { return Contents("qwen2").number("attention.layer_norm_rms_epsilon", 1e-6f); };
  EXPECT_THROW(parse_architecture(qwen().natural("rope.dimension_count", 8).config().dump(), "m.gguf"), FormatError);
  EXPECT_TRUE(refuses(Contents("olmo").number("attention.layer_norm_epsilon", 1e-6f), "layer_norm_epsilon"));
  // What says nothing, or nothing new.
  EXPECT_EQ(llama()
                .natural("vocab_size", 300)
                .natural("rope.dimension_count", 16)
                .natural("expert_used_count", 0)
                .word("tensor_data_layout", "Meta AI original pth")
                .word("rope.scaling.type", "none")
                .number("rope.scaling.factor", 8.0f)
                .natural("vision.block_count", 27)
                .config(),
            llama().config());
}

TEST(GgufConfig, RefusesWindowsInOtherBlocks) {
  const auto gemma = [](std::string bits) {
    Contents contents = Contents("gemma3").number("attention.layer_norm_rms_epsilon", 1e-6f);
    contents.natural("attention.sliding_window", 128);
    contents.pairs.push_back(
        pair("gemma3.attention.sliding_window_pattern", 9, u32(7) + u64(bits.size()) + std::move(bits)));
    return contents;
  };
  EXPECT_EQ(gemma(std::string("\1\1", 2)).config()["sliding_window_pattern"], 6);
  EXPECT_TRUE(refuses(gemma(std::string("\1\0", 2)), "sliding_window_pattern", "but every 6th"));
}

TEST(GgufConfig, OfOtherFamiliesHasTheirWords) {
  const json gpt2 = Contents("gpt2").number("attention.layer_norm_epsilon", 1e-5f).config();
  EXPECT_EQ(gpt2, json::parse(R"({"model_type": "gpt2", "vocab_size": 300, "tie_word_embeddings": true, "n_embd": 64,
      "n_layer": 2, "n_head": 4, "n_positions": 512, "n_inner": 160, "layer_norm_epsilon": 1e-05})"));
  EXPECT_EQ(parse_architecture(gpt2.dump(), "m.gguf").blocks.size(), 2u);

  const json mixtral = llama().natural("expert_count", 8).natural("expert_used_count", 2).config();
  EXPECT_EQ(mixtral["model_type"], "mixtral");
  EXPECT_EQ(mixtral["num_local_experts"], 8);
  EXPECT_EQ(mixtral["num_experts_per_tok"], 2);

  const json neox =
      Contents("gptneox").number("attention.layer_norm_epsilon", 1e-5f).natural("rope.dimension_count", 4).config();
  EXPECT_EQ(neox["model_type"], "gpt_neox");
  EXPECT_EQ(neox["rotary_pct"], 0.25);
  EXPECT_FALSE(neox.contains("num_key_value_heads"));

  const json gemma2 = Contents("gemma2")
                          .number("attention.layer_norm_rms_epsilon", 1e-6f)
                          .natural("attention.key_length", 32)
                          .natural("attention.value_length", 32)
                          .number("attn_logit_softcapping", 50.0f)
                          .number("final_logit_softcapping", 30.0f)
                          .natural("attention.sliding_window", 128)
                          .config();
  EXPECT_EQ(gemma2["query_pre_attn_scalar"], 32);
  EXPECT_EQ(gemma2["sliding_window"], 128);
  EXPECT_EQ(gemma2["final_logit_softcapping"], 30.0);

  const json granite = Contents("granite")
                           .number("attention.layer_norm_rms_epsilon", 1e-6f)
                           .number("embedding_scale", 12.0f)
                           .number("residual_scale", 0.22f)
                           .number("logit_scale", 8.0f)
                           .number("attention.scale", 0.015625f)
                           .config();
  EXPECT_EQ(granite["residual_multiplier"], 0.22) << "the decimal that the float stands for";
  EXPECT_EQ(granite["logits_scaling"], 8.0);

  for (const char* const rms : {"qwen2", "qwen3", "olmo2", "smollm3", "exaone4", "glm4", "phi3", "gemma"})
    EXPECT_EQ(Contents(rms).number("attention.layer_norm_rms_epsilon", 1e-6f).config()["rms_norm_eps"], 1e-6) << rms;
  for (const char* const layer : {"phi2", "falcon", "bloom", "starcoder", "starcoder2", "stablelm", "nemotron"})
    EXPECT_EQ(Contents(layer).number("attention.layer_norm_epsilon", 1e-6f).config()["vocab_size"], 300) << layer;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Contents of_sigmoids(Contents contents) {
  return std::move(contents.natural("expert_count", 8)
                       .natural("expert_used_count", 2)
                       .natural("expert_feed_forward_length", 32)
                       .natural("expert_shared_count", 2));
}

Contents of_ernie_mixtures(Contents contents) {
  return std::move(contents.natural("expert_count", 8)
                       .natural("expert_used_count", 2)
                       .natural("expert_feed_forward_length", 32)
                       .natural("leading_dense_block_count", 1)
                       .natural("interleave_moe_layer_step", 1));
}

// Every key that is written is one that the family's own parser understands.
TEST(GgufConfig, IsUnderstoodByEveryFamily) {
  for (const GgufArchitecture& row : gguf_architectures()) {
    if (row.name == "starcoder") continue;  // a family that nothing computes yet
    SCOPED_TRACE(row.name);
    const bool all_heads = row.name == "bloom" || row.name == "gptneox" || row.name == "gpt2";
    Contents contents{std::string(row.name)};
    contents.natural("attention.head_count_kv", all_heads ? 4 : 2);
    contents.number("attention.layer_norm_rms_epsilon", 1e-6f);
    contents.number("attention.layer_norm_epsilon", row.name == "olmo" ? 1e-5f : 1e-6f);
    if (is_one_of(row.name, {"qwen2moe", "qwen3moe", "olmoe", "granitemoe", "gpt-oss", "minimax-m2"}))
      contents.natural("expert_count", 4).natural("expert_used_count", 2).natural("expert_feed_forward_length", 32);
    if (is_one_of(row.name, {"glm4moe", "dots1"})) contents = of_sigmoids(std::move(contents));
    if (row.name == "ernie4_5-moe") contents = of_ernie_mixtures(std::move(contents));
    if (row.name == "qwen2moe") contents.natural("expert_shared_feed_forward_length", 48);
    if (row.name == "gpt-oss") contents.word("rope.scaling.type", "yarn").number("rope.scaling.factor", 32.0f);
    if (row.window_every != 0 || is_one_of(row.name, {"phi3", "mistral3"}))
      contents.natural("attention.sliding_window", 128);
    if (is_one_of(row.name, {"command-r", "cohere2", "granite", "granitemoe"})) contents.number("logit_scale", 0.5f);
    if (is_one_of(row.name, {"granite", "granitemoe"}))
      contents.number("attention.scale", 0.25f).number("embedding_scale", 12.0f).number("residual_scale", 0.25f);
    contents.number("rope.freq_base", 20000.0f);
    contents.tensor("blk.0.attn_norm_2.weight").tensor("output.weight");
    const json config = contents.config();
    const Architecture architecture = parse_architecture(config.dump(), "m.gguf");
    EXPECT_EQ(architecture.blocks.size(), 2u);
    EXPECT_EQ(architecture.hidden, 64u);
    EXPECT_EQ(architecture.vocabulary, 300u);
    EXPECT_EQ(architecture.blocks[0].attention.heads, 4u);
    EXPECT_EQ(architecture.blocks[0].attention.kv_heads, all_heads ? 4u : 2u);
    EXPECT_EQ(architecture.blocks[0].attention.head_dim, 16u);
    if (architecture.blocks[0].attention.rotary) {
      EXPECT_TRUE(
          test::near(architecture.blocks[0].attention.rotary->base, row.name == "gemma3" ? 10000.0 : 20000.0, {}));
    }
    if (architecture.final_norm->gain) {
      EXPECT_TRUE(test::near(architecture.final_norm->epsilon, 1e-6, {}));
    }
  }
}

// Whether heads turn is said of Granite 4.0 alone; to llama.cpp it is the same in all Granites.
TEST(GgufConfig, OfGranite4SaysWhetherHeadsTurn) {
  const auto granite = [](std::string name) {
    return Contents(std::move(name)).number("attention.layer_norm_rms_epsilon", 1e-6f).number("logit_scale", 8.0f);
  };
  EXPECT_EQ(granite("granite").config()["model_type"], "granite");
  for (const bool turns : {true, false}) {
    const json config = granite("granite").truth("rope.scaling.finetuned", turns).config();
    EXPECT_EQ(config["model_type"], "granitemoehybrid");
    EXPECT_EQ(config["shared_intermediate_size"], 160);
    EXPECT_EQ(parse_architecture(config.dump(), "m.gguf").blocks[1].attention.rotary.has_value(), turns);
  }
  Contents mixture = granite("granitemoe").natural("expert_count", 4).natural("expert_used_count", 2);
  EXPECT_EQ(Contents(mixture).truth("rope.scaling.finetuned", true).config()["model_type"], "granitemoe");
  EXPECT_TRUE(refuses(mixture.truth("rope.scaling.finetuned", false), "'granitemoe.rope.scaling.finetuned' is false"));
}

// What transformers would take for them where nothing is said.
TEST(GgufConfig, SaysWhatFamiliesHaveDefaultsOfTheirOwnFor) {
  const auto of = [](std::string name) {
    return Contents(std::move(name)).number("attention.layer_norm_rms_epsilon", 1e-6f);
  };
  for (const char* const glm : {"chatglm", "glm4"}) {
    const json config = of(glm).natural("rope.dimension_count", 8).tensor("blk.0.attn_q.bias").config();
    EXPECT_TRUE(config.contains("pad_token_id") && config["pad_token_id"].is_null()) << glm;
    EXPECT_EQ(config["head_dim"], 16) << glm;
    EXPECT_EQ(config["partial_rotary_factor"], 0.5) << glm;
    EXPECT_EQ(config["attention_bias"], true) << glm;
  }
  EXPECT_EQ(of("ernie4_5").config()["head_dim"], 16);
  EXPECT_EQ(of("seed_oss").config()["head_dim"], 16);
  EXPECT_EQ(of("seed_oss").config()["attention_bias"], false);
  EXPECT_EQ(of("seed_oss").tensor("blk.0.attn_q.bias").config()["attention_bias"], true);
}

TEST(GgufConfig, OfSigmoidsSaysHowExpertsAreChosen) {
  const auto of = [](std::string name) {
    return of_sigmoids(Contents(std::move(name)).number("attention.layer_norm_rms_epsilon", 1e-6f));
  };
  const json bare = of("glm4moe").config();
  const json expected = {{"n_routed_experts", 8},
                         {"n_shared_experts", 2},
                         {"first_k_dense_replace", 0},
                         {"norm_topk_prob", false},
                         {"routed_scaling_factor", 1.0},
                         {"n_group", 1},
                         {"topk_group", 1},
                         {"use_qk_norm", false},
                         {"attention_bias", false},
                         {"partial_rotary_factor", 1.0},
                         {"num_nextn_predict_layers", 0},
                         {"num_hidden_layers", 2}};
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(bare.value(key, json("absent")), value) << key;

  const json full = of("glm4moe")
                        .natural("leading_dense_block_count", 1)
                        .truth("expert_weights_norm", true)
                        .number("expert_weights_scale", 2.5f)
                        .natural("expert_gating_func", 2)
                        .natural("expert_group_count", 4)
                        .natural("expert_group_used_count", 2)
                        .natural("rope.dimension_count", 8)
                        .tensor("blk.0.attn_q.bias")
                        .tensor("blk.0.attn_q_norm.weight")
                        .config();
  const Architecture a = parse_architecture(full.dump(), "m.gguf");
  EXPECT_TRUE(a.blocks[0].mlp && a.blocks[1].experts);
  EXPECT_EQ(a.blocks[1].experts->groups, 4u);
  EXPECT_EQ(a.blocks[1].experts->active_groups, 2u);
  EXPECT_TRUE(a.blocks[1].experts->renormalise);
  EXPECT_TRUE(test::near(a.blocks[1].experts->scale, 2.5, {}));
  EXPECT_EQ(a.blocks[1].experts->shared->intermediate(), 64u);
  EXPECT_TRUE(a.blocks[0].attention.q.biased && a.blocks[0].attention.q_norm);
  EXPECT_EQ(a.blocks[0].attention.rotary->dims, 8u);

  EXPECT_EQ(of("glm4moe").natural("nextn_predict_layers", 1).config()["num_hidden_layers"], 1)
      << "the last of what the file calls blocks guesses further ahead";
  EXPECT_EQ(of("glm4moe").natural("nextn_predict_layers", 3).config()["num_hidden_layers"], 0)
      << "of two blocks, which is no network";
  EXPECT_EQ(of("glm4moe").natural("expert_group_count", 1).config()["topk_group"], 1) << "how many of one is not asked";
  EXPECT_TRUE(of("dots1").config().at("sliding_window").is_null());
  for (const char* const name : {"glm4moe", "dots1"})
    EXPECT_TRUE(refuses(of(name).natural("expert_gating_func", 1), "expert_gating_func' is 1; expected 2"));
}

TEST(GgufConfig, OfMiniMaxHasSigmoidsWhoseWeightsSumToOne) {
  const auto of = [] {
    return Contents("minimax-m2")
        .number("attention.layer_norm_rms_epsilon", 1e-6f)
        .natural("expert_count", 8)
        .natural("expert_used_count", 3)
        .natural("expert_feed_forward_length", 32);
  };
  const Architecture a = parse_architecture(of().natural("rope.dimension_count", 8).config().dump(), "m.gguf");
  const model::ExpertsSpec& experts = *a.blocks[1].experts;
  EXPECT_EQ(experts.experts.size(), 8u);
  EXPECT_EQ(experts.active, 3u);
  EXPECT_EQ(experts.experts[7].down.in, 32u);
  EXPECT_EQ(experts.routing, model::ExpertsSpec::Routing::kSigmoidThenTop);
  EXPECT_TRUE(experts.renormalise);
  EXPECT_EQ(a.blocks[0].attention.head_dim, 16u);
  EXPECT_EQ(a.blocks[0].attention.rotary->dims, 8u);
  EXPECT_NO_THROW(of().natural("expert_gating_func", 2).truth("expert_weights_norm", true).config());
  EXPECT_TRUE(refuses(of().natural("expert_gating_func", 1), "'minimax-m2.expert_gating_func' is 1; expected 2"));
  EXPECT_TRUE(refuses(of().truth("expert_weights_norm", false), "'minimax-m2.expert_weights_norm' is false"));
  EXPECT_TRUE(refuses(of().number("expert_weights_scale", 2.5f), "'minimax-m2.expert_weights_scale' is 2.5"));
}

TEST(GgufConfig, OfErnieSaysWhichBlocksAreMixtures) {
  const auto of = [] {
    return of_ernie_mixtures(Contents("ernie4_5-moe").number("attention.layer_norm_rms_epsilon", 1e-6f));
  };
  const json bare = of().config();
  const json expected = {{"moe_num_experts", 8},
                         {"moe_k", 2},
                         {"moe_intermediate_size", 32},
                         {"moe_num_shared_experts", 0},
                         {"moe_layer_start_index", 1},
                         {"moe_use_aux_free", false},
                         {"head_dim", 16}};
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(bare.value(key, json("absent")), value) << key;

  const json full = of().natural("expert_shared_count", 2)
                        .natural("expert_shared_feed_forward_length", 64)
                        .tensor("blk.1.exp_probs_b.bias")
                        .config();
  const Architecture a = parse_architecture(full.dump(), "m.gguf");
  EXPECT_TRUE(a.blocks[0].mlp && a.blocks[1].experts->correction);
  EXPECT_EQ(a.blocks[1].experts->shared->intermediate(), 64u);

  EXPECT_TRUE(refuses(of().natural("expert_shared_feed_forward_length", 40), "width 40", "width 32"));
  EXPECT_TRUE(refuses(of().truth("expert_weights_norm", false), "'ernie4_5-moe.expert_weights_norm' is false"));
  Contents interleaved = of();
  interleaved.pairs.pop_back();
  EXPECT_TRUE(
      refuses(interleaved.natural("interleave_moe_layer_step", 2), "interleave_moe_layer_step' is 2; expected 1"));
}

TEST(GgufConfig, OfMinistral3SaysHowQueriesGrow) {
  const auto of = [](std::string name) {
    return Contents(std::move(name))
        .number("attention.layer_norm_rms_epsilon", 1e-6f)
        .word("rope.scaling.type", "yarn")
        .number("rope.scaling.factor", 16.0f)
        .number("rope.scaling.yarn_log_multiplier", 1.0f)
        .natural("rope.scaling.original_context_length", 32);
  };
  EXPECT_EQ(of("mistral3").config()["model_type"], "mistral");
  EXPECT_EQ(of("mistral3").number("attention.temperature_scale", 0.0f).config()["model_type"], "mistral");
  const json config = of("mistral3").number("attention.temperature_scale", 0.1f).config();
  EXPECT_EQ(config["model_type"], "ministral3");
  const Architecture a = parse_architecture(config.dump(), "m.gguf");
  const AttentionSpec& attention = a.blocks[1].attention;
  EXPECT_TRUE(test::near(attention.growth.by, 0.1, {})) << "the decimal that the float stands for";
  EXPECT_EQ(attention.growth.from, 32u);
  EXPECT_EQ(attention.head_dim, 16u);
  EXPECT_TRUE(test::near(attention.rotary->scaling.magnitude, 1.0, {.rel = 1e-6}));

  const auto unscaled = [](std::string name) {
    return Contents(std::move(name))
        .number("attention.layer_norm_rms_epsilon", 1e-6f)
        .number("attention.temperature_scale", 0.2f);
  };
  EXPECT_TRUE(refuses(unscaled("llama"), "'llama.attention.temperature_scale' is 0.2"));
  const json plain = unscaled("mistral3").config();
  const Architecture b = parse_architecture(plain.dump(), "m.gguf");
  EXPECT_EQ(b.blocks[0].attention.growth.from, 512u) << "the context";
}

TEST(GgufConfig, OfMixtralIsNotLlamas) {
  const json config = llama().natural("expert_count", 4).natural("expert_used_count", 2).config();
  EXPECT_EQ(parse_architecture(config.dump(), "m.gguf").blocks[0].experts->experts.size(), 4u);
}

TEST(GgufConfig, RefusesKeysThatAreMissingOrWrong) {
  EXPECT_TRUE(refuses(Contents(), "expected a key 'llama.embedding_length'"));
  EXPECT_TRUE(refuses(Contents("llama"), "'llama.attention.layer_norm_rms_epsilon' with a number"));
  EXPECT_TRUE(refuses(Contents("mamba"), "general.architecture is 'mamba'", "expected one of"));
  EXPECT_TRUE(refuses(llama().word("rope.freq_base", "many"), "'llama.rope.freq_base' should be a number"));
  EXPECT_TRUE(refuses(llama().number("rope.freq_base", std::numeric_limits<float>::infinity()), "is inf"));
  Contents wide = llama();
  wide.pairs.push_back(pair("llama.rope.freq_base", 12, le(std::bit_cast<std::uint64_t>(1e300))));
  EXPECT_TRUE(refuses(wide, "'llama.rope.freq_base' is 1e+300", "float32"));
  EXPECT_TRUE(refuses(llama().natural("attention.value_length", 8), "(16)", "(8)", "different sizes"));
  Contents layers = llama();
  layers.pairs.push_back(pair("llama.attention.head_count_kv", 9, u32(4) + u64(2) + u32(4) + u32(2)));
  EXPECT_TRUE(refuses(layers, "'llama.attention.head_count_kv' differs between layers"));
  layers.pairs.back() = pair("llama.attention.head_count_kv", 9, u32(4) + u64(2) + u32(2) + u32(2));
  EXPECT_EQ(layers.config()["num_key_value_heads"], 2);
  layers.pairs.back() = pair("llama.attention.head_count_kv", 9, u32(4) + u64(3) + u32(2) + u32(2) + u32(2));
  EXPECT_TRUE(refuses(layers, "one number for each of 2 layers, but has 3"));
}

}  // namespace
}  // namespace nibble::model
