#include "quant/job/quantize_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/random.h"
#include "core/text/json.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weights.h"
#include "quant/algo/blocks/block_rounding.h"
#include "quant/algo/palettes/palettize.h"
#include "quant/store/load_model.h"
#include "quant/store/quantization_config.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/layers.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::TempDir;

Recipe recipe(std::string_view yaml) { return Recipe::parse(yaml, "recipe"); }

QuantizeResult quantize(const std::filesystem::path& model, const std::filesystem::path& output, const Recipe& with,
                        bool overwrite = false) {
  return quantize_model({.model = model, .output = output, .recipe = with, .overwrite = overwrite, .progress = {}});
}

// A whole weight (out, in) of a float or quantized checkpoint.
Matrix<float> weight(const std::filesystem::path& directory, const std::string& module, std::size_t out,
                     std::size_t in) {
  const auto checkpoint = model::Checkpoint::open(directory);
  const auto values = test::values_of(*make_weight_provider(checkpoint), checkpoint->architecture(), module);
  Matrix<float> w(out, in);
  EXPECT_EQ(values.size(), w.size());
  std::copy(values.begin(), values.end(), w.data());
  return w;
}

// What the palette method says of rows [begin, end) of `w`.
Matrix<float> palettized(const Matrix<float>& w, std::size_t begin, std::size_t end, unsigned bits,
                         std::size_t group_rows) {
  const auto rows = w.view().rows_slice(begin, end - begin);
  const auto result = palettize(rows, {}, {.bits = bits, .group_rows = group_rows});
  Matrix<float> values(end - begin, w.cols());
  for (std::size_t i = 0; i < values.rows(); ++i)
    for (std::size_t j = 0; j < values.cols(); ++j)
      values(i, j) = result.palettes(group_rows == 0 ? 0 : i / group_rows, result.codes(i, j));
  return values;
}

TEST(QuantizedGpt2, DecodesToExactlyWhatTheMethodComputedForQKAndVApart) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  quantize(dir / "model", dir / "out", recipe("defaults: {bits: 3}"));
  const auto before = weight(dir / "model", "h.1.attn.c_attn", 48, 16);
  const auto after = weight(dir / "out", "h.1.attn.c_attn", 48, 16);
  for (std::size_t part = 0; part < 3; ++part) {
    const auto expected = palettized(before, part * 16, part * 16 + 16, 3, 0);
    EXPECT_TRUE(test::same_bits(after.values().subspan(part * 256, 256), expected.values())) << "part " << part;
  }
}

TEST(QuantizedLlama, DecodesToExactlyWhatTheMethodComputed) {
  const TempDir dir;
  test::tiny_llama(test::bf16_tensor).write(dir / "model");
  quantize(dir / "model", dir / "channel", recipe("defaults: {bits: 2, granularity: channel}"));
  const auto before = weight(dir / "model", "model.layers.0.mlp.up_proj", 27, 16);
  EXPECT_TRUE(test::same_bits(weight(dir / "channel", "model.layers.0.mlp.up_proj", 27, 16).values(),
                              palettized(before, 0, 27, 2, 1).values()));
  quantize(dir / "model", dir / "group", recipe("defaults: {bits: 2, granularity: channel-group, group_size: 4}"));
  EXPECT_TRUE(test::same_bits(weight(dir / "group", "model.layers.0.mlp.up_proj", 27, 16).values(),
                              palettized(before, 0, 27, 2, 4).values()));

  // down_proj has 27 inputs: a short last block.
  quantize(dir / "model", dir / "block",
           recipe("defaults: {format: uniform, bits: 5, group_size: 16, zero_point: true}"));
  const auto down = weight(dir / "model", "model.layers.1.mlp.down_proj", 16, 27);
  const auto blocks = round_blocks(down, {.bits = 5, .block = 16, .scale = BlockScale::kMinmax});
  Matrix<float> expected(16, 27);
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 27; ++j)
      expected(i, j) = static_cast<float>(blocks.codes(i, j) - blocks.zeros(i, j / 16)) * blocks.scales(i, j / 16);
  EXPECT_TRUE(
      test::same_bits(weight(dir / "block", "model.layers.1.mlp.down_proj", 16, 27).values(), expected.values()));
}

