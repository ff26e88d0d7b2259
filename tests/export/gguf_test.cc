#include <gmock/gmock.h>
#include <sys/stat.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "export/gguf/blocks.h"
#include "export/gguf/chat_templates.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_source.h"
#include "model/gguf/gguf_tokenizer.h"
#include "model/open/open_model.h"
#include "quant/format/storage_format.h"
#include "tests/export/directory_support.h"
#include "tests/export/gguf_support.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/golden_families.h"
#include "tests/support/layers.h"
#include "tests/support/throws.h"

namespace nibble::exporting {
namespace {

using model::BlockType;
using model::GgufFile;
using model::GgufTensor;
using test::export_gguf;
using test::TempDir;
using test::throws_with;
using test::write_small_llama;

Storage blocks(unsigned bits, std::size_t group, bool zero_points, std::size_t cols = 4096) {
  return {.format = quant::Format::kUniform,
          .bits = bits,
          .group_size = group,
          .zero_points = zero_points,
          .rows = 8,
          .cols = cols};
}

/// Weights of a tensor, row by row, by the layouts' definitions alone.
std::vector<float> decoded(const GgufTensor& tensor) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(tensor.data.data());
  const bool mx = tensor.type == BlockType::kMXFP4;
  const std::size_t size = mx                                                                     ? 17
                           : tensor.type == BlockType::kQ4_0 || tensor.type == BlockType::kIQ4_NL ? 18
                           : tensor.type == BlockType::kQ5_0                                      ? 22
                                                                                                  : 34;
  constexpr int kIq4Nl[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  constexpr int kTwiceE2m1[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  std::vector<float> values;
  for (std::size_t b = 0; b * size < tensor.data.size(); ++b, bytes += size) {
    const float d =
        mx ? std::ldexp(0.5f, bytes[0] - 127) : f16_to_f32(static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8));
    for (int j = 0; j < 32; ++j) {
      int code = 0;
      if (tensor.type == BlockType::kQ8_0) {
        code = (bytes[2 + j] ^ 128) - 128;  // two's complement
      } else if (mx || tensor.type == BlockType::kIQ4_NL) {
        const int four = bytes[(mx ? 1 : 2) + j % 16] >> (j < 16 ? 0 : 4) & 15;
        code = mx ? kTwiceE2m1[four] : kIq4Nl[four];
      } else if (tensor.type == BlockType::kQ4_0) {
        code = (bytes[2 + j % 16] >> (j < 16 ? 0 : 4) & 15) - 8;
      } else {
        code = ((bytes[6 + j % 16] >> (j < 16 ? 0 : 4) & 15) | (bytes[2 + j / 8] >> j % 8 & 1) << 4) - 16;
      }
      values.push_back(static_cast<float>(code) * d);
    }
  }
  return values;
}

TEST(GgufFit, TakesTheNarrowestTypeThatHoldsEveryDifferenceOfCodeAndZero) {
  for (unsigned bits = 2; bits <= 8; ++bits)
    for (const bool zero_points : {false, true})
      for (const std::size_t group : {0u, 32u, 64u, 128u, 256u}) {
        SCOPED_TRACE(testing::Message() << bits << " bits, " << zero_points << ", group " << group);
        int least = 0, most = 0;
        for (int code = 0; code < 1 << bits; ++code)
          for (int zero = zero_points ? 0 : 1 << (bits - 1); zero <= (zero_points ? (1 << bits) - 1 : 1 << (bits - 1));
               ++zero)
            least = std::min(least, code - zero), most = std::max(most, code - zero);
        const GgufFit fit = gguf_fit(blocks(bits, group, zero_points));
        if (least < -128 || most > 127) {
          EXPECT_EQ(fit.fit.kind, Fit::Kind::kRefused);
          EXPECT_THAT(fit.fit.nearest, testing::HasSubstr("zero_point: false"));
          continue;
        }
        EXPECT_EQ(fit.fit.kind, Fit::Kind::kExact);
        EXPECT_EQ(fit.type, least >= -8 && most <= 7     ? BlockType::kQ4_0
                            : least >= -16 && most <= 15 ? BlockType::kQ5_0
                                                         : BlockType::kQ8_0);
      }
}

TEST(GgufFit, RefusesWhatBlocksOf32CannotHold) {
  EXPECT_THAT(gguf_fit(blocks(4, 16, false)).fit.why, testing::HasSubstr("scales are for 32 inputs, not 16"));
  EXPECT_THAT(gguf_fit(blocks(4, 32, false, 100)).fit.why, testing::HasSubstr("rows of 100 inputs"));
  EXPECT_EQ(gguf_fit(blocks(4, 32, false, 100)).fit.nearest, "format: float16");
  const auto of = [](quant::BlockPalette palette, quant::ScaleType scale, std::size_t group) {
    return gguf_fit({.format = quant::Format::kBlockPalette,
                     .bits = 4,
                     .group_size = group,
                     .block_palette = palette,
                     .scale_type = scale,
                     .rows = 8,
                     .cols = 4096})
        .fit;
  };
  using quant::BlockPalette;
  using quant::ScaleType;
  EXPECT_THAT(of(BlockPalette::kNf4, ScaleType::kFloat16, 32).nearest, testing::HasSubstr("palette: iq4_nl"));
  for (const Fit& fit : {of(BlockPalette::kLearned, ScaleType::kFloat16, 32),
                         of(BlockPalette::kIq4Nl, ScaleType::kE8M0, 32), of(BlockPalette::kFp4, ScaleType::kE4M3, 16)})
    EXPECT_THAT(fit.why, testing::HasSubstr("IQ4_NL's with float16 and MXFP4's with e8m0"));
  EXPECT_THAT(of(BlockPalette::kFp4, ScaleType::kE8M0, 16).why, testing::HasSubstr("32 inputs, not 16"));
  const Storage palette{.format = quant::Format::kPalette, .bits = 6, .rows = 8, .cols = 64};
  EXPECT_EQ(gguf_fit(palette).fit.kind, Fit::Kind::kRefused);
  EXPECT_EQ(gguf_fit(palette).fit.nearest, "format: uniform, bits: 6, group_size: 32");
}

Storage in_super_blocks(Storage storage) {
  storage.super_block = 256;
  return storage;
}

TEST(GgufFit, TakesSuperBlocksOfItsTypesAlone) {
  EXPECT_EQ(gguf_fit(in_super_blocks(blocks(3, 16, false))).type, BlockType::kQ3_K);
  EXPECT_EQ(gguf_fit(in_super_blocks(blocks(3, 16, false))).fit.kind, Fit::Kind::kExact);
  const Storage iq4{.format = quant::Format::kBlockPalette,
                    .bits = 4,
                    .group_size = 32,
                    .block_palette = quant::BlockPalette::kIq4Nl,
                    .rows = 8,
                    .cols = 4096};
  EXPECT_EQ(gguf_fit(in_super_blocks(iq4)).type, BlockType::kIQ4_XS);
  EXPECT_EQ(gguf_fit(iq4).type, BlockType::kIQ4_NL);
  Storage ragged = in_super_blocks(iq4);  // multiples of a step are float16 scales too
  ragged.cols = 4096 + 32;
  EXPECT_EQ(gguf_fit(ragged).type, BlockType::kIQ4_NL);
  EXPECT_THAT(gguf_fit(in_super_blocks(blocks(3, 16, false, 384))).fit.why,
              testing::HasSubstr("rows of 384 inputs are no whole number of super-blocks of 256"));
  EXPECT_EQ(gguf_fit(in_super_blocks(blocks(4, 32, false))).type, BlockType::kQ4_0);
  EXPECT_EQ(gguf_fit(in_super_blocks(blocks(2, 16, false))).fit.kind, Fit::Kind::kRefused);
}

/// A model whose rows are super-blocks, and what `settings` make of it at q.
struct SuperBlockModel {
  TempDir dir;
  SuperBlockModel() {
    write_small_llama(dir / "model", {{"hidden_size", 256}, {"intermediate_size", 512}, {"num_attention_heads", 4}});
  }
  void quantize(const std::string& settings, const std::vector<std::filesystem::path>& calibration) const {
    test::quantize(dir / "model", dir / "q", fmt::format("defaults: {{{}}}", settings), calibration);
  }
};

TEST(GgufExport, HoldsTheVeryValuesOfSuperBlocks) {
  const SuperBlockModel model;
  test::write_calibration(model.dir / "calib.h5", model.dir / "model");
  for (const auto& [settings, type] :
       {std::pair{"format: uniform, bits: 3, group_size: 16, super_block: 256", BlockType::kQ3_K},
        {"format: uniform, bits: 3, group_size: 16, super_block: 256, search: error, solver: gptq", BlockType::kQ3_K},
        {"format: block-palette, palette: iq4_nl, search: error, super_block: 256", BlockType::kIQ4_XS},
        {"format: block-palette, palette: iq4_nl, super_block: 256, solver: coordinate-descent", BlockType::kIQ4_XS}}) {
    SCOPED_TRACE(settings);
    model.quantize(settings, {model.dir / "calib.h5"});
    const ExportResult result = export_gguf(model.dir / "q", model.dir / "q.gguf");
    EXPECT_EQ(result.coded, 14u);
    EXPECT_EQ(result.read_back.rounded, 0u);
    const auto file = GgufFile::open(model.dir / "q.gguf");
    const GgufTensor& down = file->tensor("blk.1.ffn_down.weight");
    ASSERT_EQ(down.type, type);
    std::vector<float> values(256u * 512u);
    model::block_type_info(type).decode(down.data.data(), values.size() / 256, values.data());
    for (const auto& layer : test::layers_of(test::config_of(model.dir / "q"))) {
      if (layer.module != "model.layers.1.mlp.down_proj") continue;
      const Matrix<float> source = test::weight_of(model.dir / "q", layer);
      ASSERT_EQ(source.size(), values.size());
      for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], source.values()[i]) << i;  // -0 is 0
    }
    EXPECT_EQ(std::get<std::uint32_t>(file->metadata().find("general.file_type")->get()),
              type == BlockType::kQ3_K ? 11u : 30u);
  }
}

