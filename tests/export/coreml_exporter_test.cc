#include <gtest/gtest.h>

#include <cstring>

#include "core/error.h"
#include "core/text/json.h"
#include "export/coreml/package_weights.h"
#include "export/coreml/verify.h"
#include "export/export_checkpoint.h"
#include "quant/job/quantize_model.h"
#include "quant/store/load_model.h"
#include "tests/export/coreml/mil_interpreter.h"
#include "tests/export/directory_support.h"
#include "tests/export/gguf_support.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::exporting {
namespace {

using test::TempDir;

ExportResult export_coreml(const std::filesystem::path& model, const std::filesystem::path& output,
                           ExportOptions options = {}) {
  return export_checkpoint({.model = model,
                            .output = output,
                            .exporter = find_exporter("coreml"),
                            .options = options,
                            .overwrite = true,
                            .progress = {}});
}

void quantize(const std::filesystem::path& model, const std::filesystem::path& output, const std::string& yaml) {
  quant::quantize_model(
      {.model = model, .output = output, .recipe = quant::Recipe::parse(yaml, "r"), .overwrite = true, .progress = {}});
}

// What a storage is written as, whether codes keep their values to the bit, and that the package computes what the
// model does.
TEST(CoreMlExporter, TranscodesEveryStorage) {
  const TempDir dir;
  test::tiny_gpt2(test::f16_tensor).write(dir / "gpt2");
  test::tiny_llama(test::f16_tensor).write(dir / "llama");
  struct Case {
    const char* settings;
    bool exact;
  };
  for (const auto model : {"gpt2", "llama"})
    for (const auto& [settings, exact] :
         {Case{"bits: 4", true}, Case{"bits: 3, granularity: channel", true},
          Case{"bits: 2, granularity: channel-group, group_size: 8", true}, Case{"bits: 6, scaling: std", false},
          Case{"bits: 4, palette_dtype: int8", false}, Case{"format: uniform, bits: 8, group_size: 0", true},
          Case{"format: uniform, bits: 3, group_size: 0, zero_point: true", true}}) {
      SCOPED_TRACE(testing::Message() << model << ", " << settings);
      quantize(dir / model, dir / "q",
               fmt::format("{{defaults: {{{}}}, layers: [{{match: 'wte|embed', bits: 4}}]}}", settings));
      for (const auto layout : {"gpu", "ane"}) {
        const ExportResult result = export_coreml(dir / "q", dir / "p.mlpackage", {.layout = layout});
        EXPECT_GT(result.coded, 10u);
        EXPECT_TRUE(result.as_floats.empty());
        EXPECT_EQ(result.read_back.rounded == 0, exact);
        EXPECT_GT(result.bits_per_weight, 2.0);
        EXPECT_LE(result.bits_per_weight, 70.0);  // 6 bits, and for each row of 16 a table of 64 float16
      }
      static_cast<void>(export_coreml(dir / "q", dir / "p.mlpackage"));
      const coreml::Package package = coreml::read_package(dir / "p.mlpackage");
      test::MilInterpreter interpreter(package);
      std::vector<std::uint32_t> tokens(20);
      for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint32_t>(i * 7 % 40);
      // Tables rounded to float16: 2^-12 of every weight, and a few such roundings in two blocks.
      EXPECT_TRUE(test::relative_error_within(interpreter.extend_gpu(tokens), test::logits_of_model(dir / "q"), 2e-3));
    }
}

TEST(CoreMlExporter, WritesTheSameBytesAgainAndReplacesWhatItWrote) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  for (const auto layout : {"gpu", "ane"}) {
    static_cast<void>(export_coreml(dir / "model", dir / "a.mlpackage", {.layout = layout}));
    static_cast<void>(export_coreml(dir / "model", dir / "b.mlpackage", {.layout = layout}));
    const auto files = test::files_of(dir / "a.mlpackage");
    EXPECT_EQ(files, test::files_of(dir / "b.mlpackage"));
    EXPECT_EQ(files.size(), 3u);
    EXPECT_TRUE(files.contains("Data/com.apple.CoreML/weights/weight.bin"));
    const auto manifest = nlohmann::json::parse(files.at("Manifest.json"));
    const std::string id = manifest.at("rootModelIdentifier");
    EXPECT_EQ(id.size(), 36u);
    EXPECT_EQ(id[14], '4');
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "a.mlpackage.partial"));
}

