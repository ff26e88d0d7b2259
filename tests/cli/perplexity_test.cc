#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/cli/nibble.h"
#include "tests/support/compare.h"

namespace nibble::test {
namespace {

using testing::HasSubstr;

struct Perplexity : testing::Test {
  TempDir temp;
  std::string model = demo_path("gpt2-demo");
};

TEST_F(Perplexity, JsonHasEveryKeyOfTheProtocol) {
  const auto result = nibble_json({"perplexity", model, "--text", kEvalText, "--max-tokens", "800"});
  for (const char* key : {"perplexity",    "perplexity_stderr", "nll_nats_per_token",
                          "bits_per_byte", "tokens_scored",     "tokens_per_second",
                          "protocol",      "context",           "stride",
                          "model",         "bits_per_weight",   "method",
                          "average",       "windows",           "threads",
                          "gemm",          "tokenizer_hash",    "text_hash",
                          "tokens_hash",   "model_fingerprint", "peak_anonymous_bytes"})
    EXPECT_TRUE(result.contains(key) && !result[key].is_null()) << key;
  EXPECT_EQ(result["protocol"], "sliding");
  EXPECT_EQ(result["context"], 256);  // the model's own
  EXPECT_EQ(result["stride"], 128);
  EXPECT_EQ(result["tokens"], 800);
  EXPECT_EQ(result["tokens_scored"], 799);
  EXPECT_EQ(result["bits_per_weight"], 16);
  // ln(perplexity), by definition; both are printed with 17 digits.
  EXPECT_TRUE(near(result["nll_nats_per_token"], std::log(result["perplexity"].get<double>()), {.rel = 1e-14}));
}

TEST_F(Perplexity, WithoutATokenizerTokenIdsAreAskedFor) {
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(std::filesystem::path(model) / name, temp / name);
  const std::string bare = temp.path(), hint = "give token ids by --tokens FILE in place of --text";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"perplexity", bare, "--text", kEvalText},
        std::vector<std::string>{"calibrate", bare, "--text", kEvalText, "-o", temp / "calib.h5"}}) {
    const ProgramRun run = nibble(arguments);
    EXPECT_EQ(run.exit_code, 3) << run.err;
    EXPECT_THAT(run.err, HasSubstr(hint));
  }
}

TEST_F(Perplexity, ASingleWindowHasNoStandardError) {
  const auto result = nibble_json({"perplexity", model, "--text", kEvalText, "--max-tokens", "100"});
  EXPECT_EQ(result["windows"], 1);
  EXPECT_TRUE(result["perplexity_stderr"].is_null());
}

TEST_F(Perplexity, TokenFilesNeedNoTokenizer) {
  ASSERT_EQ(nibble({"tokenize", model, "--text", kEvalText, "-o", temp / "eval.u16"}).exit_code, 0);
  std::filesystem::create_directory(temp / "bare");
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(std::filesystem::path(model) / name, temp / "bare" / name);

  const std::vector<std::string> options = {"--protocol", "blocks", "--max-tokens", "800"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), options.begin(), options.end());
    return nibble_json(arguments);
  };
  const auto text = with({"perplexity", model, "--text", kEvalText});
  const auto tokens = with({"perplexity", model, "--tokens", temp / "eval.u16"});
  const auto bare = with({"perplexity", temp / "bare", "--tokens", temp / "eval.u16"});
  EXPECT_EQ(tokens["perplexity"], text["perplexity"]);
  EXPECT_EQ(tokens["bits_per_byte"], text["bits_per_byte"]);
  EXPECT_EQ(tokens["tokens_hash"], text["tokens_hash"]);
  EXPECT_TRUE(tokens["text_hash"].is_null());
  EXPECT_EQ(bare["perplexity"], text["perplexity"]);
  EXPECT_TRUE(bare["bits_per_byte"].is_null());
  EXPECT_TRUE(bare["tokenizer_hash"].is_null());

  const ProgramRun no_tokenizer = nibble({"perplexity", temp / "bare", "--text", kEvalText});
  EXPECT_EQ(no_tokenizer.exit_code, 3);
  EXPECT_THAT(no_tokenizer.err, HasSubstr("tokenizer.json"));
}