TEST(GgufExport, RefusesScalesThatAreNoMultiplesOfAStep) {
  const SuperBlockModel model;
  model.quantize("format: uniform, bits: 3, group_size: 16", {});
  auto config = nlohmann::json::parse(test::read_file(model.dir / "q" / "config.json"));
  for (auto& [name, tensor] : config["quantization_config"]["tensors"].items()) tensor["super_block"] = 256;
  test::write_file(model.dir / "q" / "config.json", config.dump());
  EXPECT_TRUE(throws_with<FormatError>([&] { export_gguf(model.dir / "q", model.dir / "q.gguf"); },
                                       "block_scale: row 0", "inputs from 0",
                                       "no multiples from -32 to 31 of one float16"));
  EXPECT_FALSE(std::filesystem::exists(model.dir / "q.gguf"));
}

struct Recipe {
  const char* settings;
  BlockType type;
};

TEST(GgufExport, HoldsTheVeryValuesOfTheCodes) {
  const TempDir dir;
  write_small_llama(dir / "model");
  test::write_calibration(dir / "calib.h5", dir / "model");
  for (const Recipe& recipe :
       {Recipe{"format: int4-block", BlockType::kQ4_0},
        {"format: int4-block, int4_scale: minmax, zero_point: true", BlockType::kQ5_0},
        {"format: int4-block, group_size: 64", BlockType::kQ4_0},
        {"format: uniform, bits: 2, group_size: 32", BlockType::kQ4_0},
        {"format: uniform, bits: 3, group_size: 32, zero_point: true", BlockType::kQ4_0},
        {"format: uniform, bits: 4, group_size: 0, zero_point: true", BlockType::kQ5_0},
        {"format: uniform, bits: 5, group_size: 32", BlockType::kQ5_0},
        {"format: uniform, bits: 5, group_size: 32, zero_point: true", BlockType::kQ8_0},
        {"format: uniform, bits: 6, group_size: 32, zero_point: true", BlockType::kQ8_0},
        {"format: uniform, bits: 7, group_size: 0", BlockType::kQ8_0},
        {"format: uniform, bits: 8, group_size: 32", BlockType::kQ8_0},
        {"format: block-palette, palette: iq4_nl, search: error", BlockType::kIQ4_NL},
        {"format: block-palette, palette: fp4, block_scale: e8m0", BlockType::kMXFP4},
        {"format: block-palette, palette: fp4, block_scale: e8m0, group_size: 64, search: error", BlockType::kMXFP4}}) {
    SCOPED_TRACE(recipe.settings);
    test::quantize(dir / "model", dir / "q", fmt::format("defaults: {{{}}}", recipe.settings), {dir / "calib.h5"});
    const ExportResult result = export_gguf(dir / "q", dir / "q.gguf");
    EXPECT_EQ(result.coded, 14u);
    EXPECT_EQ(result.read_back.rounded, 0u);
    const auto file = GgufFile::open(dir / "q.gguf");
    const auto layers = test::layers_of(test::config_of(dir / "q"));
    const GgufTensor &down = file->tensor("blk.1.ffn_down.weight"), &q = file->tensor("blk.0.attn_q.weight");
    EXPECT_EQ(down.type, recipe.type);
    EXPECT_EQ(down.shape, (std::vector<std::uint64_t>{64, 96}));
    for (const auto& layer : layers) {
      if (layer.module == "model.layers.1.mlp.down_proj") {
        EXPECT_TRUE(test::same_bits(decoded(down), test::weight_of(dir / "q", layer).values()));
      }
      if (layer.module != "model.layers.0.self_attn.q_proj") continue;
      // Row 2 i + h of a head is row 8 h + i of the checkpoint's.
      const Matrix<float> source = test::weight_of(dir / "q", layer);
      const std::vector<float> moved = decoded(q);
      for (std::size_t head = 0; head < 4; ++head)
        for (std::size_t i = 0; i < 8; ++i)
          for (std::size_t h = 0; h < 2; ++h)
            for (std::size_t c = 0; c < 64; ++c)
              EXPECT_EQ(moved[(16 * head + 2 * i + h) * 64 + c], source(16 * head + 8 * h + i, c));
    }
  }
}