TEST(QuantizeModel, EveryDataFreeFormatWritesAModelThatLoadsAndRuns) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "gpt2");
  test::tiny_llama().write(dir / "llama");
  std::vector<std::string> sections{"{format: float16}"};
  for (const int bits : {1, 2, 3, 4, 5, 6, 7, 8})
    for (const auto granularity : {"tensor", "channel-group", "channel"})
      sections.push_back(fmt::format("{{bits: {}, granularity: {}}}", bits, granularity));
  sections.emplace_back("{palette_dtype: float32}");
  for (int bits = 2; bits <= 8; ++bits) {
    sections.push_back(fmt::format("{{format: uniform, bits: {}}}", bits));
    sections.push_back(fmt::format("{{format: uniform, bits: {}, group_size: 32, zero_point: true}}", bits));
  }
  for (const auto scale : {"extreme-8", "absmax-7", "absmax-7.5"})
    sections.push_back(fmt::format("{{format: int4-block, int4_scale: {}}}", scale));
  sections.emplace_back("{format: int4-block, int4_scale: minmax, zero_point: true}");
  sections.emplace_back("{format: int4-block, search: error}");
  sections.emplace_back("{format: uniform, bits: 3, zero_point: true, search: error}");
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const std::string model = i % 2 == 0 ? "gpt2" : "llama";
    SCOPED_TRACE(model + " " + sections[i]);
    const auto result = quantize(dir / model, dir / "out", recipe("defaults: " + sections[i]), true);
    const auto logits = test::logits_of_model(dir / "out");
    EXPECT_EQ(logits.size(), 20u * 40u);
    const auto loaded = load_model(dir / "out");
    EXPECT_EQ(loaded.bits_per_weight, result.bits_per_weight) << "what was written and what is counted";
    EXPECT_EQ(loaded.model_bits_per_weight, result.model_bits_per_weight);
    EXPECT_FALSE(std::filesystem::exists(dir / "out.partial"));
  }
}

TEST(QuantizeModel, ManyBitsGiveNearlyTheLogitsOfTheModel) {
  const TempDir dir;
  test::tiny_llama().write(dir / "llama");
  test::tiny_gpt2().write(dir / "gpt2");
  for (const auto model : {"llama", "gpt2"}) {
    quantize(dir / model, dir / "out", recipe("defaults: {bits: 8, granularity: channel}"), true);
    // A row has at most 64 values, fewer than 256 entries: every weight is kept, and all are float16 values.
    EXPECT_TRUE(test::same_bits(test::logits_of_model(dir / "out"), test::logits_of_model(dir / model))) << model;
  }
}

TEST(QuantizeModel, ReportsWhatItDid) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  const auto result = quantize(dir / "model", dir / "out", recipe("defaults: {bits: 4}"));
  std::vector<std::string> names;
  for (const auto& tensor : result.tensors) names.push_back(tensor.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"h.0.attn.c_attn.q", "h.0.attn.c_attn.k", "h.0.attn.c_attn.v", "h.0.attn.c_proj",
                                      "h.0.mlp.c_fc", "h.0.mlp.c_proj", "h.1.attn.c_attn.q", "h.1.attn.c_attn.k",
                                      "h.1.attn.c_attn.v", "h.1.attn.c_proj", "h.1.mlp.c_fc", "h.1.mlp.c_proj"}));
  const auto& q = result.tensors.front();
  EXPECT_EQ(q.format, "palette");
  EXPECT_EQ(q.weights, 256u);
  EXPECT_EQ(q.stored_bits, 256u * 4 + 16 * 16);
  EXPECT_EQ(q.bits_per_weight, 5.0);
  const auto before = weight(dir / "model", "h.0.attn.c_attn", 48, 16);
  const auto after = weight(dir / "out", "h.0.attn.c_attn", 48, 16);
  double error = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < 256; ++i) {
    error += std::pow(static_cast<double>(before.data()[i]) - static_cast<double>(after.data()[i]), 2);
    norm += std::pow(static_cast<double>(before.data()[i]), 2);
  }
  // The same sum in the same order; 1e-12 covers pow against a product.
  EXPECT_TRUE(test::near(q.relative_weight_error, std::sqrt(error / norm), {.rel = 1e-12}));
  EXPECT_LT(q.relative_weight_error, 0.15) << "4 bits keep most of a normal distribution";
  EXPECT_GT(q.relative_weight_error, 0.0);
  EXPECT_LE(q.optimality_gap, 1e-6);

  // 2 blocks: 12 palettes, 2 * (3 * 256 + 256 + 1024 + 1024) weights of 4 bits.
  const double weights = 2.0 * 3072, bits = weights * 4 + 12 * 256;
  EXPECT_EQ(result.bits_per_weight, bits / weights);
  const auto report = nlohmann::json::parse(test::read_file(dir / "out" / "quantization.json"));
  EXPECT_EQ(report.at("tensors").size(), 12u);
  EXPECT_EQ(report.at("bits_per_weight").get<double>(), result.bits_per_weight);
  EXPECT_EQ(report.at("tensors")[0].at("relative_weight_error").get<double>(), q.relative_weight_error);
  const auto config = nlohmann::json::parse(test::read_file(dir / "out" / "config.json"));
  const auto& quantization = config.at("quantization_config");
  EXPECT_EQ(quantization.at("quant_method"), "nibble");
  EXPECT_EQ(quantization.at("recipe").at("defaults").at("bits"), 4);
  EXPECT_EQ(quantization.at("fingerprints").at("checkpoint"), model::Checkpoint::open(dir / "model")->fingerprint());
  EXPECT_EQ(config.at("n_embd"), 16) << "the rest of config.json stays";
}

