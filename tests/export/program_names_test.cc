#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/text/json.h"
#include "export/export_checkpoint.h"
#include "model/architecture/families.h"
#include "tests/export/directory_support.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

// What the programs call the tensors, which families they run, and what config.json tells them.

namespace nibble::test {
namespace {

std::string gpt2_config() {
  return R"({"model_type": "gpt2", "vocab_size": 48, "n_positions": 24, "n_embd": 32, "n_layer": 2, "n_head": 2,
             "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05})";
}

// Experts in tensors of their own, and in stacks of gate and up in alternate rows stored (in, out).
std::string mixtral_config() {
  return R"({"model_type": "mixtral", "vocab_size": 48, "hidden_size": 32, "intermediate_size": 64,
             "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "num_local_experts": 3,
             "num_experts_per_tok": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
             "hidden_act": "silu", "tie_word_embeddings": false})";
}

void quantize_int4(const TempDir& dir, const std::string& more = "") {
  quantize(dir / "model", dir / "q", fmt::format("{{defaults: {{format: int4-block}}{}}}", more), {});
}

TEST(ProgramNames, OfGpt2HaveThePrefixOfEachProgram) {
  const TempDir dir;
  write_model(dir / "model", gpt2_config());
  quantize_int4(dir);
  export_to("mlx", dir / "q", dir / "mlx");
  const auto mlx = tensors_of(dir / "mlx");
  EXPECT_EQ(mlx.at("model.h.1.attn.c_attn.weight").shape, (std::vector<std::uint64_t>{96, 4}));
  EXPECT_EQ(mlx.at("model.h.1.attn.c_attn.bias").shape, (std::vector<std::uint64_t>{96}));
  EXPECT_EQ(mlx.at("model.wte.weight").shape, (std::vector<std::uint64_t>{48, 32}));
  EXPECT_TRUE(mlx.contains("model.ln_f.bias"));
  export_to("gptq", dir / "q", dir / "gptq");
  const auto gptq = tensors_of(dir / "gptq");
  EXPECT_EQ(gptq.at("transformer.h.0.mlp.c_proj.qweight").shape, (std::vector<std::uint64_t>{16, 32}));
  EXPECT_TRUE(gptq.contains("transformer.h.0.ln_1.weight"));
  EXPECT_TRUE(gptq.contains("transformer.wpe.weight"));
  for (const auto& tensors : {mlx, gptq})
    for (const auto& [name, tensor] : tensors)
      EXPECT_TRUE(name.starts_with("model.") || name.starts_with("transformer.")) << name;
}

TEST(ProgramNames, OfMatricesThatAreFloatsKeepTheProgramsOrientation) {
  const TempDir dir;
  write_model(dir / "model", gpt2_config());
  quantize_int4(dir, ", layers: [{match: 'mlp.c_fc', format: float16}]");
  export_to("mlx", dir / "q", dir / "mlx");
  EXPECT_EQ(tensors_of(dir / "mlx").at("model.h.0.mlp.c_fc.weight").shape, (std::vector<std::uint64_t>{128, 32}));
  export_to("gptq", dir / "q", dir / "gptq");
  EXPECT_EQ(tensors_of(dir / "gptq").at("transformer.h.0.mlp.c_fc.weight").shape,
            (std::vector<std::uint64_t>{32, 128}));
  const auto dynamic = config_json_of(dir / "gptq").at("quantization_config").at("dynamic");
  EXPECT_TRUE(dynamic.contains(R"(-:^transformer\.h\.1\.mlp\.c_fc$)"));
}

TEST(ProgramNames, OfExpertsAreStacksByRoleInMlx) {
  const TempDir dir;
  write_model(dir / "model", mixtral_config());
  quantize_int4(dir);
  export_to("mlx", dir / "q", dir / "out");
  const auto tensors = tensors_of(dir / "out");
  const std::string stack = "model.layers.1.block_sparse_moe.switch_mlp.";
  EXPECT_EQ(tensors.at(stack + "gate_proj.weight").shape, (std::vector<std::uint64_t>{3, 64, 4}));
  EXPECT_EQ(tensors.at(stack + "gate_proj.scales").shape, (std::vector<std::uint64_t>{3, 64, 1}));
  EXPECT_EQ(tensors.at(stack + "down_proj.biases").shape, (std::vector<std::uint64_t>{3, 32, 2}));
  EXPECT_EQ(tensors.at("model.layers.1.block_sparse_moe.gate.weight").dtype, "F16");
  for (const auto& [name, tensor] : tensors) EXPECT_EQ(name.find(".experts."), std::string::npos) << name;
  // Slice 2 is expert 2: the bytes of its codes.
  const auto quantized = tensors_of(dir / "q");
  const std::string& codes = quantized.at("model.layers.1.block_sparse_moe.experts.2.w3.codes").bytes;
  EXPECT_EQ(tensors.at(stack + "up_proj.weight").bytes.substr(2 * codes.size()), codes);
}