// llama.cpp reads more than a name in "phi3".
TEST(GgufExport, AFileKeepsItsNameOrHasOneThatMeansNothing) {
  const TempDir dir;
  write_small_llama(dir / "a-name");
  export_gguf(dir / "a-name", dir / "phi3-first.gguf");
  export_gguf(dir / "phi3-first.gguf", dir / "second.gguf");
  const auto name_of = [&](const char* file) {
    const auto opened = GgufFile::open(dir / file);
    return std::get<std::string>(opened->metadata().find("general.name")->get());
  };
  EXPECT_EQ(name_of("second.gguf"), "a-name");
  std::string bytes = test::read_file(dir / "phi3-first.gguf");
  const std::size_t key = bytes.find("general.name");
  ASSERT_NE(key, std::string::npos);
  bytes.replace(key, 12, "general.nome");  // a name no more
  test::write_file(dir / "phi3-first.gguf", bytes);
  export_gguf(dir / "phi3-first.gguf", dir / "third.gguf");
  EXPECT_EQ(name_of("third.gguf"), "phi_3-first");
}

TEST(GgufExport, SaysWhatTheConverterSaysInItsTypes) {
  const TempDir dir;
  write_small_llama(dir / "a-name", {{"rope_theta", 50000.0}, {"bos_token_id", 299}, {"eos_token_id", 299}});
  export_gguf(dir / "a-name", dir / "m.gguf");
  const auto file = GgufFile::open(dir / "m.gguf");
  const auto number = [&](const char* key) { return std::get<std::uint32_t>(file->metadata().find(key)->get()); };
  const auto real = [&](const char* key) { return std::get<float>(file->metadata().find(key)->get()); };
  const auto text = [&](const char* key) { return std::get<std::string>(file->metadata().find(key)->get()); };
  EXPECT_EQ(text("general.architecture"), "llama");
  EXPECT_EQ(text("general.type"), "model");
  EXPECT_EQ(text("general.name"), "a-name");
  EXPECT_EQ(text("general.size_label"), "100K");  // 99,840 weights
  EXPECT_EQ(number("general.file_type"), 1u);
  EXPECT_EQ(number("general.quantization_version"), 2u);
  EXPECT_EQ(number("llama.block_count"), 2u);
  EXPECT_EQ(number("llama.context_length"), 128u);
  EXPECT_EQ(number("llama.embedding_length"), 64u);
  EXPECT_EQ(number("llama.feed_forward_length"), 96u);
  EXPECT_EQ(number("llama.attention.head_count"), 4u);
  EXPECT_EQ(number("llama.attention.head_count_kv"), 2u);
  EXPECT_EQ(number("llama.attention.key_length"), 16u);
  EXPECT_EQ(number("llama.attention.value_length"), 16u);
  EXPECT_EQ(number("llama.rope.dimension_count"), 16u);
  EXPECT_EQ(number("llama.vocab_size"), 300u);
  EXPECT_EQ(real("llama.rope.freq_base"), 50000.0f);
  EXPECT_EQ(real("llama.attention.layer_norm_rms_epsilon"), 1e-5f);
  EXPECT_EQ(text("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(text("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(number("tokenizer.ggml.bos_token_id"), 299u);
  EXPECT_EQ(number("tokenizer.ggml.eos_token_id"), 299u);
  EXPECT_FALSE(std::get<bool>(file->metadata().find("tokenizer.ggml.add_bos_token")->get()));
  EXPECT_FALSE(std::get<bool>(file->metadata().find("tokenizer.ggml.add_eos_token")->get()));
  const auto* const types = file->metadata().find("tokenizer.ggml.token_type")->array();
  EXPECT_EQ(types->type, model::GgufType::kI32);
  EXPECT_EQ(types->integer(0), 1);
  EXPECT_EQ(types->integer(299), 3);
  EXPECT_EQ(file->metadata().find("tokenizer.ggml.merges")->array()->text(1), "th e");
  // A vector in 16 bits makes llama.cpp abort.
  for (const GgufTensor& tensor : file->tensors())
    EXPECT_EQ(tensor.type, tensor.shape.size() == 1 ? BlockType::kF32 : BlockType::kF16) << tensor.name;
  EXPECT_EQ(file->tensors().size(), 2u * 9 + 3);
}

TEST(GgufExport, KeepsTheTypeOfFloats) {
  const TempDir dir;
  write_small_llama(dir / "model");
  for (const auto& [dtype, type] : {std::pair(DType::kBF16, BlockType::kBF16), {DType::kF32, BlockType::kF32}}) {
    export_checkpoint({.model = dir / "model",
                       .output = dir / "floats",
                       .exporter = find_exporter("dequantized"),
                       .options = {.dtype = dtype},
                       .overwrite = true,
                       .progress = {}});
    const ExportResult result = export_gguf(dir / "floats", dir / "m.gguf");
    EXPECT_EQ(GgufFile::open(dir / "m.gguf")->tensor("blk.0.ffn_up.weight").type, type);
    EXPECT_EQ(result.read_back.rounded, 0u);
  }
}

TEST(GgufExport, RefusesByNameAndWritesFloatsWhereTold) {
  const TempDir dir;
  write_small_llama(dir / "model");
  test::quantize(dir / "model", dir / "q",
                 "{defaults: {format: int4-block}, layers: [{match: up_proj, format: palette}]}", {});
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { export_gguf(dir / "q", dir / "m.gguf"); },
                                           "cannot hold 'model.layers.0.mlp.up_proj', stored as palette 4-bit",
                                           "it has no palettes", "format: int4-block, group_size: 32", "2 matrices"));
  EXPECT_FALSE(std::filesystem::exists(dir / "m.gguf"));
  const ExportResult result = export_gguf(dir / "q", dir / "m.gguf", Rest::kFloat16);
  EXPECT_EQ(result.as_floats.size(), 2u);
  const auto file = GgufFile::open(dir / "m.gguf");
  EXPECT_EQ(file->tensor("blk.1.ffn_up.weight").type, BlockType::kF16);
  EXPECT_EQ(file->tensor("blk.1.ffn_gate.weight").type, BlockType::kQ4_0);
}

