#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "calib/stats/layer_stats.h"
#include "calib/stats/stats_file.h"
#include "calib/stats/stats_writer.h"
#include "tests/calib/stats/example_stats.h"
#include "tests/cli/nibble.h"
#include "tests/support/compare.h"

namespace nibble::test {
namespace {

using testing::HasSubstr;

struct Calibrate : testing::Test {
  TempDir temp;
  std::string model = demo_path("llama-demo"), text = demo_path("calibration.txt"), output = temp / "calib.h5";
  std::string samples = "6";

  std::vector<std::string> command(const std::vector<std::string>& more, const std::string& file = "calib.h5") const {
    std::vector<std::string> all = {"calibrate", model,       "--text", text, "--length",
                                    "32",        "--samples", "6",      "-o", temp / file};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(Calibrate, WritesAFileAndSaysWhatItTook) {
  const auto result = nibble_json(command({"--seed", "3"}));
  EXPECT_EQ(result["tokens"], 6 * 32);
  EXPECT_EQ(result["settings"]["seeds"], "3");
  EXPECT_EQ(result["settings"]["collected"], "activations,fisher");
  EXPECT_EQ(result["output_bytes"], std::filesystem::file_size(output));
  for (const char* key : {"seconds", "tokens_per_second", "threads", "peak_anonymous_bytes", "planned_memory_bytes"})
    EXPECT_GT(result[key], 0) << key;
  EXPECT_EQ(calib::StatsFile::open(output)->settings().windows, 6u);
  EXPECT_EQ(result["share_done"], 1.0);
  EXPECT_EQ(nibble_json(command({"--collect", "activations"}, "means.h5"))["share_done"], 1.0);
  const auto again = nibble_json(command({"--seed", "3"}));
  EXPECT_EQ(again["share_done"], 0.0);
  EXPECT_EQ(again["tokens_per_second"], 0.0) << "nothing ran";
  EXPECT_THAT(nibble(command({"--seed", "3"})).out, HasSubstr("nothing was left to run"));
}

TEST_F(Calibrate, MakesTheDirectoriesOfItsOutput) {
  const std::string made = temp / "new/calib.h5", merged = temp / "newer/still/calib.h5";
  ASSERT_EQ(nibble(command({"--seed", "1"}, "new/calib.h5")).exit_code, 0);
  ASSERT_EQ(nibble(command({"--seed", "2"})).exit_code, 0);
  EXPECT_EQ(nibble({"calibrate", "--merge", made, output, "-o", merged}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(merged));
}

TEST_F(Calibrate, AnnouncesTimeMemoryAndDiskBefore) {
  const ProgramRun run = nibble(command({}));
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.err, HasSubstr("6 windows of 32 tokens; about "));
  EXPECT_THAT(run.err, HasSubstr(" of memory ("));
  EXPECT_THAT(run.err, HasSubstr(" of disk\n"));
  EXPECT_EQ(nibble(command({"--quiet"}, "other.h5")).err, "");
}

TEST_F(Calibrate, ShowPrintsALinePerLayer) {
  ASSERT_EQ(nibble(command({"--head"})).exit_code, 0);
  const auto shown = nibble_json({"calibrate", "--show", output});
  EXPECT_EQ(shown["layers"].size(), 4 * 7 + 1);
  for (const auto& layer : shown["layers"]) {
    EXPECT_GT(layer["mean_abs_x"], 0.0);
    EXPECT_GT(layer["outlier_ratio"], 1.0);
    EXPECT_GT(layer["fisher_mass"], 0.0);
    EXPECT_EQ(layer["dead_channels"], 0);
  }
  const ProgramRun run = nibble({"calibrate", "--show", output});
  EXPECT_THAT(run.out, HasSubstr("Fisher mass"));
  EXPECT_THAT(run.out, HasSubstr("model.layers.3.mlp.down_proj"));
  EXPECT_THAT(run.out, HasSubstr("lm_head"));
}

TEST_F(Calibrate, ShowMarksWhatWasNotCollected) {
  ASSERT_EQ(nibble(command({"--collect", "hessian"})).exit_code, 0);
  EXPECT_TRUE(nibble_json({"calibrate", "--show", output})["layers"][0]["fisher_mass"].is_null());
  EXPECT_THAT(nibble({"calibrate", "--show", output}).out, HasSubstr("  -  "));
}

// An expert that no token chose has nothing to show; the others have.
TEST_F(Calibrate, ShowPassesOverALayerWithoutTokens) {
  {
    calib::StatsWriter writer(output, calib::example_settings());
    calib::LayerSums unseen("unseen", 3, 4, calib::kEverything);
    unseen.samples = calib::example_settings().windows;
    writer.add(unseen.rounded());
    writer.add(calib::example_layer("seen", 3, 4, 1));
    writer.commit();
  }
  const auto shown = nibble_json({"calibrate", "--show", output});
  ASSERT_EQ(shown["layers"].size(), 2u);
  for (const auto& layer : shown["layers"])
    EXPECT_EQ(layer["mean_abs_x"].is_null(), layer["layer"] == "unseen") << layer;
  EXPECT_EQ(nibble({"calibrate", "--show", output}).exit_code, 0);
}

TEST_F(Calibrate, ShowSaysHowManyTokensAGuidedHessianIsWorth) {
  ASSERT_EQ(nibble(command({"--collect", "guided-hessian"})).exit_code, 0);
  const nlohmann::json shown = nibble_json({"calibrate", "--show", output});
  for (const auto& layer : shown["layers"]) {
    EXPECT_GT(layer["effective_tokens"], 1.0);
    EXPECT_LT(layer["effective_tokens"], layer["tokens"]) << "gradients differ";
  }
  EXPECT_THAT(nibble({"calibrate", "--show", output}).out, HasSubstr("guided tokens"));
}

TEST_F(Calibrate, TheHeadGoesWithoutAnOutputHessian) {
  ASSERT_EQ(nibble(command({"--collect", "output-hessian", "--head"})).exit_code, 0);
  const auto file = calib::StatsFile::open(output);
  for (const calib::LayerInfo& info : file->layers())
    EXPECT_EQ(info.holds.output_hessian, info.module != "lm_head") << info.module;
  const ProgramRun shown = nibble({"calibrate", "--show", output});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("output-hessian"));
  EXPECT_THAT(nibble({"calibrate", "--help"}).out, HasSubstr("output-hessian"));
}

TEST_F(Calibrate, PartsMerge) {
  ASSERT_EQ(nibble(command({"--seed", "1"}, "a.h5")).exit_code, 0);
  ASSERT_EQ(nibble(command({"--seed", "2"}, "b.h5")).exit_code, 0);
  const std::vector<std::string> merge = {"calibrate", "--merge", temp / "a.h5", temp / "b.h5", "-o", output};
  EXPECT_EQ(nibble(merge).exit_code, 0);
  EXPECT_EQ(calib::StatsFile::open(output)->settings().windows, 12u);
  test::write_file(output + ".lock", "");  // of a run that was killed once its output had its name
  const ProgramRun again = nibble(merge);
  EXPECT_FALSE(std::filesystem::exists(output + ".lock"));
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("is there already"));
  const ProgramRun twice = nibble({"calibrate", "--merge", temp / "a.h5", temp / "a.h5", "-o", temp / "c.h5"});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, HasSubstr("same windows"));
}

// The same file as if another build had made it; none: an earlier version, which did not say.
void copy_as_of(const std::string& program, const std::string& from, const std::string& to) {
  const auto file = calib::StatsFile::open(from);
  calib::RunSettings settings = file->settings();
  settings.program = program;
  calib::StatsWriter writer(to, settings);
  for (const calib::LayerInfo& info : file->layers()) writer.add(file->read(info.module));
  writer.commit();
}

TEST_F(Calibrate, SaysWhichBuildMadeAFileAndWarnsOfSeveral) {
  ASSERT_EQ(nibble(command({"--seed", "1"}, "a.h5")).exit_code, 0);
  ASSERT_EQ(nibble(command({"--seed", "2"}, "b.h5")).exit_code, 0);
  const nlohmann::json version = nibble_json({"version", "--json"});
  const std::string program = nibble_json({"calibrate", "--show", temp / "a.h5"})["program"];
  EXPECT_THAT(program, testing::StartsWith(version["version"].get<std::string>() + " "));
  EXPECT_THAT(nibble({"calibrate", "--show", temp / "a.h5"}).out, HasSubstr(program));
  copy_as_of("0.0.1 another", temp / "b.h5", temp / "other.h5");
  copy_as_of("", temp / "b.h5", temp / "before.h5");
  EXPECT_TRUE(nibble_json({"calibrate", "--show", temp / "before.h5"})["program"].is_null());
  EXPECT_THAT(nibble({"calibrate", "--show", temp / "before.h5"}).out, HasSubstr("unknown"));

  const auto warnings = [&](const std::vector<std::string>& arguments) {
    std::filesystem::remove(output);
    const ProgramRun run = nibble(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.err;
  };
  const auto merge = [&](const char* b) {
    return warnings({"calibrate", "--merge", temp / "a.h5", temp / b, "-o", output});
  };
  EXPECT_EQ(merge("b.h5"), "");
  EXPECT_THAT(merge("other.h5"), HasSubstr("warning: the statistics that are added up are of different builds of the "
                                           "program ('0.0.1 another', '" +
                                           program + "')"));
  EXPECT_EQ(nibble_json({"calibrate", "--show", output})["program"], "0.0.1 another + " + program);
  EXPECT_THAT(merge("before.h5"), HasSubstr("'unknown'"));

  const auto extend = [&](const char* base) {
    std::vector<std::string> all = command({"--seed", "2", "-q", "--extend", temp / base});
    all[7] = "8";
    return warnings(all);
  };
  EXPECT_EQ(extend("b.h5"), "");
  EXPECT_THAT(extend("other.h5"), HasSubstr("of different builds of the program"));
}

// 64 windows of 32 tokens are a batch, so that both ways make the same products.
TEST_F(Calibrate, ExtendsAFileOfTheFirstWindows) {
  const auto collected = [&](const std::string& windows, std::vector<std::string> more, const std::string& file) {
    std::vector<std::string> all =
        command({"--collect", "activations,fisher,hessian,guided-hessian,output-hessian"}, file);
    all[7] = windows;
    all.insert(all.end(), more.begin(), more.end());
    return nibble(all);
  };
  ASSERT_EQ(collected("64", {}, "64.h5").exit_code, 0);
  ASSERT_EQ(collected("66", {}, "66.h5").exit_code, 0);
  const ProgramRun extending = collected("66", {"--extend", temp / "64.h5"}, "calib.h5");
  ASSERT_EQ(extending.exit_code, 0);
  EXPECT_THAT(extending.err, HasSubstr("calibrate: 2 windows of 32 tokens")) << "what is run, not what will be held";
  EXPECT_FALSE(std::filesystem::exists(output + ".added"));
  const auto made = calib::StatsFile::open(temp / "66.h5"), extended = calib::StatsFile::open(output);
  EXPECT_EQ(calib::differences(extended->settings(), made->settings()), "");
  for (const calib::LayerInfo& info : made->layers()) {
    const calib::LayerStats a = extended->read(info.module), b = made->read(info.module);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_TRUE(near(a.sum_s, b.sum_s, {.rel = 1e-12}));
    // Both are rounded to float once, the extended one's first part twice: 2^-24 each of sums of squares.
    EXPECT_TRUE(all_near(a.fisher.values(), b.fisher.values(), {.rel = 3 * 0x1p-24f}));
    EXPECT_TRUE(all_near(a.sum_x2, b.sum_x2, {.rel = 1e-12}));
    // The second batch's tokens weigh by the first windows' metric in both.
    EXPECT_TRUE(relative_error_within(a.sum_s_xxt.values(), b.sum_s_xxt.values(), 3 * 0x1p-24));
    EXPECT_TRUE(relative_error_within(a.sum_dydyt.values(), b.sum_dydyt.values(), 3 * 0x1p-24));
  }
  const ProgramRun plain = collected("66", {"--extend", temp / "64.h5", "--guide", "plain"}, "other.h5");
  EXPECT_EQ(plain.exit_code, 2);
  EXPECT_THAT(plain.err, HasSubstr("guide"));
  const ProgramRun fewer = collected("64", {"--extend", temp / "66.h5"}, "other.h5");
  EXPECT_EQ(fewer.exit_code, 2);
  EXPECT_THAT(fewer.err, HasSubstr("holds 66 windows"));
  const ProgramRun other = collected("66", {"--extend", temp / "64.h5", "--seed", "9"}, "other.h5");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("windows_hash"));
  EXPECT_THAT(collected("66", {"--extend", temp / "64.h5", "--labels", "sampled"}, "other.h5").err,
              HasSubstr("collect them anew"));
  EXPECT_FALSE(std::filesystem::exists(temp / "other.h5"));
}

TEST_F(Calibrate, TheGuideIsSaidAndDoesNotMix) {
  const std::string whitened = temp / "whitened.h5", plain = temp / "plain.h5";
  const auto guide_of = [&](const std::vector<std::string>& options, const std::string& file) {
    return nibble_json(command(options, file))["settings"]["guide"];
  };
  EXPECT_EQ(guide_of({"--collect", "activations,guided-hessian,output-hessian"}, "whitened.h5"), "whitened");
  EXPECT_THAT(nibble({"calibrate", "--show", whitened}).out, HasSubstr("guide whitened"));
  EXPECT_EQ(guide_of({"--collect", "output-hessian", "--guide", "plain"}, "plain.h5"), "plain");
  EXPECT_EQ(guide_of({"--collect", "activations,hessian"}, "unguided.h5"), "plain");
  // What earlier versions made without naming a guide.
  const ProgramRun again = nibble(command({"--collect", "output-hessian"}, "plain.h5"));
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("; --guide plain goes on with it"));
  EXPECT_EQ(guide_of({"--collect", "activations,guided-hessian", "--guide", "plain"}, "lacking.h5"), "plain");
  const ProgramRun lacking =
      nibble({"quantize", model, "--preset", "scalar", "--calib", temp / "lacking.h5", "-o", temp / "quantized"});
  EXPECT_THAT(lacking.err, HasSubstr("--collect output-hessian --guide plain"));
  const ProgramRun mixed = nibble(
      {"quantize", model, "--preset", "scalar", "--calib", whitened, "--calib", plain, "-o", temp / "quantized"});
  EXPECT_EQ(mixed.exit_code, 2);
  EXPECT_THAT(mixed.err, HasSubstr("a guide that is whitened and '"));
  const ProgramRun nothing = nibble(command({"--guide", "whitened"}));
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("guided-hessian and output-hessian, which are not collected"));
  EXPECT_THAT(nibble(command({"--collect", "guided-hessian", "--guide", "white"})).err,
              HasSubstr("expected plain or whitened"));
  EXPECT_FALSE(std::filesystem::exists(output));
}