TEST(CoreMlExporter, RefusesByNameOrWritesFloats) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  test::write_calibration(dir / "calib.h5", dir / "model");
  test::quantize(dir / "model", dir / "q", "{defaults: {bits: 2, outliers_large: 0.02}}", {dir / "calib.h5"});
  EXPECT_TRUE(
      test::throws_with<InvalidArgument>([&] { static_cast<void>(export_coreml(dir / "q", dir / "p.mlpackage")); },
                                         "q_proj", "outliers", "--rest float16"));
  test::quantize(dir / "model", dir / "five", "{defaults: {bits: 5}}", {});
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { static_cast<void>(export_coreml(dir / "five", dir / "p.mlpackage")); }, "codes of 5 bits", "bits: 6"));
  EXPECT_FALSE(std::filesystem::exists(dir / "p.mlpackage"));
  const ExportResult result = export_coreml(dir / "q", dir / "p.mlpackage", {.rest = Rest::kFloat16});
  EXPECT_EQ(result.coded, 0u);
  EXPECT_EQ(result.as_floats.size(), 14u);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { static_cast<void>(export_coreml(dir / "q", dir / "p")); },
                                                 ".mlpackage"));
}

TEST(CoreMlExporter, WritesGoldenLogitsOfItsOwnEngine) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  static_cast<void>(export_coreml(dir / "model", dir / "p.mlpackage", {.golden = true}));
  const auto facts = nlohmann::json::parse(test::read_file(dir / "p.mlpackage.golden.json"));
  const auto tokens = facts.at("tokens").get<std::vector<std::uint32_t>>();
  const std::string bytes = test::read_file(dir / facts.at("logits").get<std::string>());
  ASSERT_EQ(bytes.size(), tokens.size() * 40 * 4);
  std::vector<float> golden(tokens.size() * 40);
  std::memcpy(golden.data(), bytes.data(), bytes.size());
  const coreml::Package package = coreml::read_package(dir / "p.mlpackage");
  test::MilInterpreter interpreter(package);
  EXPECT_TRUE(test::relative_error_within(interpreter.extend_gpu(tokens), golden, 2e-3));  // float16 weights
}

TEST(CoreMlExporter, GoldenTextsAreNoLongerThanThePackagesCaches) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  for (const std::size_t context : {std::size_t{2}, std::size_t{16}}) {
    static_cast<void>(export_coreml(dir / "model", dir / "p.mlpackage", {.context = context, .golden = true}));
    const auto facts = nlohmann::json::parse(test::read_file(dir / "p.mlpackage.golden.json"));
    EXPECT_EQ(facts.at("tokens").size(), context);
    EXPECT_EQ(facts.at("rows"), context);
  }
}

TEST(CoreMlExporter, SaysWhichLayersAreTooWideForTheNeuralEngine) {
  const TempDir dir;
  const auto notes_of = [&](std::uint64_t intermediate, const char* layout) {
    test::write_small_llama(dir / "model", {{"hidden_size", 8}, {"intermediate_size", intermediate}});
    return export_coreml(dir / "model", dir / "p.mlpackage", {.layout = layout}).written.notes;
  };
  EXPECT_TRUE(notes_of(16383, "ane").empty());
  EXPECT_TRUE(notes_of(16384, "gpu").empty());
  const std::vector<std::string> notes = notes_of(16384, "ane");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("4 layers of the blocks have 16384 outputs or more"), std::string::npos) << notes[0];
  EXPECT_NE(notes[0].find("model.layers.0.mlp.gate_proj: 16384"), std::string::npos) << notes[0];
}

// A dimension of lengths has at least two of them.
TEST(CoreMlExporter, TextsOfOneTokenAreForTheNeuralEngineAlone) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { static_cast<void>(export_coreml(dir / "model", dir / "p.mlpackage", {.context = 1})); }, "--context",
      "layout gpu", "at least 2", "--layout ane takes 1"));
  EXPECT_NO_THROW(
      static_cast<void>(export_coreml(dir / "model", dir / "p.mlpackage", {.layout = "ane", .context = 1})));
}

// Epsilons below float16's least number would be 0, and factors above its largest infinite.
TEST(CoreMlExporter, NumbersBeyondFloat16AreClampedOrRefused) {
  const TempDir dir;
  test::TinyModel model = test::tiny_llama();
  auto config = nlohmann::json::parse(model.config_json);
  config["rms_norm_eps"] = 1e-9;
  model.config_json = config.dump();
  model.write(dir / "model");
  for (const auto layout : {"gpu", "ane"})
    EXPECT_NO_THROW(static_cast<void>(export_coreml(dir / "model", dir / "p.mlpackage", {.layout = layout})));
  config["model_type"] = "granite";
  config["embedding_multiplier"] = 1e6;
  model.config_json = config.dump();
  model.write(dir / "granite");
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { static_cast<void>(export_coreml(dir / "granite", dir / "p.mlpackage")); }, "float16", "65504", "1000000"));
}