TEST(GgufExport, AFileThatIsThereStaysAndTheLockOfAKilledRunGoes) {
  const TempDir dir;
  write_small_llama(dir / "model");
  test::write_file(dir / "m.gguf", "mine");
  test::write_file(dir / "m.gguf.lock", "");
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] {
        export_checkpoint({.model = dir / "model",
                           .output = dir / "m.gguf",
                           .exporter = find_exporter("gguf"),
                           .options = {},
                           .overwrite = false,
                           .progress = {}});
      },
      "exists"));
  EXPECT_EQ(test::read_file(dir / "m.gguf"), "mine");
  EXPECT_FALSE(std::filesystem::exists(dir / "m.gguf.lock"));
}

TEST(GgufExport, LeavesNoFileWhereItFails) {
  const TempDir dir;
  write_small_llama(dir / "model");
  std::filesystem::remove(dir / "model" / "tokenizer.json");
  EXPECT_TRUE(throws_with<FormatError>([&] { export_gguf(dir / "model", dir / "m.gguf"); }, "has no tokenizer"));
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] {
        write_small_llama(dir / "gelu", {{"hidden_act", "gelu"}});
        export_gguf(dir / "gelu", dir / "m.gguf");
      },
      "block 0: activation is gelu here and silu there"));
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    EXPECT_TRUE(entry.is_directory()) << entry.path();
}

TEST(GgufExport, ReplacesTheFileOfALinkAndNoPipe) {
  const TempDir dir;
  write_small_llama(dir / "model");
  export_gguf(dir / "model", dir / "there.gguf");
  const std::string whole = test::read_file(dir / "there.gguf");
  test::write_file(dir / "there.gguf", "old");
  std::filesystem::create_symlink("there.gguf", dir / "link.gguf");
  export_gguf(dir / "model", dir / "link.gguf");
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link.gguf"));
  EXPECT_TRUE(test::read_file(dir / "there.gguf") == whole);
  ASSERT_EQ(mkfifo((dir / "pipe.gguf").c_str(), 0600), 0);
  EXPECT_TRUE(
      throws_with<InvalidArgument>([&] { export_gguf(dir / "model", dir / "pipe.gguf"); }, "is not a regular file"));
  EXPECT_TRUE(std::filesystem::is_fifo(dir / "pipe.gguf"));
}

TEST(GgufExport, SaysWhatLlamaCppDoesNotCompute) {
  const TempDir dir;
  write_small_llama(dir / "window", {{"model_type", "mistral"}, {"sliding_window", 24}, {"head_dim", 16}});
  export_gguf(dir / "window", dir / "m.gguf");  // as far as the window reaches it computes the same
  EXPECT_EQ(GgufFile::open(dir / "m.gguf")->metadata().natural("llama.context_length"), 24u);
  write_small_llama(dir / "dynamic", {{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 4.0}}}});
  export_gguf(dir / "dynamic", dir / "m.gguf");
  EXPECT_EQ(GgufFile::open(dir / "m.gguf")->metadata().natural("llama.context_length"), 128u);
  write_small_llama(
      dir / "yarn",
      {{"rope_scaling",
        {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}, {"truncate", false}}}});
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { export_gguf(dir / "yarn", dir / "m.gguf"); }, "rotary frequency"));
}