TEST_F(Perplexity, WindowsBeginWithTheBosWhereItIsAskedFor) {
  const std::string with_bos = temp / "with-bos";
  std::filesystem::copy(model, with_bos, std::filesystem::copy_options::recursive);
  write_file(temp / "with-bos" / "tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<|endoftext|>"})");
  ASSERT_EQ(nibble({"tokenize", model, "--text", kEvalText, "-o", temp / "eval.u16"}).exit_code, 0);
  std::string ids = read_file(temp / "eval.u16").substr(0, 2 * 800);
  for (std::size_t window = 0; window < 800; window += 100) ids.replace(2 * window, 2, "\xff\x07", 2);  // 2047
  write_file(temp / "behind.u16", ids);

  const std::vector<std::string> blocks = {"--protocol", "blocks", "--context", "100", "--max-tokens", "800"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), blocks.begin(), blocks.end());
    return arguments;
  };
  const auto bos = nibble_json(with({"perplexity", with_bos, "--text", kEvalText, "--bos", "--reference", model}));
  const auto replaced = nibble_json(with({"perplexity", model, "--tokens", temp / "behind.u16"}));
  const auto plain = nibble_json(with({"perplexity", with_bos, "--text", kEvalText}));
  EXPECT_EQ(bos["bos"], 2047);
  EXPECT_TRUE(plain["bos"].is_null());
  EXPECT_EQ(bos["perplexity"], replaced["perplexity"]);
  EXPECT_EQ(bos["reference"]["kl_nats_per_token"], 0.0) << "both models begin alike";
  EXPECT_NE(plain["perplexity"], bos["perplexity"]);
  EXPECT_THAT(nibble(with({"perplexity", with_bos, "--text", kEvalText, "--bos"})).out,
              HasSubstr("blocks, context 100, windows behind the BOS"));

  std::string noise;  // of which no model makes sense
  for (unsigned i = 0; i < 800; ++i) noise += {static_cast<char>(i * i * 7 % 251), static_cast<char>(i * 3 % 7)};
  write_file(temp / "noise.u16", noise);
  const auto warned = [&](const std::string& of, const char* option = "--quiet") {
    const ProgramRun run = nibble(with({"perplexity", of, "--tokens", temp / "noise.u16", option}));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return testing::Value(run.err, HasSubstr("lack the BOS that the tokenizer puts before texts"));
  };
  EXPECT_TRUE(warned(with_bos));
  EXPECT_FALSE(warned(with_bos, "--bos"));
  EXPECT_FALSE(warned(model)) << "it has no BOS to put there";
  const ProgramRun sensible = nibble(with({"perplexity", with_bos, "--text", kEvalText}));
  EXPECT_EQ(sensible.exit_code, 0) << sensible.err;
  EXPECT_THAT(sensible.err, testing::Not(HasSubstr("lack the BOS")));
  // Unasked in `half`.
  const auto half = [&](const std::string& of) {
    return nibble_json({"perplexity", of, "--text", kEvalText, "--protocol", "half", "--max-tokens", "800"})["bos"];
  };
  EXPECT_EQ(half(with_bos), 2047);
  EXPECT_TRUE(half(model).is_null());

  const ProgramRun none = nibble(with({"perplexity", model, "--text", kEvalText, "--bos"}));
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("bos: expected a tokenizer that puts a BOS before texts"));
}

TEST_F(Perplexity, NeitherThreadsNorAttentionChangeIt) {
  const auto run = [&](const char* threads, const char* attention) {
    return nibble_json({"perplexity", model, "--text", kEvalText, "--max-tokens", "1000", "--threads", threads,
                        "--attention", attention})["perplexity"]
        .get<double>();
  };
  EXPECT_EQ(run("1", "fused"), run("3", "fused"));
  // Sums of up to 256 float products in another order.
  EXPECT_TRUE(near(run("1", "decomposed"), run("1", "fused"), {.rel = 1e-5}));
}