// Heads of many rows are cut, and their biases with them, whose parts may hold the same.
TEST(CoreMlExporter, EqualPartsOfABiasAreReadBackAsParts) {
  constexpr std::size_t kVocabulary = 33000;
  const TempDir dir;
  test::write_model(dir / "model", nlohmann::json{{"model_type", "gptj"},
                                                  {"n_embd", 16},
                                                  {"n_layer", 1},
                                                  {"n_head", 2},
                                                  {"n_positions", 32},
                                                  {"rotary_dim", 4},
                                                  {"vocab_size", kVocabulary},
                                                  {"activation_function", "gelu_new"},
                                                  {"tie_word_embeddings", false}}
                                       .dump());
  auto tensors = test::tensors_of(dir / "model");
  for (const bool zeros : {false, true}) {
    test::TinyTensor& bias = tensors.at("lm_head.bias");
    if (zeros) bias.bytes.assign(bias.bytes.size(), '\0');
    test::replace_tensors(dir / "model", tensors);
    for (const auto layout : {"gpu", "ane"})
      EXPECT_NO_THROW(export_coreml(dir / "model", dir / "p.mlpackage", {.layout = layout})) << layout << zeros;
    const ExportModel model(dir / "model");
    const auto read = coreml::open_package_weights(dir / "p.mlpackage", model.architecture());
    EXPECT_TRUE(read->contains("lm_head.bias"));
    EXPECT_EQ(read->vector(model.architecture().head.linear.bias).size(), kVocabulary);
  }
}

// They belong to a package of that name, which is not there, and are somebody's.
TEST(CoreMlExporter, FilesBesideThePackageAreReplacedOnlyWhenAsked) {
  const TempDir dir;
  test::tiny_llama(test::f16_tensor).write(dir / "model");
  const std::filesystem::path theirs = dir / "p.mlpackage.golden.json";
  test::write_file(theirs, "mine");
  const auto write = [&](bool overwrite) {
    export_checkpoint({.model = dir / "model",
                       .output = dir / "p.mlpackage",
                       .exporter = find_exporter("coreml"),
                       .options = {},
                       .overwrite = overwrite,
                       .progress = {}});
  };
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { write(false); }, "p.mlpackage.golden.json' exists"));
  EXPECT_EQ(test::read_file(theirs), "mine");
  write(true);
  EXPECT_FALSE(std::filesystem::exists(theirs)) << "it would be another package's";
}

TEST(CoreMlExporter, CatchesOneChangedCode) {
  const TempDir dir;
  test::tiny_llama(test::f16_tensor).write(dir / "model");
  quantize(dir / "model", dir / "q", "{defaults: {bits: 4}}");
  static_cast<void>(export_coreml(dir / "q", dir / "p.mlpackage"));
  const ExportModel model(dir / "q");
  const std::filesystem::path weights = coreml::weights_path(dir / "p.mlpackage");
  const auto differs = [&] {
    const auto provider = coreml::open_package_weights(dir / "p.mlpackage", model.architecture());
    std::size_t different = 0;
    for (const ExportPart& part : model.parts()) {
      const auto written = provider->matrix(*part.parameter);
      std::vector<float> a(part.values->rows() * part.values->cols()), b(a.size());
      part.values->decode_rows(0, part.values->rows(), a.data());
      written->decode_rows(0, part.values->rows(), b.data());
      for (std::size_t i = 0; i < a.size(); ++i) different += a[i] != b[i] ? 1u : 0u;
    }
    return different;
  };
  EXPECT_EQ(differs(), 0u);
  std::string bytes = test::read_file(weights);
  const coreml::Package package = coreml::read_package(dir / "p.mlpackage");
  for (const coreml::Operation& operation : package.model.functions.at("main").operations)
    if (operation.type == "constexpr_lut_to_dense") {
      const auto& value = std::get<coreml::Value>(operation.inputs.at("indices").front());
      bytes[std::get<coreml::BlobReference>(value.data).offset + 64] ^= 1;
      break;
    }
  test::write_file(weights, bytes);
  EXPECT_EQ(differs(), 1u);
}

}  // namespace
}  // namespace nibble::exporting