TEST(GgufExport, PrintsWhatAUserShouldKnow) {
  const TempDir dir;
  write_small_llama(dir / "plain", {{"eos_token_id", 2}});
  EXPECT_TRUE(export_gguf(dir / "plain", dir / "m.gguf").written.notes.empty());
  write_small_llama(dir / "window",
                    {{"model_type", "mistral"}, {"sliding_window", 24}, {"head_dim", 16}, {"eos_token_id", 2}});
  EXPECT_THAT(export_gguf(dir / "window", dir / "m.gguf").written.notes,
              testing::ElementsAre(testing::HasSubstr("context_length is 24, not 128")));
}

TEST(GgufExport, GivesBiasesWhereTheProgramAddsThem) {
  const TempDir dir;
  write_small_llama(dir / "model");
  test::write_calibration(dir / "calib.h5", dir / "model");
  // A palette's layer is given a bias; the others of its kind, which have none, get zeros.
  test::quantize(dir / "model", dir / "q",
                 "{defaults: {format: int4-block, shifting: true}, layers: [{match: q_proj, format: float16}]}",
                 {dir / "calib.h5"});
  const ExportResult result = export_gguf(dir / "q", dir / "m.gguf");
  EXPECT_EQ(result.read_back.rounded, 0u);
  const auto file = GgufFile::open(dir / "m.gguf");
  EXPECT_EQ(file->tensor("blk.0.attn_q.bias").type, BlockType::kF32);
  const auto bytes = file->tensor("blk.0.attn_q.bias").data;
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(file->tensor("blk.1.ffn_down.bias").shape, (std::vector<std::uint64_t>{64}));

  write_small_llama(dir / "qwen", {{"model_type", "qwen3"}, {"head_dim", 16}});
  test::write_calibration(dir / "qwen.h5", dir / "qwen");
  test::quantize(dir / "qwen", dir / "q", "defaults: {format: int4-block, shifting: true}", {dir / "qwen.h5"});
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { export_gguf(dir / "q", dir / "m.gguf"); },
                                           "o_proj' has a bias, which llama.cpp does not add there",
                                           "shifting: false"));
}

TEST(GgufExport, WritesATiedHeadWhereTheProgramWantsIt) {
  const TempDir dir;
  write_small_llama(dir / "llama", {{"tie_word_embeddings", true}});
  export_gguf(dir / "llama", dir / "m.gguf");
  EXPECT_EQ(GgufFile::open(dir / "m.gguf")->find("output.weight"), nullptr);
  write_small_llama(dir / "olmo", {{"model_type", "olmo2"}, {"tie_word_embeddings", true}});
  export_gguf(dir / "olmo", dir / "m.gguf");
  const auto file = GgufFile::open(dir / "m.gguf");
  const auto head = file->tensor("output.weight").data, embedding = file->tensor("token_embd.weight").data;
  EXPECT_TRUE(std::equal(head.begin(), head.end(), embedding.begin(), embedding.end()));
  write_small_llama(dir / "cohere", {{"model_type", "cohere"}, {"layer_norm_eps", 1e-5}, {"rms_norm_eps", nullptr}});
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { export_gguf(dir / "cohere", dir / "m.gguf"); }, "a head of its own"));
}

// Its weight is the embedding's, its bias is its own.
TEST(GgufExport, KeepsTheBiasOfATiedHead) {
  const TempDir dir;
  write_small_llama(
      dir / "phi",
      {{"model_type", "phi"}, {"rms_norm_eps", nullptr}, {"num_key_value_heads", 4}, {"tie_word_embeddings", true}});
  const auto expected = test::tensors_of(dir / "phi").at("lm_head.bias");
  test::export_to("dequantized", dir / "phi", dir / "floats");
  const auto kept = test::tensors_of(dir / "floats").at("lm_head.bias");
  export_gguf(dir / "phi", dir / "m.gguf");
  const auto file = GgufFile::open(dir / "m.gguf");
  ASSERT_NE(file->find("output.weight"), nullptr);
  const std::vector<float> written = model::gguf_vector(*file, file->tensor("output.bias"));
  ASSERT_EQ(written.size(), 300u);
  for (std::size_t i = 0; i < written.size(); ++i) {
    EXPECT_EQ(written[i], test::float_at(expected, i)) << i;
    EXPECT_EQ(test::float_at(kept, i), test::float_at(expected, i)) << i;
  }
}

TEST(GgufExport, PutsRotaryFactorsIntoTensors) {
  const TempDir dir;
  write_small_llama(dir / "model", {{"rope_scaling",
                                     {{"rope_type", "llama3"},
                                      {"factor", 8.0},
                                      {"low_freq_factor", 1.0},
                                      {"high_freq_factor", 4.0},
                                      {"original_max_position_embeddings", 64}}}});
  export_gguf(dir / "model", dir / "m.gguf");
  const auto file = GgufFile::open(dir / "m.gguf");
  const GgufTensor& factors = file->tensor("rope_freqs.weight");
  ASSERT_EQ(factors.shape, (std::vector<std::uint64_t>{8}));
  for (std::size_t i = 0; i < 8; ++i) {
    // Wavelengths below 64 / 4 stay, those above 64 are divided by 8, and between is a blend.
    const double pi = std::acos(-1.0), wave = 2 * pi * std::pow(10000.0, static_cast<double>(i) / 8.0);
    const double smooth = (64.0 / wave - 1.0) / 3.0;
    const double expected = wave < 16 ? 1.0 : wave > 64 ? 8.0 : 1.0 / ((1.0 - smooth) / 8.0 + smooth);
    float got = 0.0f;
    std::memcpy(&got, factors.data.data() + 4 * i, 4);
    EXPECT_TRUE(test::near(got, expected, {.rel = 1e-6})) << i;  // half a unit of a float's last place is 6e-8
  }
}

const nlohmann::json kLlama3 = {{"rope_scaling",
                                 {{"rope_type", "llama3"},
                                  {"factor", 8.0},
                                  {"low_freq_factor", 1.0},
                                  {"high_freq_factor", 4.0},
                                  {"original_max_position_embeddings", 64}}}};

