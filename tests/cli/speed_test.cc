#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/cli/nibble.h"
#include "tests/support/compare.h"

namespace nibble::test {
namespace {

using testing::HasSubstr;

TEST(Speed, JsonHasEveryFigureForEachContext) {
  const auto result = nibble_json({"speed", kLlamaDemo, "--context", "32,64", "--generate", "4", "--repeat", "2"});
  for (const char* key : {"model", "method", "compute", "kernels", "model_bytes", "weight_bytes_per_token",
                          "head_bytes", "peak_resident_bytes", "machine", "speeds"})
    EXPECT_TRUE(result.contains(key)) << key;
  EXPECT_GT(result["open_seconds"], 0.0);
  for (const char* key : {"processor", "threads", "isa", "gemm", "read_bytes_per_second", "gemm_flops_per_second"})
    EXPECT_TRUE(result["machine"].contains(key)) << key;
  // float16: 4 blocks of 196608 weights and a head of 2048 · 128, without the embedding and the norms.
  EXPECT_EQ(result["weight_bytes_per_token"], 2 * (4 * 196608 + 2048 * 128));
  ASSERT_EQ(result["speeds"].size(), 2u);
  EXPECT_EQ(result["speeds"][0]["prompt"], 27);
  EXPECT_EQ(result["speeds"][1]["context"], 64);
  for (const auto& row : result["speeds"]) {
    EXPECT_GT(row["ttft_seconds"]["median"], 0.0);
    EXPECT_GT(row["extend_tokens_per_second"]["median"], 0.0);
    EXPECT_TRUE(
        near(row["share_of_read_bandwidth"].get<double>() * result["machine"]["read_bytes_per_second"].get<double>(),
             result["weight_bytes_per_token"].get<double>() * row["extend_tokens_per_second"]["median"].get<double>(),
             {.rel = 1e-12}));
  }
}

// A palette is float16 in the file and float32 where products read it.
TEST(Speed, CountsTheHeadAsItLiesInMemoryToo) {
  const TempDir temp;
  const auto figures = [&](const std::string& name, const std::string& layers) {
    write_file(temp / (name + ".yaml"), "{defaults: {format: int4-block}, layers: [" + layers + "]}");
    EXPECT_EQ(nibble({"quantize", kLlamaDemo, "-o", temp / name, "--recipe", temp / (name + ".yaml"), "-q"}).exit_code,
              0);
    return nibble_json(
        {"speed", temp / name, "--prompt", "4", "--generate", "1", "--warm-up", "0", "--repeat", "1", "--skip-limits"});
  };
  const auto coded = figures("coded", "{match: lm_head, format: palette, bits: 8, granularity: channel}");
  const auto plain = figures("plain", "");
  const auto bytes = [](const nlohmann::json& of, const char* key) { return of[key].get<std::int64_t>(); };
  EXPECT_GE(bytes(coded, "head_bytes"), 2048 * (128 + 256 * 4)) << "codes and palettes";
  // They differ in the head alone.
  EXPECT_EQ(bytes(coded, "head_bytes") - bytes(plain, "head_bytes"),
            bytes(coded, "weight_bytes_per_token") - bytes(plain, "weight_bytes_per_token"));
}

TEST(Speed, DefaultsAreCutToThePositionsThatAModelHasLearned) {
  const std::vector<std::string> options = {"--warm-up", "0", "--repeat", "1", "--skip-limits"};
  std::vector<std::string> command = {"speed", kGpt2Demo, "--json"};
  command.insert(command.end(), options.begin(), options.end());
  for (const char* cache : {"state", "window"}) {
    auto with_cache = command;
    with_cache.insert(with_cache.end(), {"--cache", cache});
    const ProgramRun run = nibble(with_cache);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("do not fit the model's context"));
    const auto speeds = nlohmann::json::parse(run.out)["speeds"];
    EXPECT_EQ(speeds[0]["prompt"], 127);
    EXPECT_EQ(speeds[0]["generate"], 128);
  }
}

TEST(Speed, SaysWhichOptionsAskForMorePositionsThanAModelHasLearned) {
  const auto error_of = [](std::vector<std::string> options) {
    options.insert(options.begin(), {"speed", kGpt2Demo, "--skip-limits"});
    const ProgramRun run = nibble(options);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    return run.err;
  };
  EXPECT_THAT(error_of({"--prompt", "300"}),
              HasSubstr("--prompt 300 and --generate 128 need 429 positions, the model has 256"));
  EXPECT_THAT(error_of({"--context", "64,512"}), HasSubstr("--context 512: the model has 256 positions"));
  EXPECT_THAT(error_of({"--cache", "window", "--prompt", "200"}),
              HasSubstr("--prompt 200 and --generate 128 need 328 positions, the model has 256"));
  EXPECT_THAT(
      error_of({"--cache", "window", "--context", "512"}),
      HasSubstr("--context 512: a prompt and tokens generated behind it take 511 positions, the model has 256"));
  EXPECT_THAT(error_of({"--cache", "window", "--context", "32"}),
              HasSubstr("--context 32: expected more than --window-chunk, 64"));
  EXPECT_THAT(error_of({"--cache", "window", "--window-chunk", "600"}),
              HasSubstr("--window-context 512: expected more than --window-chunk, 600"));
}

TEST(Speed, WarnsOfNoCutBeforeItRefuses) {
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--context", "64,512"},
        std::vector<std::string>{"--context", "300", "--prompt", "200"},
        std::vector<std::string>{"--cache", "window", "--window-chunk", "600"}}) {
    std::vector<std::string> command = {"speed", kGpt2Demo, "--skip-limits"};
    command.insert(command.end(), options.begin(), options.end());
    const ProgramRun run = nibble(command);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_THAT(run.err, testing::Not(HasSubstr("are measured"))) << options[1];
  }
}

