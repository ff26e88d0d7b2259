#include "cli/program.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/cli/nibble.h"

namespace nibble::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class EachCommand : public testing::TestWithParam<const char*> {};

TEST_P(EachCommand, HelpSaysWhatItDoesWithAnExample) {
  const ProgramRun run = nibble({GetParam(), "--help"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("Options:"));
  EXPECT_THAT(run.out, HasSubstr("--json"));
  EXPECT_THAT(run.out, HasSubstr(std::string("Example:\n  nibble ") + GetParam()));
  EXPECT_EQ(run.err, "");
}

TEST_P(EachCommand, AnUnknownOptionSuggestsTheNearest) {
  const ProgramRun run = nibble({GetParam(), "--jsn"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr(std::string("nibble ") + GetParam() + ": error: unknown option '--jsn'"));
  EXPECT_THAT(run.err, HasSubstr("did you mean '--json'?"));
}

TEST_P(EachCommand, IsListedInTheProgramsHelp) { EXPECT_THAT(nibble({"--help"}).out, HasSubstr(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Commands, EachCommand,
                         testing::Values("calibrate", "inspect", "quantize", "perplexity", "tokenize", "generate",
                                         "export", "version"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Program, HelpListsExitCodes) {
  const ProgramRun run = nibble({"--help"});
  EXPECT_EQ(run.exit_code, 0);
  for (const char* code : {"0 ", "1 ", "2 ", "3 ", "4 ", "130 "})
    EXPECT_THAT(run.out, HasSubstr(std::string("\n  ") + code));
}

TEST(Program, WithoutACommandItShowsItsHelpAndFails) {
  const ProgramRun run = nibble({});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("Subcommands:"));
}

TEST(Program, AnUnknownCommandSuggestsTheNearest) {
  const ProgramRun run = nibble({"perplexty", "some/model"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("unknown command 'perplexty'; did you mean 'perplexity'?"));
}

TEST(Program, ATierThatThereIsNotIsRefusedByEveryCommand) {
  const char* before = std::getenv("NIBBLE_FORCE_ISA");
  const std::string kept = before == nullptr ? "" : before;
  setenv("NIBBLE_FORCE_ISA", "avx3", 1);
  const ProgramRun run = nibble({"inspect", kGpt2Demo});
  setenv("NIBBLE_FORCE_ISA", kept.c_str(), 1);  // empty: as if it were not set
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("avx3"));
}

TEST(Program, FarFetchedNamesGetNoSuggestion) {
  EXPECT_THAT(nibble({"frobnicate"}).err, Not(HasSubstr("did you mean")));
}

TEST(Program, AMistypedOptionIsNamedBeforeTheOnesThatAreMissing) {
  const ProgramRun run = nibble({"tokenize", "--txt", "a.txt"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("unknown option '--txt'; did you mean '--text'?"));
}

TEST(Program, AnOptionInFrontOfItsCommandIsToldItsPlace) {
  const ProgramRun run = nibble({"--json", "version"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("expected '--json' behind the command: nibble version --json"));
}

TEST(Program, EmptyPathsAreRefusedWhereSeveralMayBeGivenToo) {
  const std::string model = demo_path("gpt2-demo");
  const std::vector<std::vector<std::string>> calls = {{"report", "", "-o", "a.md"},
                                                       {"report", "records", "-o", ""},
                                                       {"quantize", model, "-o", "a", "--calib", ""},
                                                       {"calibrate", model, "-o", "a.h5", "--text", ""},
                                                       {"calibrate", "-o", "a.h5", "--merge", "b.h5", ""},
                                                       {"perplexity", model, "--text", ""},
                                                       {"perplexity", model, "--tokens", ""},
                                                       {"inspect", model, "--graph", ""}};
  for (const std::vector<std::string>& call : calls) {
    const ProgramRun run = nibble(call);
    EXPECT_EQ(run.exit_code, 2) << call[0];
    EXPECT_THAT(run.err, HasSubstr(": expected a path, got ''")) << call[0];
  }
}

TEST(Program, OptionsWithAnEqualsSignAreNamedWithoutTheirValue) {
  EXPECT_THAT(nibble({"tokenize", "--txt=a.txt"}).err, HasSubstr("unknown option '--txt'; did you mean '--text'?"));
}

TEST(Program, AMissingValueIsSaidSo) {
  const ProgramRun run = nibble({"tokenize", demo_path("gpt2-demo"), "--text"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("--text: a value is missing"));
}

TEST(Program, AnOptionInPlaceOfAValueIsSaidSo) {
  const auto error_of = [](const std::vector<std::string>& arguments) {
    const ProgramRun run = nibble(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    return run.err;
  };
  EXPECT_THAT(error_of({"calibrate", "--merge", "-o", "m.h5", "a.h5", "b.h5"}),
              HasSubstr("calibrate: error: --merge: expected a value, got the option '-o'"));
  EXPECT_THAT(error_of({"tokenize", kGpt2Demo, "--text", "--output=ids.u16"}),
              HasSubstr("--text: expected a value, got the option '--output'"));
  const ProgramRun meant = nibble({"tokenize", kGpt2Demo, "--text=--ids"});
  EXPECT_THAT(meant.err, HasSubstr("'--ids': No such file"));
}

TEST(Program, AnOptionGivenAgainIsSaidSo) {
  const ProgramRun twice = nibble({"perplexity", kGpt2Demo, "--context", "3", "--context", "4"});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, HasSubstr("error: --context is given twice\n"));
  EXPECT_THAT(nibble({"tokenize", kGpt2Demo, "--text=a", "-o", "b", "-o", "c", "-o", "d"}).err,
              HasSubstr("error: --output is given 3 times\n"));
}

TEST(Program, ExtraArgumentsAreNamed) {
  const ProgramRun run = nibble({"version", "now"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("unexpected argument 'now'"));
}

TEST(Program, WholeNumbersAreDecimalAndInRange) {
  for (const char* bad : {"-1", "1025", "0x10", "1.5", "two", "", "99999999999999999999"}) {
    const ProgramRun run = nibble({"perplexity", demo_path("gpt2-demo"), "--text", "x", "--threads", bad});
    EXPECT_EQ(run.exit_code, 2) << bad;
    EXPECT_THAT(run.err, HasSubstr("--threads: expected a whole number from 0 to 1024, got")) << bad;
  }
}

TEST(Program, VersionNamesWhatResultsDependOn) {
  const auto version = nibble_json({"version"});
  for (const char* key : {"version", "git_commit", "compiler", "build_type", "isa", "gemm", "threads"})
    EXPECT_TRUE(version.contains(key)) << key;
  EXPECT_THAT(nibble({"--version"}).out, HasSubstr(version["version"].get<std::string>()));
  EXPECT_THAT(nibble({"version"}).out, HasSubstr(version["gemm"].get<std::string>()));
}

TEST(Program, AFullDiskIsAnErrorAboutAFile) {
  const ProgramRun run = nibble({"version"}, {.stdout_path = "/dev/full", .close_stdout = false, .while_running = {}});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("cannot write standard output: No space left on device"));
  const ProgramRun help = nibble({"--help"}, {.stdout_path = "/dev/full", .close_stdout = false, .while_running = {}});
  EXPECT_EQ(help.exit_code, 3);
  EXPECT_THAT(help.err, HasSubstr("cannot write standard output: No space left on device"));
}

// Who reads no messages gets the exit code and the work all the same, and no message in a file.
TEST(Program, AStandardErrorThatTakesNothingChangesNoExitCode) {
  const TempDir temp;
  const std::string program = NIBBLE_PROGRAM;
  for (const char* error : {"2>/dev/full", "2>&-"}) {
    const auto run = [&](const std::string& arguments) {
      return run_program("/bin/sh", {"-c", "exec \"$0\" " + arguments + " " + error, program}).exit_code;
    };
    EXPECT_EQ(run("nosuch"), 2) << error;
    EXPECT_EQ(run("inspect /absent"), 3) << error;
    const std::string tokens = temp / "ids.u16", model = kGpt2Demo;
    ASSERT_EQ(run("tokenize " + model + " --text " + kEvalText + " -o " + tokens), 0) << error;
    const std::string statistics = temp / "c.h5";
    EXPECT_EQ(run("calibrate " + model + " --text " + kEvalText + " --length 16 --samples 2 --collect activations -o " +
                  statistics),
              0)
        << error;
    EXPECT_EQ(nibble({"calibrate", "--show", statistics}).exit_code, 0) << error;
    std::filesystem::remove(statistics);
    std::filesystem::remove(tokens);
  }
}

TEST(Program, ALimitOfFileSizesIsAnErrorAboutAFile) {
  const TempDir temp;
  const std::string program = NIBBLE_PROGRAM, output = temp / "out";
  const ProgramRun run = run_program(
      "/bin/sh", {"-c", "ulimit -f 64; exec \"$0\" quantize \"$1\" -o \"$2\" --quiet", program, kGpt2Demo, output});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr(": File too large"));
  EXPECT_FALSE(std::filesystem::exists(output));
}

TEST(Program, AReaderThatWentAwayEndsItSilently) {
  const ProgramRun run = nibble({"version"}, {.stdout_path = "", .close_stdout = true, .while_running = {}});
  EXPECT_EQ(run.exit_code, 128 + SIGPIPE);
  EXPECT_EQ(run.err, "");
}

class EachSignal : public testing::TestWithParam<int> {};

TEST_P(EachSignal, LeavesAtOnceWith130) {
  const TempDir temp;
  const std::string fifo = temp / "text.txt";  // reading a text that never comes
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  int writer = -1;
  const auto interrupt = [&](pid_t program) {
    writer = open(fifo.c_str(), O_WRONLY);  // returns once the program has opened the other end
    kill(program, GetParam());
  };
  const ProgramRun run = nibble({"tokenize", demo_path("gpt2-demo"), "--text", fifo, "-o", temp / "ids.u16"},
                                {.stdout_path = "", .close_stdout = false, .while_running = interrupt});
  close(writer);
  EXPECT_EQ(run.exit_code, 130);
  EXPECT_EQ(run.out + run.err, "");
  EXPECT_FALSE(std::filesystem::exists(temp / "ids.u16"));
}

INSTANTIATE_TEST_SUITE_P(Signals, EachSignal, testing::Values(SIGINT, SIGTERM));

}  // namespace
}  // namespace nibble::test