TEST_F(Calibrate, TokenFilesGiveConsecutiveWindows) {
  ASSERT_EQ(nibble({"tokenize", model, "--text", demo_path("eval.txt"), "-o", temp / "ids.u16"}).exit_code, 0);
  const auto result = nibble_json({"calibrate", model, "--tokens", temp / "ids.u16", "--length", "64", "--samples", "3",
                                   "--collect", "activations", "-o", output});
  EXPECT_EQ(result["settings"]["sampling"], "consecutive windows");
  EXPECT_EQ(result["settings"]["windows"], "3");
  EXPECT_EQ(result["settings"]["tokenizer_hash"], "none");
}

TEST_F(Calibrate, WindowsBeginWithTheBosWhereItIsAskedFor) {
  const std::string with_bos = temp / "with-bos";
  std::filesystem::copy(model, with_bos, std::filesystem::copy_options::recursive);
  write_file(temp / "with-bos" / "tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<|endoftext|>"})");
  const auto settings_of = [&](const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"calibrate", with_bos, "--text",    text,          "--samples", "4",
                                          "--length",  "32",     "--collect", "activations", "-o",        file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(nibble(arguments).exit_code, 0);
    return nibble_json({"calibrate", "--show", file})["settings"];
  };
  const auto plain = settings_of(output, {});
  const auto behind = settings_of(temp / "behind.h5", {"--bos"});
  EXPECT_EQ(plain["sampling"], "random slices");
  EXPECT_EQ(behind["sampling"], "random slices behind the BOS");
  EXPECT_EQ(behind["text_hash"], plain["text_hash"]);
  EXPECT_NE(behind["windows_hash"], plain["windows_hash"]);
  const ProgramRun none = nibble(command({"--bos"}));
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("bos: expected a tokenizer that puts a BOS before texts"));

  // What such a file says goes with text that begins likewise, and with no file that does not.
  const auto quantized = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"quantize",        with_bos,     "--set",         "bits=3", "--set",
                                          "sequential=true", "--set",      "shifting=true", "--text", text,
                                          "--samples",       "2",          "--length",      "32",     "-o",
                                          temp / "out",      "--overwrite"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return nibble(arguments);
  };
  const std::string behind_file = temp / "behind.h5";
  EXPECT_EQ(quantized({"--calib", behind_file, "--bos"}).exit_code, 0);
  EXPECT_EQ(quantized({"--calib", output}).exit_code, 0);
  for (const auto& mixed : {std::vector<std::string>{"--calib", behind_file}, {"--calib", output, "--bos"}}) {
    const ProgramRun run = quantized(mixed);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err, HasSubstr("give --bos to both or to neither"));
  }
  const ProgramRun both = quantized({"--calib", behind_file, "--calib", output});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("collect both with --bos, or neither"));
}