// Blocks of 16 inputs are decoded at every use, whatever the mode.
TEST(Speed, SaysWhereNothingIsMultipliedInBytes) {
  const TempDir temp;
  for (const auto& [group, warned] : {std::pair("16", true), std::pair("32", false)}) {
    const std::string model = temp / group;
    ASSERT_EQ(nibble({"quantize", kLlamaDemo, "-o", model, "--set", "format=uniform", "--set", "bits=4", "--set",
                      std::string("group_size=") + group, "-q"})
                  .exit_code,
              0);
    const ProgramRun run = nibble({"speed", model, "--compute", "int8", "--prompt", "8", "--generate", "2", "--warm-up",
                                   "0", "--repeat", "1", "--skip-limits"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.err.find("no layer of") != std::string::npos, warned) << run.err;
  }
}

TEST(Speed, TableAndCsv) {
  const std::vector<std::string> options = {"speed",     kLlamaDemo, "--prompt", "8", "--generate",    "2",
                                            "--warm-up", "0",        "--repeat", "1", "--skip-limits", "--cache",
                                            "none"};
  const ProgramRun table = nibble(options);
  ASSERT_EQ(table.exit_code, 0) << table.err;
  for (const char* words : {"opened", "first token, ms", "tok/s", "peak resident", "kernels", "none"})
    EXPECT_THAT(table.out, HasSubstr(words));
  auto with_csv = options;
  with_csv.emplace_back("--csv");
  const ProgramRun csv = nibble(with_csv);
  EXPECT_THAT(csv.out, HasSubstr("model,threads,isa,cache"));
  EXPECT_THAT(csv.out, HasSubstr(",none,f32,11,8,2,"));
}

TEST(Speed, AContextSetsAWindowsPositions) {
  const ProgramRun run =
      nibble({"speed", kLlamaDemo, "--cache", "window", "--context", "64", "--window-context", "32"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("--context sets the positions of a window too"));
}

TEST(Speed, Bf16IsAShareOfTheLibrarysBf16Rate) {
  const auto result = nibble_json({"speed", kLlamaDemo, "--prompt", "64", "--generate", "2", "--warm-up", "0",
                                   "--repeat", "1", "--compute", "bf16"});
  EXPECT_THAT(result["kernels"].dump(), HasSubstr("_bf16"));
  const double rate = result["machine"]["bf16_gemm_flops_per_second"];
  const auto& row = result["speeds"][0];
  ASSERT_EQ(row["prompt_share_of_bf16_gemm_rate"].is_null(), rate == 0.0) << "a processor without bf16 instructions";
  if (rate == 0.0) return;
  EXPECT_TRUE(near(row["prompt_share_of_bf16_gemm_rate"].get<double>() * rate,
                   row["prompt_flops_per_second"].get<double>(), {.rel = 1e-12}));
}

TEST(Speed, WrongUsageIsExplained) {
  const auto error_of = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"speed", kLlamaDemo, "--skip-limits"});
    const ProgramRun run = nibble(options);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    return run.err;
  };
  EXPECT_THAT(error_of({"--context", "12,x"}), HasSubstr("'x'"));
  EXPECT_THAT(error_of({"--compute", "quick"}), HasSubstr("'quick'"));
  EXPECT_THAT(error_of({"--csv", "--json"}), HasSubstr("--csv"));
  EXPECT_THAT(error_of({"--cache-size", "8"}), HasSubstr("unknown option '--cache-size'"));
}