// What is read is "longrope" of one list. llama.cpp refuses that under other names than it was under before.
TEST(GgufExport, PutsRotaryFactorsOfAGgufWhereTheyWere) {
  const TempDir dir;
  write_small_llama(dir / "model", kLlama3);
  export_gguf(dir / "model", dir / "first.gguf");
  export_gguf(dir / "first.gguf", dir / "second.gguf");
  const auto first = GgufFile::open(dir / "first.gguf"), second = GgufFile::open(dir / "second.gguf");
  EXPECT_EQ(first->tensors().size(), second->tensors().size());
  ASSERT_NE(second->find("rope_freqs.weight"), nullptr);
  const auto a = first->tensor("rope_freqs.weight").data, b = second->tensor("rope_freqs.weight").data;
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  for (const auto& [key, value] : second->metadata().items())
    EXPECT_NE(first->metadata().find(key), nullptr) << key << " is new";
}

TEST(GgufExport, RefusesRotaryFactorsThatAreNotLoaded) {
  const TempDir dir;
  nlohmann::json changes = kLlama3;
  changes["model_type"] = "qwen2";
  write_small_llama(dir / "model", changes);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { export_gguf(dir / "model", dir / "m.gguf"); },
                                           "llama.cpp's 'qwen2' does not compute a factor for each rotary frequency"));
  EXPECT_FALSE(std::filesystem::exists(dir / "m.gguf"));
}

// llama.cpp's starcoder2 loads no file without biases, so those of a network without are zeros.
TEST(GgufExport, WritesBiasesThatAreDemandedAsZeros) {
  const TempDir dir;
  write_small_llama(dir / "model", {{"model_type", "starcoder2"},
                                    {"use_bias", false},
                                    {"hidden_act", "gelu_pytorch_tanh"},
                                    {"sliding_window", nullptr},
                                    {"norm_epsilon", 1e-5},
                                    {"rms_norm_eps", nullptr}});
  const ExportResult result = export_gguf(dir / "model", dir / "m.gguf");
  EXPECT_EQ(result.read_back.rounded, 0u);
  const auto file = GgufFile::open(dir / "m.gguf");
  for (const auto& [name, size] :
       {std::pair{"blk.0.attn_output.bias", 64u}, {"blk.1.ffn_up.bias", 96u}, {"blk.1.ffn_down.bias", 64u}}) {
    ASSERT_NE(file->find(name), nullptr) << name;
    EXPECT_EQ(file->tensor(name).shape, (std::vector<std::uint64_t>{size}));
    const auto bytes = file->tensor(name).data;
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
  }
  export_gguf(dir / "m.gguf", dir / "again.gguf");
}

TEST(GgufExport, SaysEveryIdThatEndsAText) {
  const TempDir dir;
  write_small_llama(dir / "model", {{"eos_token_id", {299, 7}}});
  test::write_file(dir / "model" / "generation_config.json", R"({"eos_token_id": [7, 5, 11, 12]})");
  const ExportResult result = export_gguf(dir / "model", dir / "m.gguf");
  const auto id = [&](const char* name) {
    return GgufFile::open(dir / "m.gguf")->metadata().natural(fmt::format("tokenizer.ggml.{}_token_id", name));
  };
  EXPECT_EQ(id("eos"), 299u);
  EXPECT_EQ(id("eot"), 7u);
  EXPECT_EQ(id("eom"), 5u);
  EXPECT_THAT(result.written.notes, testing::ElementsAre(testing::HasSubstr("11, 12")));
  EXPECT_EQ(model::open_checkpoint(dir / "m.gguf")->architecture().stop_tokens,
            (std::vector<std::uint32_t>{299, 7, 5}));
}

TEST(GgufExport, TakesChatTemplatesAlong) {
  const TempDir dir;
  write_small_llama(dir / "model");
  test::write_file(
      dir / "model" / "tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})");
  export_gguf(dir / "model", dir / "m.gguf");
  const auto file = GgufFile::open(dir / "m.gguf");
  const auto& metadata = file->metadata();
  EXPECT_EQ(*metadata.text("tokenizer.chat_template"), "D");
  EXPECT_EQ(*metadata.text("tokenizer.chat_template.tool_use"), "T");
  EXPECT_EQ(metadata.find("tokenizer.chat_templates")->array()->text(0), "tool_use");
  test::write_file(dir / "model" / "chat_template.jinja", "J");
  EXPECT_EQ(read_chat_templates(dir / "model"),
            (std::vector<std::pair<std::string, std::string>>{{"", "J"}, {"tool_use", "T"}}));
  test::write_file(dir / "model" / "tokenizer_config.json", R"({"chat_template": [{"name": "x"}]})");
  EXPECT_TRUE(throws_with<FormatError>([&] { read_chat_templates(dir / "model"); }, "a name and a template"));
}

TEST(GgufExport, ExportsAgainWhatWasExported) {
  const TempDir dir;
  write_small_llama(dir / "model");
  export_gguf(dir / "model", dir / "first.gguf");
  const ExportResult result = export_gguf(dir / "first.gguf", dir / "second.gguf");
  EXPECT_EQ(result.read_back.rounded, 0u);
  const auto first = GgufFile::open(dir / "first.gguf"), second = GgufFile::open(dir / "second.gguf");
  for (const GgufTensor& tensor : first->tensors()) {
    const auto &a = tensor.data, &b = second->tensor(tensor.name).data;
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << tensor.name;
  }
  const std::string text = "the three thieves";
  EXPECT_EQ(model::make_gguf_tokenizer(second->metadata())->encode(text),
            model::make_gguf_tokenizer(first->metadata())->encode(text));
}

/// A tensor's bytes in a file, and in the checkpoint.
struct BothBytes {
  std::span<const std::byte> file, checkpoint;
  bool same_row(std::size_t in_file, std::size_t in_checkpoint, std::size_t bytes) const {
    return std::ranges::equal(file.subspan(in_file * bytes, bytes), checkpoint.subspan(in_checkpoint * bytes, bytes));
  }
};