TEST(ProgramNames, AMixtureWithExpertsLeftFloatIsStackedAsFloats) {
  const TempDir dir;
  write_model(dir / "model", mixtral_config());
  quantize_int4(dir, ", layers: [{match: 'experts', format: float16}]");
  export_to("mlx", dir / "q", dir / "out");
  const auto tensors = tensors_of(dir / "out");
  const std::string stack = "model.layers.0.block_sparse_moe.switch_mlp.";
  EXPECT_EQ(tensors.at(stack + "down_proj.weight").shape, (std::vector<std::uint64_t>{3, 32, 64}));
  EXPECT_EQ(tensors.at(stack + "down_proj.weight").dtype, "F16");
  EXPECT_FALSE(tensors.contains(stack + "down_proj.scales"));
}

// mlx-lm's routers with a correction are no linear layers.
TEST(ProgramNames, ARouterWithACorrectionIsFloatInMlx) {
  const TempDir dir;
  nlohmann::json config = nlohmann::json::parse(llama_config());
  config.update({{"model_type", "dots1"},
                 {"n_routed_experts", 3},
                 {"num_experts_per_tok", 2},
                 {"n_shared_experts", 2},
                 {"moe_intermediate_size", 32},
                 {"first_k_dense_replace", 1}});
  write_model(dir / "model", config.dump());
  quantize_int4(dir);
  export_to("mlx", dir / "q", dir / "out");
  const auto tensors = tensors_of(dir / "out");
  const std::string mlp = "model.layers.1.mlp.";
  EXPECT_EQ(tensors.at(mlp + "experts.gate_proj.weight").shape, (std::vector<std::uint64_t>{3, 32, 8}));
  EXPECT_EQ(tensors.at(mlp + "shared_experts.up_proj.weight").shape, (std::vector<std::uint64_t>{64, 8}));
  EXPECT_EQ(tensors.at(mlp + "gate.e_score_correction_bias").shape, (std::vector<std::uint64_t>{3}));
  EXPECT_EQ(tensors.at(mlp + "gate.e_score_correction_bias").dtype, "F32") << "whatever the others are";
  EXPECT_EQ(tensors.at(mlp + "gate.weight").dtype, "F16");
  EXPECT_TRUE(tensors.contains("model.layers.0.mlp.gate_proj.scales"));
  export_to("dequantized", dir / "q", dir / "floats");
  EXPECT_EQ(tensors_of(dir / "floats").at(mlp + "gate.e_score_correction_bias").dtype, "F32");
  EXPECT_EQ(tensors_of(dir / "floats").at(mlp + "gate.weight").dtype, "F16");
  const std::string more = ", layers: [{match: 'mlp.gate.weight', format: int4-block}]";
  quantize_int4(dir, more);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { export_to("mlx", dir / "q", dir / "again"); },
                                           "model.layers.1.mlp.gate", "routers with a correction as floats"));
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] {
        exporting::require_exportable(exporting::find_exporter("mlx"), dir / "model",
                                      quant::Recipe::parse("{defaults: {format: int4-block}" + more + "}", "r"));
      },
      "model.layers.1.mlp.gate", "routers with a correction as floats"));
}

TEST(ProgramNames, FamiliesThatAProgramDoesNotRunAreRefusedWithTheReason) {
  const TempDir dir;
  write_model(dir / "model", gpt2_config());
  quantize_int4(dir);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { export_to("compressed-tensors", dir / "q", dir / "out"); },
                                           "family gpt2", "Conv1D"));
  write_model(dir / "model2", mixtral_config());
  quantize(dir / "model2", dir / "q", "defaults: {format: int4-block}", {});
  for (const std::string format : {"compressed-tensors", "gptq", "awq"})
    EXPECT_TRUE(
        throws_with<InvalidArgument>([&] { export_to(format, dir / "q", dir / "out"); }, "family mixtral", "experts"));
  EXPECT_FALSE(std::filesystem::exists(dir / "out"));
}