TEST(QuantizeModel, LeavesEverythingElseAsItIs) {
  const TempDir dir;
  test::tiny_gpt2(test::f16_tensor).write(dir / "model");
  quantize(dir / "model", dir / "out", recipe("defaults: {bits: 4}"));
  const auto before = model::Checkpoint::open(dir / "model"), after = model::Checkpoint::open(dir / "out");
  for (const auto name : {"wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.1.attn.c_attn.bias", "ln_f.bias"}) {
    const auto old_tensor = before->tensor(name), new_tensor = after->tensor(name);
    EXPECT_EQ(old_tensor.dtype, new_tensor.dtype);
    EXPECT_TRUE(std::ranges::equal(old_tensor.data, new_tensor.data)) << name;
  }
  EXPECT_FALSE(after->contains("h.0.attn.c_attn.weight"));
}

TEST(QuantizeModel, CopiesWhatTravelsWithAModel) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  test::write_file(dir / "model" / "tokenizer.json", "{}");
  test::write_file(dir / "model" / "LICENSE", "free");
  test::write_file(dir / "model" / "pytorch_model.bin", "not this");
  quantize(dir / "model", dir / "out", Recipe());
  const auto files = test::files_of(dir / "out");
  EXPECT_EQ(files.at("tokenizer.json"), "{}");
  EXPECT_EQ(files.at("LICENSE"), "free");
  EXPECT_EQ(files.size(), 5u) << "config.json, model.safetensors, quantization.json and these two";
}

TEST(QuantizeModel, UnderstandsPrefixedNamesMasksAndAStoredTiedHead) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "plain");
  auto model = test::tiny_gpt2(test::f32_tensor, "transformer.");
  model.tensors.push_back(test::f32_tensor("transformer.h.0.attn.bias", {1, 1, 24, 24}, std::vector<float>(576, 1.0f)));
  model.tensors.push_back(test::f32_tensor("transformer.h.0.attn.masked_bias", {}, std::vector<float>(1, -1e4f)));
  model.tensors.push_back(test::f32_tensor("lm_head.weight", {40, 16}, std::vector<float>(640, 1.0f)));
  model.write(dir / "prefixed");
  const auto plain = quantize(dir / "plain", dir / "a", Recipe());
  const auto prefixed = quantize(dir / "prefixed", dir / "b", Recipe());
  EXPECT_EQ(test::read_file(dir / "a" / "model.safetensors"), test::read_file(dir / "b" / "model.safetensors"));
  EXPECT_EQ(plain.model_bits_per_weight, prefixed.model_bits_per_weight);
}