TEST_F(Calibrate, CentringTakesMeansFromTheRunOrAFile) {
  ASSERT_EQ(nibble(command({"--centre", "own"}, "own.h5")).exit_code, 0);
  ASSERT_EQ(nibble(command({"--centre", temp / "own.h5"})).exit_code, 0);
  const std::string layer = "model.layers.2.mlp.gate_proj";
  EXPECT_TRUE(same_bits(calib::StatsFile::open(output)->read(layer).fisher.values(),
                        calib::StatsFile::open(temp / "own.h5")->read(layer).fisher.values()));
}

TEST_F(Calibrate, AKilledRunGoesOn) {
  samples = "200";
  ASSERT_EQ(nibble(command({}, "undisturbed.h5")).exit_code, 0);
  bool killed = false;
  ProgramOptions options;
  options.while_running = [&](pid_t program) {
    const auto work = temp / "calib.h5.work";
    for (int i = 0; i < 20000 && !std::filesystem::exists(work / "00000.forward.shard"); ++i) usleep(1000);
    killed = kill(program, SIGKILL) == 0;
  };
  const ProgramRun run = nibble(command({}), options);
  EXPECT_TRUE(killed);
  EXPECT_EQ(run.exit_code, 128 + SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(output));
  ASSERT_EQ(nibble(command({})).exit_code, 0);
  EXPECT_TRUE(read_file(output) == read_file(temp / "undisturbed.h5"));
}