TEST(ProgramNames, FamiliesThatMlxDoesNotComputeAreRefusedWithTheReason) {
  const auto refuses = [](const std::string& family, bool tied, std::string_view why) {
    const nlohmann::json config{{"model_type", family},     {"vocab_size", 48},           {"hidden_size", 32},
                                {"intermediate_size", 64},  {"num_hidden_layers", 1},     {"num_attention_heads", 4},
                                {"num_key_value_heads", 4}, {"tie_word_embeddings", tied}};
    const auto architecture = model::parse_architecture(config.dump(), "config.json");
    return throws_with<InvalidArgument>([&] { exporting::find_exporter("mlx").require_known(architecture); },
                                        "family " + family, why);
  };
  EXPECT_TRUE(refuses("arcee", false, "no implementation"));
  EXPECT_TRUE(refuses("glm", false, "turns whole heads"));
  EXPECT_TRUE(refuses("seed_oss", true, "only with a head of its own"));
}

// What a user has to know of a family there is said by the export, and nothing of others.
TEST(ProgramNames, OfFamiliesThatGptqmodelDoesNotLoadTheExportSaysSo) {
  const TempDir dir;
  for (const std::string family : {"arcee", "glm", "llama"}) {
    SCOPED_TRACE(family);
    const nlohmann::json config{{"model_type", family},     {"vocab_size", 48},
                                {"hidden_size", 32},        {"intermediate_size", 64},
                                {"num_hidden_layers", 1},   {"num_attention_heads", 4},
                                {"num_key_value_heads", 4}, {"tie_word_embeddings", false}};
    const std::filesystem::path model = dir / family;
    write_model(model, config.dump());
    quantize(model, dir / (family + "-q"), "defaults: {format: int4-block}", {});
    const auto notes = [&](const std::string& format) {
      return fmt::format("{}", fmt::join(export_to(format, dir / (family + "-q"), dir / "out").written.notes, "; "));
    };
    EXPECT_EQ(notes("awq").find("computes something else") != std::string::npos, family == "glm") << notes("awq");
    EXPECT_EQ(notes("gptq").find("gptqmodel 7.7 does not load") != std::string::npos, family == "glm") << notes("gptq");
    EXPECT_EQ(notes("awq").find("its list lacks") != std::string::npos, family == "arcee") << notes("awq");
    EXPECT_EQ(notes("compressed-tensors"), "");
  }
}

// gate and up are halves of one matrix in the family's files.
TEST(ProgramNames, OfTheMlpOfGranite4AreThoseOfAnOrdinaryOneInMlx) {
  const TempDir dir;
  const nlohmann::json config{{"model_type", "granitemoehybrid"},
                              {"vocab_size", 48},
                              {"hidden_size", 32},
                              {"intermediate_size", 128},
                              {"num_hidden_layers", 1},
                              {"num_attention_heads", 4},
                              {"num_key_value_heads", 4},
                              {"layer_types", {"attention"}},
                              {"num_local_experts", 0},
                              {"shared_intermediate_size", 64}};
  write_model(dir / "model", config.dump());
  // The two halves may be stored differently, for they are matrices of their own there.
  quantize_int4(dir, ", layers: [{match: 'input_linear.*gate', format: uniform, bits: 8, group_size: 32}]");
  EXPECT_EQ(export_to("mlx", dir / "q", dir / "mlx").read_back.rounded, 0u);
  const auto tensors = tensors_of(dir / "mlx");
  const std::string mlp = "model.layers.0.mlp.";
  EXPECT_EQ(tensors.at(mlp + "gate_proj.weight").shape, (std::vector<std::uint64_t>{64, 8}));
  EXPECT_EQ(tensors.at(mlp + "up_proj.weight").shape, (std::vector<std::uint64_t>{64, 4}));
  EXPECT_EQ(tensors.at(mlp + "down_proj.scales").shape, (std::vector<std::uint64_t>{32, 2}));
  for (const auto& [name, tensor] : tensors) EXPECT_EQ(name.find("shared_mlp"), std::string::npos) << name;
  export_to("mlx", dir / "model", dir / "floats");
  EXPECT_EQ(tensors_of(dir / "floats").at(mlp + "up_proj.weight").shape, (std::vector<std::uint64_t>{64, 32}));
  quantize_int4(dir);
  export_to("gptq", dir / "q", dir / "gptq");
  EXPECT_TRUE(tensors_of(dir / "gptq").contains("model.layers.0.shared_mlp.input_linear.qweight"));
}