// Scales of other programs lie under names that parts of a coded weight have in the output.
TEST(QuantizeModel, LeavesOutWhatWouldBeTakenForAPartOfItsCodes) {
  const TempDir dir;
  test::tiny_llama().write(dir / "plain");
  auto model = test::tiny_llama();
  const std::string layer = "model.layers.0.self_attn.k_proj";
  for (const char* part : {".scale", ".k_scale", ".palette", ".codes"})
    model.tensors.push_back(test::f16_tensor(layer + part, {8}, std::vector<float>(8, 3.0f)));
  model.tensors.push_back(test::f16_tensor("speech.codes", {8}, std::vector<float>(8, 3.0f)));
  model.write(dir / "odd");
  EXPECT_TRUE(test::same_bits(test::logits_of_model(dir / "odd"), test::logits_of_model(dir / "plain")));
  quantize(dir / "plain", dir / "a", Recipe());
  quantize(dir / "odd", dir / "b", Recipe());
  EXPECT_TRUE(test::same_bits(test::logits_of_model(dir / "b"), test::logits_of_model(dir / "a")));
  const auto written = model::Checkpoint::open(dir / "b");
  for (const std::string& name : written->tensor_names())
    EXPECT_TRUE(!name.starts_with(layer + ".") || name == layer + ".codes" || name == layer + ".palette") << name;
}

// A dequantized export of a model with shifted biases, say, of a family without a key for them.
TEST(QuantizeModel, CountsBiasesAsItsOwnOnlyWhereTheCheckpointHadNone) {
  const TempDir dir;
  auto model = test::tiny_llama(test::f16_tensor);
  auto config = nlohmann::json::parse(model.config_json);
  config["model_type"] = "mistral";
  model.config_json = config.dump();
  const std::string bias = "model.layers.0.self_attn.o_proj.bias";
  model.tensors.push_back(test::f16_tensor(bias, {16}, std::vector<float>(16, 0.5f)));
  model.write(dir / "model");
  EXPECT_EQ(load_model(dir / "model").bits_per_weight, 16.0);
  test::write_calibration(dir / "calib.h5", dir / "model");
  for (const char* shifting : {"false", "true"}) {
    const auto result =
        quantize_model({.model = dir / "model",
                        .output = dir / "out",
                        .recipe = recipe(std::string("defaults: {bits: 4, shifting: ") + shifting + "}"),
                        .calibration = {dir / "calib.h5"},
                        .overwrite = true,
                        .progress = {}});
    EXPECT_EQ(load_model(dir / "out").bits_per_weight, result.bits_per_weight) << shifting;
    const auto written = model::Checkpoint::open(dir / "out");
    const auto stored = parse_quantization_config(written->metadata(), "config.json");
    EXPECT_EQ(stored.value().kept_biases, std::set<std::string>{bias});
    EXPECT_TRUE(written->contains(bias));
  }
}

TEST(Rules, GiveTensorsFormatsOfTheirOwn) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  const auto result = quantize(dir / "model", dir / "out", recipe(R"(
defaults: {bits: 4}
layers:
  - {match: 'h\.0\.attn\.c_attn\.v', format: float16}
  - {match: 'h\.0\.attn\.c_attn', bits: 2}
  - {match: 'h\.1\.attn\.c_attn', format: float16}
  - {match: 'mlp\.c_proj', format: int4-block}
  - {match: 'wte', bits: 8}
  - {match: 'ln_f', format: float16}
  - {match: 'wpe', format: float16}
  - {match: 'embed_tokens', bits: 3}
)"));
  const auto checkpoint = model::Checkpoint::open(dir / "out");
  EXPECT_TRUE(checkpoint->contains("h.0.attn.c_attn.q.codes"));
  EXPECT_EQ(checkpoint->tensor("h.0.attn.c_attn.v.weight").dtype, DType::kF16);
  EXPECT_EQ(checkpoint->tensor("h.1.attn.c_attn.weight").shape, (std::vector<std::uint64_t>{16, 48}))
      << "float16 keeps the orientation of GPT-2";
  EXPECT_TRUE(checkpoint->contains("h.0.mlp.c_proj.block_scale"));
  EXPECT_TRUE(checkpoint->contains("wte.codes"));
  EXPECT_EQ(checkpoint->tensor("ln_f.weight").dtype, DType::kF16);
  EXPECT_EQ(checkpoint->tensor("wpe.weight").dtype, DType::kF16);
  EXPECT_EQ(checkpoint->tensor("h.0.ln_1.weight").dtype, DType::kF32);
  EXPECT_EQ(result.unused_rules, std::vector<std::string>{"embed_tokens"});
  EXPECT_EQ(result.tensors.back().name, "wpe");

  // All values are float16 values, so what float16 keeps is kept exactly.
  const auto before = weight(dir / "model", "h.0.attn.c_attn", 48, 16);
  const auto after = weight(dir / "out", "h.0.attn.c_attn", 48, 16);
  EXPECT_TRUE(test::same_bits(after.values().subspan(512), before.values().subspan(512)));
  EXPECT_TRUE(test::same_bits(after.values().first(256), palettized(before, 0, 16, 2, 0).values()));
  const auto embedding = weight(dir / "model", "wte", 40, 16);
  EXPECT_TRUE(
      test::same_bits(weight(dir / "out", "wte", 40, 16).values(), palettized(embedding, 0, 40, 8, 0).values()));
  EXPECT_EQ(load_model(dir / "out").bits_per_weight, result.bits_per_weight);
  EXPECT_EQ(load_model(dir / "out").method, "mixed");
  EXPECT_EQ(test::logits_of_model(dir / "out").size(), 800u) << "the tied head follows its quantized embedding";
}