TEST_F(Perplexity, ComputeSaysHowProductsAreMade) {
  ASSERT_EQ(nibble({"quantize", model, "-o", temp / "q"}).exit_code, 0);
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"perplexity", temp / "q", "--text", kEvalText, "--max-tokens", "600"});
    return nibble_json(more);
  };
  const auto reference = run({});
  EXPECT_EQ(reference["compute"], "reference");
  EXPECT_EQ(reference["kernels"], nlohmann::json({"gemm"}));
  const auto exact = run({"--compute", "exact"});
  EXPECT_EQ(exact["compute"], "exact");
  EXPECT_THAT(exact["kernels"].dump(), HasSubstr("packed_exact_"));
  EXPECT_TRUE(near(exact["perplexity"], reference["perplexity"].get<double>(), {.rel = 1e-6}));
  EXPECT_THAT(run({"--compute", "int8"})["kernels"].dump(), HasSubstr("packed_int8_"));

  // The reference of a comparison never takes the mode of the model.
  const auto self = run({"--compute", "exact", "--reference", temp / "q"});
  EXPECT_EQ(self["reference"]["perplexity"], reference["perplexity"]);
}

TEST_F(Perplexity, AReferenceAddsTheDivergenceFromIt) {
  const std::vector<std::string> options = {"--text", kEvalText, "--max-tokens", "800", "--reference", model};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), options.begin(), options.end());
    return arguments;
  };
  const auto self = nibble_json(with({"perplexity", model}))["reference"];
  EXPECT_EQ(self["kl_nats_per_token"], 0.0);
  EXPECT_EQ(self["top1_agreement"], 1.0);
  EXPECT_EQ(self["perplexity_ratio"], 1.0);

  ASSERT_EQ(nibble({"quantize", model, "--set", "bits=3", "-o", temp / "q"}).exit_code, 0);
  const auto quantized = nibble_json(with({"perplexity", temp / "q"}));
  const auto& reference = quantized["reference"];
  EXPECT_EQ(quantized["perplexity"],
            nibble_json({"perplexity", temp / "q", "--text", kEvalText, "--max-tokens", "800"})["perplexity"]);
  EXPECT_TRUE(near(reference["perplexity_ratio"],
                   quantized["perplexity"].get<double>() / reference["perplexity"].get<double>(), {.rel = 1e-12}));
  EXPECT_GT(reference["kl_nats_per_token"], reference["kl_median"]);
  EXPECT_GT(reference["kl_999"], reference["kl_99"]);
  const ProgramRun run = nibble(with({"perplexity", temp / "q"}));
  for (const char* words : {"KL divergence", "same top token", "(paired)"}) EXPECT_THAT(run.out, HasSubstr(words));
}

// Every text has what it has alone; together are the means over all windows (tests/eval/quality/perplexity_test.cc).
TEST_F(Perplexity, SeveralTextsAreGivenOneByOneAndTogether) {
  ASSERT_EQ(nibble({"quantize", model, "--set", "bits=3", "-o", temp / "q"}).exit_code, 0);
  const std::string other = demo_path("calibration.txt");
  const auto with = [&](std::vector<std::string> texts) {
    texts.insert(texts.begin(),
                 {"perplexity", temp / "q", "--max-tokens", "800", "--protocol", "blocks", "--reference", model});
    return texts;
  };
  const auto both = nibble_json(with({"--text", kEvalText, "--text", other, "--use", "validation"}));
  EXPECT_EQ(both["use"], "validation");
  EXPECT_EQ(both["tokens"], 1600);
  EXPECT_TRUE(both["text_hash"].is_null());
  ASSERT_EQ(both["texts"].size(), 2u);
  double nll = 0.0;
  for (const auto& [i, file] : {std::pair(0u, std::string(kEvalText)), {1u, other}}) {
    SCOPED_TRACE(file);
    const auto alone = nibble_json(with({"--text", file}));
    EXPECT_FALSE(alone.contains("use"));
    const auto& part = both["texts"][i];
    EXPECT_EQ(part["file"], file);
    for (const char* key : {"text_hash", "tokens", "tokens_scored", "windows"}) EXPECT_EQ(part[key], alone[key]) << key;
    // The same sums over windows; perplexities are exponentials of them.
    for (const char* key : {"perplexity", "perplexity_stderr"})
      EXPECT_TRUE(near(part[key], alone[key], {.rel = 1e-12})) << key;
    for (const char* key : {"kl_nats_per_token", "kl_stderr"})
      EXPECT_TRUE(near(part[key], alone["reference"][key], {.rel = 1e-12})) << key;
    nll += alone["nll_nats_per_token"].get<double>() / 2.0;  // as many windows in each
  }
  EXPECT_TRUE(near(both["nll_nats_per_token"], nll, {.rel = 1e-12}));
  const ProgramRun run = nibble(with({"--text", kEvalText, "--text", other, "--use", "test"}));
  EXPECT_THAT(run.out, testing::ContainsRegex(
                           "use +test\ntexts +.*eval.txt: perplexity .*\n +.*calibration.txt: perplexity .*, KL "));
}