// What is not quantized is named as the program's own network has it: GPT-NeoX's head is embed_out.
TEST(ProgramNames, AHeadIsIgnoredUnderItsOwnName) {
  const TempDir dir;
  for (const bool tied : {false, true}) {
    const nlohmann::json config{{"model_type", "gpt_neox"},      {"hidden_size", 64},      {"num_hidden_layers", 1},
                                {"num_attention_heads", 4},      {"vocab_size", 48},       {"intermediate_size", 256},
                                {"max_position_embeddings", 32}, {"hidden_act", "gelu"},   {"rotary_pct", 0.5},
                                {"use_parallel_residual", true}, {"layer_norm_eps", 1e-5}, {"rotary_emb_base", 10000},
                                {"tie_word_embeddings", tied}};
    write_model(dir / "model", config.dump());
    quantize_int4(dir);
    export_to("compressed-tensors", dir / "q", dir / "out");
    EXPECT_EQ(config_json_of(dir / "out").at("quantization_config").at("ignore"), nlohmann::json{"embed_out"});
    EXPECT_EQ(tensors_of(dir / "out").contains("embed_out.weight"), !tied);
  }
}

TEST(ProgramNames, SettingsThatDifferStandInTheConfigurationByModule) {
  const TempDir dir;
  write_model(dir / "model", llama_config());
  quantize(dir / "model", dir / "q",
           "{defaults: {format: int4-block}, layers: [{match: 'o_proj', format: uniform, bits: 8, group_size: 32}, "
           "{match: 'layers.1.mlp.down_proj', format: float16}]}",
           {});
  const std::string o = "model.layers.0.self_attn.o_proj", down = "model.layers.1.mlp.down_proj";
  export_to("mlx", dir / "q", dir / "out");
  const auto mlx = config_json_of(dir / "out");
  EXPECT_EQ(mlx.at("quantization"), mlx.at("quantization_config"));
  EXPECT_EQ(mlx.at("quantization").at("bits"), 4);
  EXPECT_EQ(mlx.at("quantization").at(o).at("bits"), 8);
  EXPECT_FALSE(mlx.at("quantization").contains(down));
  export_to("compressed-tensors", dir / "q", dir / "out");
  const auto compressed = config_json_of(dir / "out").at("quantization_config");
  EXPECT_EQ(compressed.at("ignore"), (nlohmann::json{down, "lm_head"}));
  EXPECT_EQ(compressed.at("config_groups").at("group_0").at("targets"), nlohmann::json{"Linear"});
  EXPECT_EQ(compressed.at("config_groups").at("group_1").at("targets"),
            (nlohmann::json{o, "model.layers.1.self_attn.o_proj"}));
  EXPECT_EQ(compressed.at("config_groups").at("group_1").at("weights").at("num_bits"), 8);
  export_to("gptq", dir / "q", dir / "out");
  const auto gptq = config_json_of(dir / "out").at("quantization_config");
  EXPECT_EQ(gptq.at("checkpoint_format"), "gptq");
  EXPECT_EQ(gptq.at("desc_act"), false);
  EXPECT_EQ(gptq.at("dynamic").at(R"(+:^model\.layers\.0\.self_attn\.o_proj$)"),
            (nlohmann::json{{"bits", 8}, {"group_size", 32}}));
  EXPECT_EQ(gptq.at("dynamic").at(R"(-:^model\.layers\.1\.mlp\.down_proj$)"), nlohmann::json::object());
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { export_to("awq", dir / "q", dir / "out"); }, "8", "o_proj"));
}