// Heads of 16 in rows of 64 float16 numbers: pairs are 8 rows apart in the checkpoint, or neighbours there as in the
// file.
TEST(GgufExport, MovesRowsOfQOnlyWherePairsAreHalvesApart) {
  const TempDir dir;
  for (const auto& [family, architecture, moved] : {std::tuple("arcee", "arcee", true),
                                                    {"ernie4_5", "ernie4_5", false},
                                                    {"glm", "chatglm", false},
                                                    {"seed_oss", "seed_oss", false}}) {
    SCOPED_TRACE(family);
    write_small_llama(dir / "model", {{"model_type", family}, {"head_dim", 16}, {"pad_token_id", nullptr}});
    EXPECT_EQ(export_gguf(dir / "model", dir / "m.gguf").read_back.rounded, 0u);
    const auto file = GgufFile::open(dir / "m.gguf");
    EXPECT_EQ(file->metadata().need_text("general.architecture"), architecture);
    const auto stored = test::tensors_of(dir / "model").at("model.layers.1.self_attn.q_proj.weight");
    const BothBytes q{file->tensor("blk.1.attn_q.weight").data, std::as_bytes(std::span(stored.bytes))};
    ASSERT_EQ(q.file.size(), 64u * 128u);
    ASSERT_EQ(q.checkpoint.size(), q.file.size());
    EXPECT_TRUE(q.same_row(16, 16, 128));
    EXPECT_EQ(q.same_row(17, 17, 128), !moved);
    EXPECT_EQ(q.same_row(17, 24, 128), moved);
  }
}

TEST(GgufExport, NamesTheNormsOfSeedOssAsLlamaCppDoes) {
  const TempDir dir;
  write_small_llama(dir / "model", {{"model_type", "seed_oss"}, {"head_dim", 16}});
  export_gguf(dir / "model", dir / "m.gguf");
  const auto file = GgufFile::open(dir / "m.gguf");
  EXPECT_NE(file->find("blk.0.post_attention_norm.weight"), nullptr);
  EXPECT_EQ(file->find("blk.0.ffn_norm.weight"), nullptr);
  EXPECT_NE(file->find("blk.0.attn_v.bias"), nullptr);
}

// Without state-space layers it is llama.cpp's Granite, which goes by a key whether heads turn.
TEST(GgufExport, WritesGranite4AsGranite) {
  const TempDir dir;
  for (const bool turns : {true, false}) {
    write_small_llama(dir / "model", {{"model_type", "granitemoehybrid"},
                                      {"layer_types", {"attention", "attention"}},
                                      {"num_local_experts", 0},
                                      {"shared_intermediate_size", 80},
                                      {"position_embedding_type", turns ? "rope" : "nope"}});
    EXPECT_EQ(export_gguf(dir / "model", dir / "m.gguf").read_back.rounded, 0u);
    const auto file = GgufFile::open(dir / "m.gguf");
    EXPECT_EQ(file->metadata().need_text("general.architecture"), "granite");
    EXPECT_EQ(file->metadata().truth("granite.rope.scaling.finetuned"), turns);
    EXPECT_EQ(file->metadata().natural("granite.feed_forward_length"), 80u);
    EXPECT_EQ(file->tensor("blk.1.ffn_gate.weight").shape, (std::vector<std::uint64_t>{80, 64}));
    export_gguf(dir / "m.gguf", dir / "again.gguf");
    EXPECT_EQ(GgufFile::open(dir / "again.gguf")->metadata().truth("granite.rope.scaling.finetuned"), turns);
  }
  write_small_llama(dir / "model", {{"model_type", "granite"}});
  export_gguf(dir / "model", dir / "m.gguf");
  EXPECT_EQ(GgufFile::open(dir / "m.gguf")->metadata().find("granite.rope.scaling.finetuned"), nullptr);
}

TEST(GgufExport, TellsHowSigmoidsChooseExperts) {
  const TempDir dir;
  const auto write = [&](const std::string& family, const nlohmann::json& more) {
    nlohmann::json config{{"model_type", family},     {"head_dim", 16},        {"n_routed_experts", 4},
                          {"num_experts_per_tok", 2}, {"n_shared_experts", 2}, {"moe_intermediate_size", 32}};
    config.update(more);
    write_small_llama(dir / "model", config);
  };
  const auto exported = [&] {
    EXPECT_EQ(export_gguf(dir / "model", dir / "m.gguf").read_back.rounded, 0u);
    return GgufFile::open(dir / "m.gguf");
  };
  write("glm4_moe", {{"routed_scaling_factor", 2.5}, {"num_nextn_predict_layers", 1}});
  const auto file = exported();
  const model::GgufMetadata& glm = file->metadata();
  EXPECT_EQ(glm.need_text("general.architecture"), "glm4moe");
  EXPECT_EQ(glm.natural("glm4moe.block_count"), 2u);
  EXPECT_EQ(glm.natural("glm4moe.leading_dense_block_count"), 1u);
  EXPECT_EQ(glm.natural("glm4moe.expert_count"), 4u) << "although the first block has none";
  EXPECT_EQ(glm.natural("glm4moe.expert_shared_count"), 2u);
  EXPECT_EQ(glm.natural("glm4moe.expert_gating_func"), 2u);
  EXPECT_EQ(glm.number("glm4moe.expert_weights_scale"), 2.5);
  EXPECT_EQ(glm.truth("glm4moe.expert_weights_norm"), true);
  EXPECT_EQ(glm.natural("glm4moe.rope.dimension_count"), 8u);
  EXPECT_EQ(glm.find("glm4moe.expert_group_count"), nullptr);
  EXPECT_EQ(glm.find("glm4moe.nextn_predict_layers"), nullptr);
  EXPECT_EQ(file->tensor("blk.1.exp_probs_b.bias").shape, (std::vector<std::uint64_t>{4}));
  EXPECT_EQ(file->tensor("blk.1.ffn_up_shexp.weight").shape, (std::vector<std::uint64_t>{64, 64}));
  EXPECT_EQ(file->tensor("blk.1.exp_probs_b.bias").type, BlockType::kF32);
  EXPECT_EQ(file->tensor("blk.1.ffn_gate_inp.weight").type, BlockType::kF32) << "as the converter leaves routers";
  EXPECT_EQ(file->tensor("blk.1.ffn_up_exps.weight").type, BlockType::kF16);
  EXPECT_NE(file->find("blk.0.ffn_up.weight"), nullptr);
  EXPECT_EQ(file->find("blk.1.ffn_norm.weight"), nullptr) << "it is post_attention_norm there";

  const nlohmann::json dots1{{"n_group", 2},
                             {"topk_group", 1},
                             {"first_k_dense_replace", 1},
                             {"num_key_value_heads", 4},
                             {"tie_word_embeddings", true}};
  write("dots1", dots1);
  const auto dots = exported();
  EXPECT_EQ(dots->metadata().natural("dots1.expert_group_count"), 2u);
  EXPECT_EQ(dots->metadata().natural("dots1.expert_group_used_count"), 1u);
  EXPECT_NE(dots->find("output.weight"), nullptr) << "tied or not";
  export_gguf(dir / "m.gguf", dir / "again.gguf");
  EXPECT_EQ(GgufFile::open(dir / "again.gguf")->metadata().natural("dots1.expert_group_count"), 2u);

  const auto run = [&] { return export_gguf(dir / "model", dir / "m.gguf", {}); };
  write("glm4_moe", {{"first_k_dense_replace", 2}});
  EXPECT_TRUE(throws_with<InvalidArgument>(run, "'glm4moe'", "a network without experts"));
  write("dots1", {{"attention_bias", true}, {"num_key_value_heads", 4}});
  EXPECT_TRUE(throws_with<InvalidArgument>(run, "q_proj' has a bias"));
  write("dots1", {{"num_key_value_heads", 2}});
  EXPECT_TRUE(throws_with<InvalidArgument>(run, "'dots1'", "2 key-value heads beside 4"));
}