TEST_F(Calibrate, WindowsBeyondRotaryPositionsAreWarnedOf) {
  const auto warnings = [&](const std::string& length) {
    const ProgramRun run = nibble({"calibrate", model, "--text", text, "--length", length, "--samples", "2", "-q",
                                   "--collect", "activations", "-o", temp / (length + ".h5")});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.err;
  };
  EXPECT_EQ(warnings("256"), "");
  EXPECT_THAT(warnings("300"), HasSubstr("warning: windows of 300 tokens exceed the 256 positions"));
}

TEST_F(Calibrate, WrongUsageIsExplained) {
  const auto refused = [&](const std::vector<std::string>& arguments, int code, const char* words) {
    const ProgramRun run = nibble(arguments);
    EXPECT_EQ(run.exit_code, code) << run.err;
    EXPECT_THAT(run.err, HasSubstr(words));
  };
  refused({"calibrate"}, 2, "one of MODEL, --merge and --show");
  refused({"calibrate", model}, 2, "-o");
  refused({"calibrate", model, "-o", output}, 2, "either --text or --tokens");
  refused(command({"--collect", "fischer"}), 2, "did you mean 'fisher'");
  refused(command({"--fisher", "positions"}), 2, "did you mean 'position'");
  refused(command({"--collect", "activations", "--fisher", "position"}), 2,
          "position concerns the gradients of `fisher`");
  refused(command({"--labels", "samples"}), 2, "did you mean 'sampled'");
  refused(command({"--memory", "lots"}), 2, "like 512M or 4G, got 'lots'");
  refused(command({"--memory", "1M"}), 2, "--memory grants 1 MB");
  refused(command({"--centre", temp / "none.h5"}), 3, "none.h5");
  refused(command({"--centre", "onw"}), 3, "expected none, own or a calibration file, got 'onw'");
  refused({"calibrate", model, "--text", temp / "none", "-o", output}, 3, "No such file");
  refused({"calibrate", kGpt2Demo, "--text", text, "--length", "100000", "-o", output}, 2,
          "windows of 100000 tokens, but the model has learned 256 positions");
  refused({"calibrate", "--show", temp / "none.h5"}, 3, "none.h5': no such file");
  refused({"calibrate", "--show", text}, 3, "calibration.txt");
  refused({"calibrate", model, "--text", text, text, "-o", output}, 2, "calibration.txt' is given twice");
  // Options that would change nothing.
  refused({"calibrate", "--show", text, "--seed", "3"}, 2, "--seed means nothing beside --show");
  refused({"calibrate", "--show", text, "--bos"}, 2, "--bos means nothing beside --show");
  refused({"calibrate", "--merge", text, text, "--bos", "-o", output}, 2, "--bos means nothing beside --merge");
  refused({"calibrate", "--show", text, "-o", output}, 2, "--output means nothing beside --show");
  refused({"calibrate", "--show", text, "--threads", "1"}, 2, "--threads means nothing beside --show");
  refused({"calibrate", "--merge", text, text, "-o", output, "--collect", "fisher"}, 2,
          "--collect means nothing beside");
  refused({"calibrate", "--merge", text, text, "-o", output, "--threads", "1"}, 2,
          "--threads means nothing beside --merge");
  refused({"calibrate", model, "--tokens", "ids.u16", "--field", "body", "-o", output}, 2, "--field means nothing");
  refused({"calibrate", model, "--text", kEvalText, "--field", "body", "-o", output}, 2,
          "--field means nothing beside texts that are not JSON lines");
  refused({"calibrate", "--show", model}, 3, "expected what nibble calibrate wrote (HDF5), got a directory");
  refused({"calibrate", "--show", kEvalText}, 3, "got another kind of file; is this the right file?");
  refused({"calibrate", model, "--tokens", "ids.u16", "--seed", "3", "-o", output}, 2, "--seed means nothing beside");
  refused({"calibrate", model, "--text", text, "-o", text + "/calib.h5"}, 3, "cannot create directory '");
}