// vLLM makes one layer of q, k and v and one of gate and up, and looks for the settings of that.
TEST(ProgramNames, LayersThatVllmFusesFindTheirSettings) {
  const TempDir dir;
  write_model(dir / "model", llama_config());
  quantize(dir / "model", dir / "q",
           "{defaults: {format: int4-block}, layers: [{match: 'layers.0.*(q|k|v)_proj', format: uniform, bits: 8, "
           "group_size: 32}, "
           "{match: 'layers.1.*(gate|up)_proj', format: float16}, {match: 'layers.0.mlp.up_proj', format: float16}]}",
           {});
  export_to("compressed-tensors", dir / "q", dir / "out");
  const auto groups = config_json_of(dir / "out").at("quantization_config").at("config_groups");
  // No "Linear", which vLLM finds in "QKVParallelLinear" before it looks at the parts.
  EXPECT_EQ(groups.at("group_0").at("targets").size(), 8u) << groups.at("group_0").at("targets");
  EXPECT_EQ(groups.at("group_0").at("targets")[0], "model.layers.0.self_attn.o_proj");
  EXPECT_EQ(groups.at("group_1").at("targets").size(), 3u);
  EXPECT_EQ(groups.at("group_1").at("weights").at("num_bits"), 8);
  export_to("gptq", dir / "q", dir / "out");
  const auto dynamic = config_json_of(dir / "out").at("quantization_config").at("dynamic");
  EXPECT_EQ(dynamic.at(R"(+:^model\.layers\.0\.self_attn\.qkv_proj$)").at("bits"), 8);
  EXPECT_FALSE(dynamic.contains(R"(+:^model\.layers\.1\.self_attn\.qkv_proj$)")) << "as usual";
  EXPECT_TRUE(dynamic.contains(R"(-:^model\.layers\.1\.mlp\.gate_up_proj$)"));
  EXPECT_FALSE(dynamic.contains(R"(-:^model\.layers\.0\.mlp\.gate_up_proj$)")) << "its parts differ";
  EXPECT_FALSE(dynamic.contains(R"(+:^model\.layers\.0\.mlp\.gate_up_proj$)"));
}

TEST(ProgramNames, AwqRepeatsScalesWhereBlocksDiffer) {
  const TempDir dir;
  write_model(dir / "model", llama_config());
  quantize(dir / "model", dir / "q",
           "{defaults: {format: int4-block, group_size: 32}, layers: [{match: 'o_proj', group_size: 64}, "
           "{match: 'q_proj', format: uniform, bits: 4, group_size: 0}]}",
           {});
  export_to("awq", dir / "q", dir / "out");
  EXPECT_EQ(config_json_of(dir / "out").at("quantization_config").at("group_size"), 32);
  EXPECT_EQ(tensors_of(dir / "out").at("model.layers.0.self_attn.q_proj.scales").shape,
            (std::vector<std::uint64_t>{2, 64}));
}

TEST(ProgramNames, EmbeddingsAndHeadsGoWhereTheFormatHoldsThem) {
  const TempDir dir;
  write_model(dir / "model", llama_config());
  quantize_int4(dir, ", layers: [{match: 'embed_tokens|lm_head', format: int4-block}]");
  export_to("mlx", dir / "q", dir / "out");
  EXPECT_TRUE(tensors_of(dir / "out").contains("model.embed_tokens.scales"));
  for (const std::string format : {"compressed-tensors", "gptq", "awq"}) {
    EXPECT_TRUE(
        throws_with<InvalidArgument>([&] { export_to(format, dir / "q", dir / "out"); }, "'model.embed_tokens'"));
    const auto result = export_to(format, dir / "q", dir / "out", {.rest = exporting::Rest::kFloat16});
    EXPECT_EQ(result.as_floats.size(), format == "awq" ? 2u : 1u) << format;
    EXPECT_EQ(tensors_of(dir / "out").at("model.embed_tokens.weight").dtype, "F16");
  }
  export_to("gptq", dir / "q", dir / "out", {.rest = exporting::Rest::kFloat16});
  EXPECT_EQ(config_json_of(dir / "out").at("quantization_config").at("lm_head"), true);
}

TEST(ProgramNames, BiasesThatShiftingAddsAreThereWhereTheFamilyCanHaveThem) {
  const TempDir dir;
  write_model(dir / "model", llama_config());
  quantize_int4(dir);
  auto tensors = tensors_of(dir / "q");
  const std::string name = "model.layers.0.self_attn.k_proj.bias";
  tensors[name] = f16_tensor(name, {8}, std::vector<float>(8, 0.5f));
  replace_tensors(dir / "q", tensors);
  export_to("mlx", dir / "q", dir / "out");
  EXPECT_EQ(config_json_of(dir / "out").at("attention_bias"), true);
  EXPECT_TRUE(tensors_of(dir / "out").contains("model.layers.1.self_attn.o_proj.bias"));
}

TEST(ProgramNames, OfAFamilyOfACallerAreRefused) {
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [] {
        model::Architecture architecture;
        architecture.family = "quilt";
        exporting::find_exporter("mlx").require_known(architecture);
      },
      "family quilt", "nobody tried it"));
}

}  // namespace
}  // namespace nibble::test