TEST(GgufExport, TellsWhichBlocksOfErnieAreMixtures) {
  const TempDir dir;
  const nlohmann::json ernie{{"model_type", "ernie4_5_moe"}, {"moe_num_experts", 4},        {"moe_k", 2},
                             {"moe_num_shared_experts", 2},  {"moe_intermediate_size", 32}, {"num_hidden_layers", 4}};
  write_small_llama(dir / "model", ernie);
  EXPECT_EQ(export_gguf(dir / "model", dir / "m.gguf").read_back.rounded, 0u);
  const auto file = GgufFile::open(dir / "m.gguf");
  const model::GgufMetadata& metadata = file->metadata();
  EXPECT_EQ(metadata.need_text("general.architecture"), "ernie4_5-moe");
  EXPECT_EQ(metadata.natural("ernie4_5-moe.leading_dense_block_count"), 1u);
  EXPECT_EQ(metadata.natural("ernie4_5-moe.interleave_moe_layer_step"), 1u);
  EXPECT_EQ(metadata.natural("ernie4_5-moe.expert_count"), 4u);
  EXPECT_EQ(metadata.natural("ernie4_5-moe.expert_used_count"), 2u);
  EXPECT_EQ(metadata.natural("ernie4_5-moe.expert_shared_count"), 2u);
  EXPECT_EQ(metadata.natural("ernie4_5-moe.expert_shared_feed_forward_length"), 64u);
  EXPECT_EQ(file->tensor("blk.3.exp_probs_b.bias").shape, (std::vector<std::uint64_t>{4}));
  EXPECT_NE(file->find("blk.0.ffn_up.weight"), nullptr);

  auto every_other = ernie;
  every_other["moe_layer_interval"] = 2;
  write_small_llama(dir / "model", every_other);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { export_gguf(dir / "model", dir / "n.gguf"); },
                                           "block 2: mixture of experts (whether there is one)"));
}

// ---- every golden family

/// Why a golden model is refused; empty: it is not.
std::string_view refusal_of(std::string_view family) {
  if (family == "gpt_neo" || family == "gptj" || family == "opt") return "llama.cpp has no code for model_type";
  for (const char* unwritten : {"cwm", "helium", "hyperclovax", "mellum", "nanochat", "vaultgemma"})
    if (family == unwritten) return "files are not written of model_type";
  if (family == "ernie4_5" || family == "seed_oss") return "o_proj' has a bias, which llama.cpp does not add there";
  if (family == "gemma2" || family == "gemma3") return "block 0: scale of scores";  // no key says that it is another
  if (family == "gemma3-sees") return "block 2 without a window";                   // of every six the last
  if (family == "smollm3") return "block 1: rotary embedding";                      // every fourth is left out
  if (family == "qwen2_moe") return "block 1: mixture of experts";                  // all blocks have experts
  if (family == "exaone4") return "windows in 4 blocks";
  if (family == "olmoe") return "a norm over 16 keys";
  return "";
}

class GgufFamilies : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, GgufFamilies, testing::ValuesIn(test::kGoldenFamilies), test::family_test_name);

TEST_P(GgufFamilies, ComeBackAsTheyWere) {
  const std::string family = GetParam();
  NIBBLE_NEEDS_FAMILY(family);
  const TempDir dir;
  std::filesystem::create_directory(dir / "model");
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy(test::golden_family(family) / file, dir / "model" / file);
  test::write_tokenizer(dir / "model", 320);
  const auto run = [&] { return export_gguf(dir / "model", dir / "m.gguf"); };
  if (const std::string_view refusal = refusal_of(family); !refusal.empty()) {
    EXPECT_TRUE(throws_with<InvalidArgument>(run, refusal));
    EXPECT_FALSE(std::filesystem::exists(dir / "m.gguf"));
    return;
  }
  const ExportResult result = run();
  EXPECT_GT(result.read_back.values, 10'000u);
  EXPECT_EQ(result.read_back.rounded, 0u);
}

}  // namespace
}  // namespace nibble::exporting