TEST(Rules, ThatApplyToNoTensorAreNamed) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  // Norms and biases can become float16, and nothing else.
  const auto result = quantize(dir / "model", dir / "out", recipe(R"(
layers:
  - {match: 'mpl', bits: 2}
  - {match: 'h\.0\.ln_1|h\.0\.mlp\.c_fc\.bias', bits: 3}
  - {match: 'ln_f|h\.1\.mlp\.c_fc\.weight', bits: 3}
  - {match: 'h\.1\.ln_1|h\.1\.mlp\.c_fc\.bias', format: float16}
  - {match: '.', bits: 4}
)"));
  const std::vector<std::string> unused{"mpl", R"(h\.0\.ln_1|h\.0\.mlp\.c_fc\.bias)"};
  EXPECT_EQ(result.unused_rules, unused);
  EXPECT_EQ(nlohmann::json::parse(test::read_file(dir / "out" / "quantization.json"))["unused_rules"], unused);
  const auto checkpoint = model::Checkpoint::open(dir / "out");
  EXPECT_EQ(checkpoint->tensor("h.0.ln_1.weight").dtype, DType::kF32);
  EXPECT_EQ(checkpoint->tensor("h.1.ln_1.weight").dtype, DType::kF16);
  const auto broad = quantize(dir / "model", dir / "broad", recipe("layers: [{match: '.', bits: 4}]"));
  EXPECT_TRUE(broad.unused_rules.empty());
  EXPECT_EQ(test::read_file(dir / "broad" / "quantization.json").find("unused_rules"), std::string::npos);
}

TEST(Rules, QuantizeAnUntiedHead) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  const auto result = quantize(dir / "model", dir / "out", recipe("layers: [{match: lm_head, bits: 6}]"));
  EXPECT_EQ(result.tensors.back().name, "lm_head");
  EXPECT_EQ(load_model(dir / "out").method, "palette 4-bit tensor") << "the head is no linear layer of the blocks";
  EXPECT_EQ(test::logits_of_model(dir / "out").size(), 800u);
}

TEST(QuantizeModel, GivesTheSameBytesWithAnyNumberOfThreads) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  const auto with = recipe("{defaults: {bits: 3}, layers: [{match: mlp, format: int4-block}]}");
  std::map<std::string, std::string> first;
  for (const std::size_t threads : {1u, 2u, 5u}) {
    set_thread_count(threads);
    quantize(dir / "model", dir / "out", with, true);
    const auto files = test::files_without_times(dir / "out");
    if (first.empty()) first = files;
    EXPECT_EQ(files, first) << threads << " threads";
  }
  set_thread_count(0);
}

TEST(QuantizeModel, ReportsProgressUpToAllWeights) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  double last = -1.0, total = 0.0;
  quantize_model({.model = dir / "model",
                  .output = dir / "out",
                  .recipe = {},
                  .overwrite = false,
                  .progress = [&](const ProgressUpdate& update) {
                    EXPECT_GE(update.done, last);
                    last = update.done, total = update.total;
                  }});
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, 2.0 * (16 * 16 * 2 + 8 * 16 * 2 + 3 * 27 * 16));
}