TEST_F(Perplexity, HumanOutputNamesProtocolAndUnits) {
  const ProgramRun run =
      nibble({"perplexity", model, "--text", kEvalText, "--protocol", "half", "--max-tokens", "800"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* words : {"half, context 256", "perplexity", " ± ", "nats per token", "bits per byte", "tokens/s"})
    EXPECT_THAT(run.out, HasSubstr(words));
}

TEST_F(Perplexity, WrongUsageIsExplained) {
  const auto error_of = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"perplexity", model, "--max-tokens", "1000"});
    const ProgramRun run = nibble(options);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    return run.err;
  };
  EXPECT_THAT(error_of({}), HasSubstr("expected one of --text FILE and --tokens FILE, got neither"));
  EXPECT_THAT(error_of({"--text", kEvalText, "--tokens", "x.u16"}), HasSubstr("got both"));
  const std::filesystem::path eval = kEvalText;
  EXPECT_THAT(error_of({"--text", kEvalText, "--text", eval.parent_path() / "." / eval.filename()}),
              HasSubstr("is given twice"));
  EXPECT_THAT(error_of({"--text", kEvalText, "--use", "tst"}), HasSubstr("did you mean 'test'?"));
  EXPECT_THAT(error_of({"--text", kEvalText, "--protocol", "slding"}), HasSubstr("did you mean 'sliding'?"));
  EXPECT_THAT(error_of({"--text", kEvalText, "--average", "window"}), HasSubstr("did you mean 'windows'?"));
  EXPECT_THAT(error_of({"--text", kEvalText, "--attention", "fusd"}), HasSubstr("did you mean 'fused'?"));
  EXPECT_THAT(error_of({"--text", kEvalText, "--compute", "exat"}), HasSubstr("did you mean 'exact'?"));
  EXPECT_THAT(error_of({"--text", kEvalText, "--protocol", "blocks", "--stride", "64"}),
              HasSubstr("--stride belongs to"));
  EXPECT_THAT(error_of({"--text", kEvalText, "--protocol", "half", "--average", "tokens"}),
              HasSubstr("--average belongs"));
  EXPECT_THAT(error_of({"--text", kEvalText, "--stride", "300"}), HasSubstr("stride"));
  EXPECT_THAT(error_of({"--text", kEvalText, "--context", "1"}), HasSubstr("--context: expected a whole number"));
  EXPECT_THAT(error_of({"--text", kEvalText, "--context", "512"}), HasSubstr("256"));  // beyond learned positions
  EXPECT_THAT(error_of({"--tokens", "x.u16", "--hf-join"}), HasSubstr("--hf-join"));
}

TEST_F(Perplexity, AContextBeyondRotaryPositionsIsWarnedOf) {
  const auto warnings = [](const std::string& context) {
    const ProgramRun run =
        nibble({"perplexity", kLlamaDemo, "--text", kEvalText, "--max-tokens", "600", "-q", "--context", context});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.err;
  };
  EXPECT_EQ(warnings("256"), "");
  EXPECT_THAT(warnings("512"), HasSubstr("warning: windows of 512 tokens exceed the 256 positions"));
}

TEST_F(Perplexity, BadFilesAreFileErrors) {
  const auto code_of = [&](const std::string& option, const std::string& file) {
    return nibble({"perplexity", model, option, file}).exit_code;
  };
  EXPECT_EQ(code_of("--text", temp / "nothing.txt"), 3);
  write_file(temp / "empty.txt", "");
  EXPECT_EQ(code_of("--text", temp / "empty.txt"), 3);
  write_file(temp / "odd.u16", "abc");
  EXPECT_EQ(code_of("--tokens", temp / "odd.u16"), 3);
  write_file(temp / "large.u16", "\xFF\xFF");
  EXPECT_EQ(code_of("--tokens", temp / "large.u16"), 3);
  EXPECT_EQ(nibble({"perplexity", temp / "nothing", "--text", kEvalText}).exit_code, 3);
}

}  // namespace
}  // namespace nibble::test