// What does not fit is cut, and said.
TEST(Speed, TellsWhatItMeasuresInPlaceOfWhatDoesNotFit) {
  const std::vector<std::string> command{"speed", kLlamaDemo, "--skip-limits", "--repeat", "1", "--warm-up", "0"};
  const auto with = [&](std::vector<std::string> options) {
    options.insert(options.begin(), command.begin(), command.end());
    const ProgramRun run = nibble(options);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.err;
  };
  EXPECT_THAT(with({"--prompt", "8", "--generate", "4", "--context", "4"}),
              HasSubstr("4 generated tokens after a prompt of 8 do not fit a context of 4: 2 after 1 are measured"));
  EXPECT_THAT(with({"--generate", "2", "--context", "8", "--quiet"}), testing::Not(HasSubstr("do not fit")));
}

TEST(Evaluate, JoinsPerplexityDivergenceAndSpeed) {
  const auto result = nibble_json({"evaluate", kLlamaDemo, "--text", demo_path("eval.txt"), "--max-tokens", "600",
                                   "--reference", kLlamaDemo, "--prompt", "8", "--generate", "2", "--skip-limits"});
  // The packed kernels sum in another order than the reference's decoding: the float rounding of logits.
  EXPECT_TRUE(near(result["reference"]["kl_nats_per_token"], 0.0, {.abs = 1e-8}));
  EXPECT_TRUE(near(result["perplexity"], result["reference"]["perplexity"], {.rel = 1e-6}));
  EXPECT_EQ(result["speed"]["speeds"][0]["prompt"], 8);
}

TEST(Evaluate, NamesItsProtocolAsPerplexityDoes) {
  const std::vector<std::string> text = {"--text", demo_path("eval.txt"), "--max-tokens", "300", "--context", "64"};
  const auto with = [&](std::vector<std::string> command, const std::vector<std::string>& options) {
    command.insert(command.end(), text.begin(), text.end());
    command.insert(command.end(), options.begin(), options.end());
    return command;
  };
  const TempDir temp;
  const std::string with_bos = temp / "with-bos";
  std::filesystem::copy(kLlamaDemo, with_bos, std::filesystem::copy_options::recursive);
  write_file(temp / "with-bos" / "tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<|endoftext|>"})");
  const std::vector<std::string> evaluate = {"evaluate", with_bos, "--prompt",     "8", "--generate", "2",
                                             "--repeat", "1",      "--skip-limits"};
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{}, std::vector<std::string>{"--stride", "16"},
        std::vector<std::string>{"--protocol", "half"}, std::vector<std::string>{"--bos"}}) {
    const auto result = nibble_json(with(evaluate, options));
    const auto perplexity = nibble_json(with({"perplexity", with_bos}, options));
    EXPECT_EQ(result["bos"].is_null(), options.empty() || options[0] == "--stride");
    for (const char* key : {"protocol", "context", "stride", "average", "bos", "tokenizer_hash", "tokens_hash"})
      EXPECT_EQ(result.value(key, nlohmann::json("missing")), perplexity[key]) << key;
  }
  EXPECT_THAT(nibble(with(evaluate, {})).out, HasSubstr("sliding, context 64, stride 32, mean over windows, "));
}

TEST(Evaluate, RefusesAReferenceOfAnotherTokenizer) {
  const TempDir other;
  std::filesystem::copy(kLlamaDemo, other.path(), std::filesystem::copy_options::recursive);
  auto tokenizer = nlohmann::json::parse(read_file(other / "tokenizer.json"));
  auto& vocabulary = tokenizer["model"]["vocab"];
  std::swap(vocabulary[","], vocabulary["."]);
  std::filesystem::remove(other / "tokenizer.json");  // not the demo's, should that be a link
  write_file(other / "tokenizer.json", tokenizer.dump());
  const ProgramRun run = nibble({"evaluate", kLlamaDemo, "--text", kEvalText, "--max-tokens", "100", "--reference",
                                 other.path().string(), "--prompt", "8", "--generate", "2", "--skip-limits"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("another tokenizer than the model"));
}

TEST(Evaluate, ASingleWindowHasNoStandardErrors) {
  const std::vector<std::string> text = {"--text", kEvalText, "--max-tokens", "100", "--reference", kLlamaDemo};
  for (std::vector<std::string> command :
       {std::vector<std::string>{"evaluate", kLlamaDemo, "--prompt", "8", "--generate", "2", "--skip-limits"},
        std::vector<std::string>{"perplexity", kLlamaDemo}}) {
    command.insert(command.end(), text.begin(), text.end());
    const ProgramRun run = nibble(command);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("KL divergence"));
    EXPECT_THAT(run.out, testing::Not(HasSubstr("± nan")));
  }
}

}  // namespace
}  // namespace nibble::test