TEST(QuantizeModel, NamesTheFirstBadWeight) {
  const TempDir dir;
  for (const auto& [name, words] :
       {std::pair{"h.1.mlp.c_fc.weight", "h.1.mlp.c_fc.weight: expected finite weights, got"},
        {"h.0.attn.c_attn.weight", "h.0.attn.c_attn.q.weight"},
        {"wte.weight", "wte.weight: expected finite values, got NaN or infinity at index 5"},
        {"ln_f.bias", "ln_f.bias"}}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      auto model = test::tiny_gpt2();
      std::memcpy(model.tensor(name).bytes.data() + 5 * sizeof bad, &bad, sizeof bad);
      model.write(dir / "model");
      EXPECT_TRUE(test::throws_with<NumericalError>([&] { quantize(dir / "model", dir / "out", Recipe()); }, words));
      EXPECT_FALSE(std::filesystem::exists(dir / "out"));
    }
  }
}

TEST(QuantizeModel, SaysWhereAWeightLies) {
  const TempDir dir;
  auto model = test::tiny_gpt2();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // Stored (in, out) = (16, 64): element 3 * 64 + 7 is row 7, column 3 of (out, in).
  std::memcpy(model.tensor("h.1.mlp.c_fc.weight").bytes.data() + (3 * 64 + 7) * sizeof nan, &nan, sizeof nan);
  model.write(dir / "model");
  EXPECT_TRUE(test::throws_with<NumericalError>([&] { quantize(dir / "model", dir / "out", Recipe()); },
                                                "row 7, column 3 of (out, in)"));
}

TEST(QuantizeModel, RefusesValuesThatFloat16CannotHold) {
  const TempDir dir;
  auto model = test::tiny_llama();
  const float large = 70000.0f;
  std::memcpy(model.tensor("model.layers.0.mlp.up_proj.weight").bytes.data(), &large, sizeof large);
  model.write(dir / "model");
  EXPECT_TRUE(test::throws_with<NumericalError>(
      [&] { quantize(dir / "model", dir / "out", recipe("defaults: {format: float16}")); },
      "model.layers.0.mlp.up_proj.weight", "70000 at index 0", "65504"));
  EXPECT_THROW(quantize(dir / "model", dir / "out", recipe("defaults: {bits: 8, granularity: channel}")),
               NumericalError);
  EXPECT_NO_THROW(quantize(dir / "model", dir / "out", recipe("defaults: {palette_dtype: float32}")));
}

TEST(QuantizeModel, RefusesWhatNeedsCalibrationWithout) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  for (const auto& [yaml, words] :
       {std::pair{"defaults: {weighting: fisher}", "weighting: fisher needs the statistic 'fisher'"},
        std::pair{"defaults: {shifting: true}", "no --calib was given"},
        std::pair{"layers: [{match: 'c_fc', weighting: magnitude}]", "h.0.mlp.c_fc: weighting: magnitude"}})
    EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { quantize(dir / "model", dir / "out", recipe(yaml)); }, words))
        << yaml;
  for (const auto name : {"whole-tensor", "squeezellm", "gptq", "scalar", "best"})
    EXPECT_THROW(quantize(dir / "model", dir / "out", Recipe::preset(name)), InvalidArgument) << name;
}

TEST(QuantizeModel, RefusesAQuantizedModel) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  quantize(dir / "model", dir / "out", Recipe());
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { quantize(dir / "out", dir / "again", Recipe()); },
                                                 "is quantized already"));
}

TEST(QuantizeModel, RefusesAModelWithAMissingOrMisshapenWeight) {
  const TempDir dir;
  auto model = test::tiny_llama();
  std::erase_if(model.tensors, [](const auto& tensor) { return tensor.name == "model.layers.1.mlp.up_proj.weight"; });
  model.write(dir / "model");
  EXPECT_TRUE(test::throws_with<FormatError>([&] { quantize(dir / "model", dir / "out", Recipe()); },
                                             "model.layers.1.mlp.up_proj.weight"));
  model = test::tiny_llama();
  model.tensor("model.layers.1.mlp.up_proj.weight").shape = {16, 27};
  model.write(dir / "model");
  EXPECT_TRUE(test::throws_with<FormatError>([&] { quantize(dir / "model", dir / "out", Recipe()); },
                                             "model.layers.1.mlp.up_proj.weight", "(27, 16)"));
}

}  // namespace
}  // namespace nibble::quant