// Nothing would take its statistics: quantizing goes from the float model.
TEST_F(Calibrate, RefusesAQuantizedModel) {
  const std::string quantized = temp / "q";
  ASSERT_EQ(nibble({"quantize", model, "--preset", "int4-block", "-o", quantized}).exit_code, 0);
  model = quantized;
  text = temp / "none";  // which is not looked for
  const ProgramRun run = nibble(command({}));
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr("checkpoint '" + quantized +
                                 "' is quantized already; calibrate the float checkpoint it was made from"));
  EXPECT_FALSE(std::filesystem::exists(output));
}

// Sums of 6 windows split over processes: float products see other batches, and doubles are added in another order.
TEST_F(Calibrate, SeveralProcessesGiveTheSameStatistics) {
  if (kMpirun.empty()) GTEST_SKIP() << "this build has no MPI";
  const std::vector<std::string> settings = {"--collect", "activations,fisher,hessian,guided-hessian,output-hessian",
                                             "--threads", "1"};
  ASSERT_EQ(nibble(command(settings)).exit_code, 0);
  const auto one = calib::StatsFile::open(output);
  for (const char* processes : {"2", "3"}) {
    const std::string file = std::string("team") + processes + ".h5";
    std::vector<std::string> arguments = {"--allow-run-as-root", "--oversubscribe", "-n", processes, NIBBLE_PROGRAM};
    for (const std::string& argument : command(settings, file)) arguments.push_back(argument);
    setenv("LSAN_OPTIONS", "detect_leaks=0", 1);  // Open MPI keeps what it has until the process ends
    const ProgramRun run = run_program(kMpirun, arguments);
    unsetenv("LSAN_OPTIONS");
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const auto team = calib::StatsFile::open(temp / file);
    EXPECT_EQ(calib::differences(one->settings(), team->settings()), "");
    for (const calib::LayerInfo& info : one->layers()) {
      const calib::LayerStats a = one->read(info.module), b = team->read(info.module);
      EXPECT_TRUE(relative_error_within(b.sum_x2, a.sum_x2, 1e-6));
      EXPECT_TRUE(relative_error_within(b.sum_s_x, a.sum_s_x, 1e-5));
      EXPECT_TRUE(relative_error_within(b.fisher.values(), a.fisher.values(), 1e-5));
      EXPECT_TRUE(relative_error_within(b.sum_xxt.values(), a.sum_xxt.values(), 1e-6));
      EXPECT_TRUE(relative_error_within(b.sum_dydyt.values(), a.sum_dydyt.values(), 1e-5));
      EXPECT_TRUE(relative_error_within(b.max_x, a.max_x, 1e-6));
    }
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(temp.path()), {}), processes[0] - '0');  // no leftovers
  }
}

TEST_F(Calibrate, AnErrorEndsAllProcesses) {
  if (kMpirun.empty()) GTEST_SKIP() << "this build has no MPI";
  std::vector<std::string> arguments = {"--allow-run-as-root", "--oversubscribe", "-n", "2", NIBBLE_PROGRAM};
  for (const std::string& argument : command({"--memory", "1M"})) arguments.push_back(argument);
  setenv("LSAN_OPTIONS", "detect_leaks=0", 1);
  const ProgramRun run = run_program(kMpirun, arguments);
  unsetenv("LSAN_OPTIONS");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("--memory grants 1 MB"));
}

}  // namespace
}  // namespace nibble::test
