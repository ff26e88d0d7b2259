#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "core/machine/isa.h"
#include "eval/sweep/record.h"
#include "tests/cli/nibble.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"

namespace nibble::test {
namespace {

using testing::HasSubstr;

using Records = std::map<std::string, std::string>;

/// What must not differ between runs, by id.
Records records(const std::filesystem::path& directory) {
  Records all;
  for (const auto& record : eval::read_records(directory)) all[record.id] = eval::record_text_without_timings(record);
  return all;
}

struct Sweep : testing::Test {
  TempDir temp;
  std::string file = temp / "sweep.yaml", results = temp / "results";

  // Little models, so that cells take milliseconds even under sanitizers.
  void SetUp() override {
    tiny_llama().write(temp / "little");
    write_tokens("calibration.u16", 128);
    write_tokens("text.u16", 96);
    write({"little"}, "grid: {weighting: [none, fisher], bits: [4, 2]}\nlist: [float]");
  }
  std::string path(const std::string& name) const { return temp / name; }
  void write_tokens(const std::string& name, unsigned count) const {
    std::string bytes;
    for (unsigned i = 0; i < count; ++i) bytes += {static_cast<char>(i * i % 37), '\0'};
    write_file(temp / name, bytes);
  }
  void write(const std::vector<std::string>& models, const std::string& cells) const {
    std::string list;
    for (const std::string& model : models) list += (list.empty() ? "" : ", ") + path(model);
    write_file(file, "models: [" + list + "]\n" + "calibration: {tokens: " + path("calibration.u16") +
                         ", length: 32}\n" + "evaluations: [{name: eval, tokens: " + path("text.u16") +
                         ", protocol: blocks, context: 32}]\n" + cells + "\n");
  }
  // Cells of three widths that are compared with the float model.
  void write_with_divergence() const {
    write({"little"}, "list: [float, {bits: 2}, {bits: 4}, {format: uniform, bits: 4}]");
    std::string text = read_file(file);
    text.insert(text.find("{name: eval, ") + 1, "divergence: true, ");
    text.erase(text.find("calibration:"), text.find('\n', text.find("calibration:")) - text.find("calibration:"));
    write_file(file, text);
  }
  std::vector<std::string> command(const std::string& output, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"sweep", file, "-o", output, "--threads", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Many cells that take no time, their evaluations called NAME0, NAME1, …
  void write_many(const std::string& name) const {
    std::string evaluations;
    for (unsigned i = 0; i < 40; ++i)
      evaluations += fmt::format("  - {{name: {}{}, tokens: {}, max_tokens: {}, protocol: blocks, context: 32}}\n",
                                 name, i, path("text.u16"), 40 + i);
    write_file(file, "models: [" + path("little") + "]\nevaluations:\n" + evaluations + "list: [float]\n");
  }
  // An mpirun of two processes that end within a minute; each does `command` with what is its own.
  ProgramRun run_two(const std::vector<std::string>& first, const std::vector<std::string>& second) const {
    std::vector<std::string> arguments{"--allow-run-as-root", "--oversubscribe", "--timeout", "60", "-n", "1"};
    const auto add = [&](const std::vector<std::string>& own) {
      arguments.insert(arguments.end(), {NIBBLE_PROGRAM, "sweep", file, "-o", results});
      arguments.insert(arguments.end(), own.begin(), own.end());
    };
    add(first);
    arguments.insert(arguments.end(), {":", "-n", "1"});
    add(second);
    setenv("LSAN_OPTIONS", "detect_leaks=0", 1);  // Open MPI keeps what it has until the process ends
    const ProgramRun run = run_program(kMpirun, arguments);
    unsetenv("LSAN_OPTIONS");
    return run;
  }
  Records undisturbed() const {
    const std::string output = temp / "undisturbed";
    EXPECT_EQ(nibble(command(output)).exit_code, 0);
    return records(output);
  }
};

TEST_F(Sweep, GivesCellsThatAreThereTheNamesOfToday) {
  write({"little"}, "list: [{name: one, bits: 2}, {name: two, bits: 4}]");
  ASSERT_EQ(nibble(command(results)).exit_code, 0);
  const Records before = records(results);
  write({"little"}, "list: [{name: two, bits: 2}, {name: three, bits: 4}]");
  const auto again = nibble_json(command(results));
  EXPECT_EQ(again["done"], 0);
  std::map<std::string, std::string> names;
  for (auto record : eval::read_records(results)) {
    std::string& name = record.labels[1].second;
    names[name] = name == "two" ? "one" : "two";
    name = names[name];
    EXPECT_EQ(eval::record_text_without_timings(record), before.at(record.id));
  }
  EXPECT_EQ(names, (std::map<std::string, std::string>{{"two", "one"}, {"three", "two"}}));
}

TEST_F(Sweep, IsWatchedAsItsFileIsNow) {
  write({"little"}, "list: [float, {name: one, bits: 2}]");
  ASSERT_EQ(nibble(command(results)).exit_code, 0);
  write({"little"}, "list: [{name: two, bits: 2}]");
  ASSERT_EQ(nibble(command(results)).exit_code, 0);
  const auto watched = nibble_json({"sweep", "--watch", results});
  EXPECT_EQ(watched["cells"], 1);
  EXPECT_EQ(watched["done"], 1);
  EXPECT_EQ(watched["best"][0]["recipe"], "two");
}

TEST_F(Sweep, ALiveViewShowsTheNamesOfToday) {
  if (!std::filesystem::exists("/usr/bin/script")) GTEST_SKIP() << "nothing here makes a terminal";
  write({"little"}, "list: [float, {name: before, bits: 2}]");
  ASSERT_EQ(nibble(command(results)).exit_code, 0);
  std::string missing, text;
  for (auto record : eval::read_records(results)) {
    const std::string path = results + "/" + record.id + ".json";
    if (record.labels[1].second == "float") std::tie(missing, text) = std::pair(path, read_file(path));
  }
  std::filesystem::remove(missing);  // so that it looks again
  ProgramOptions options;
  options.while_running = [&](pid_t) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    for (auto record : eval::read_records(results)) {
      record.labels[1].second = "today";
      write_file(results + "/" + record.id + ".json", eval::record_text(record));
    }
    write_file(missing, text);
  };
  const std::string line = std::string(NIBBLE_PROGRAM) + " sweep --watch " + results;
  const auto run = run_program("/usr/bin/script", {"-qec", line, "/dev/null"}, options);
  ASSERT_EQ(run.exit_code, 0) << run.out;
  EXPECT_THAT(run.out, HasSubstr("before: "));
  EXPECT_THAT(run.out, HasSubstr("today: "));
}

TEST_F(Sweep, SeveralProcessesGiveCellsTheirNamesAtOnce) {
  write_many("a");
  ASSERT_EQ(nibble(command(results, {"-q"})).exit_code, 0);
  for (const std::string name : {"b", "c", "d"}) {
    write_many(name);
    std::array<ProgramRun, 3> runs;
    std::vector<std::thread> processes;
    for (ProgramRun& run : runs) processes.emplace_back([&, this] { run = nibble(command(results, {"-q"})); });
    for (std::thread& process : processes) process.join();
    for (const ProgramRun& run : runs) EXPECT_EQ(run.exit_code, 0) << run.err;
    for (const auto& record : eval::read_records(results))
      EXPECT_EQ(eval::fact(record.labels, "evaluation").substr(0, 1), name);
  }
}

TEST_F(Sweep, RecordsHowTuningWent) {
  write({"little"}, "list: [{preset: palette, bits: 2}, {preset: palette, bits: 2, tuning.epochs: 2}]");
  ASSERT_EQ(nibble(command(results)).exit_code, 0);
  for (const auto& record : eval::read_records(results)) {
    const bool tunes = record.labels[1].second.find("tuning") != std::string::npos;
    ASSERT_EQ(record.measures->tuning.has_value(), tunes) << record.labels[1].second;
    if (!tunes) continue;
    EXPECT_EQ(record.measures->tuning->trained_loss.size(), 2u);
    ASSERT_EQ(record.measures->tuning->held_out_loss.size(), 3u);
    const auto& losses = record.measures->tuning->held_out_loss;
    EXPECT_EQ(losses[record.measures->tuning->best_epoch], *std::min_element(losses.begin(), losses.end()));
  }
}

TEST_F(Sweep, WritesARecordForEachCellAndSkipsThoseThatAreThere) {
  const auto first = nibble_json(command(results));
  EXPECT_EQ(first["cells"], 5);
  EXPECT_EQ(first["done"], 5);
  EXPECT_EQ(first["records"].size(), 5u);
  const Records before = records(results);
  EXPECT_EQ(before.size(), 5u);
  const auto second = nibble_json(command(results));
  EXPECT_EQ(second["present"], 5);
  EXPECT_EQ(second["done"], 0);
  EXPECT_EQ(records(results), before);
}

TEST_F(Sweep, ACellHasThePerplexityOfTheQuantizedCheckpoint) {
  const auto sweep = nibble_json(command(results));
  const std::string model = temp / "model", calibration = temp / "calib.h5";
  ASSERT_EQ(
      nibble({"calibrate", path("little"), "--tokens", path("calibration.u16"), "--length", "32", "-o", calibration})
          .exit_code,
      0);
  ASSERT_EQ(nibble({"quantize", path("little"), "--calib", calibration, "-s", "weighting=fisher", "-s", "bits=2", "-o",
                    model})
                .exit_code,
            0);
  const auto measured =
      nibble_json({"perplexity", model, "--tokens", path("text.u16"), "--protocol", "blocks", "--context", "32"});
  EXPECT_EQ(sweep["records"][3]["recipe"], "weighting=fisher bits=2");
  EXPECT_EQ(sweep["records"][3]["perplexity"], measured["perplexity"]);
  EXPECT_EQ(sweep["records"][3]["bits_per_weight"], measured["bits_per_weight"]);
}

TEST_F(Sweep, RecordsSayHowManyTokensWindowsScoredWhereTheyDiffer) {
  const auto tokens_of_windows = [&](const std::string& windows) {
    write({"little"}, "list: [float]");
    std::string text = read_file(file);
    text.replace(text.find("protocol: blocks"), 16, windows);
    write_file(file, text);
    const std::string output = path(windows.substr(10, 6));
    EXPECT_EQ(nibble(command(output)).exit_code, 0);
    return eval::read_records(output).at(0).measures->window_tokens;
  };
  EXPECT_EQ(tokens_of_windows("protocol: blocks"), std::vector<std::uint64_t>());
  // 96 tokens, windows of 32: the first 31, then 20 in each, and 4 at the end.
  EXPECT_EQ(tokens_of_windows("protocol: sliding, stride: 20"), (std::vector<std::uint64_t>{31, 20, 20, 20, 4}));
}

TEST_F(Sweep, ACheckpointThatIsThereHasTheFiguresOfItsRecipe) {
  ASSERT_EQ(nibble({"quantize", path("little"), "-s", "bits=2", "-o", path("little-2")}).exit_code, 0);
  write_with_divergence();
  std::string text = read_file(file);
  text.insert(text.find("[float, ") + 1, "{name: there, checkpoint: '" + path("{model}-2") + "'}, ");
  write_file(file, text);
  const auto sweep = nibble_json(command(results));
  ASSERT_EQ(sweep["done"], 5);
  const auto find = [&](const std::string& recipe) {
    for (const auto& record : eval::read_records(results))
      if (eval::fact(record.labels, "recipe") == recipe) return record;
    return eval::SweepRecord{};
  };
  const eval::SweepRecord there = find("there"), made = find("bits=2");
  ASSERT_TRUE(there.measures && made.measures);
  EXPECT_GT(there.measures->divergence->nats_per_token, 0.0);
  EXPECT_EQ(there.measures->divergence->window_nats, made.measures->divergence->window_nats);
  EXPECT_EQ(there.measures->window_nll, made.measures->window_nll);
  EXPECT_EQ(there.measures->bits_per_weight, made.measures->bits_per_weight);
  EXPECT_EQ(there.measures->model_bytes, made.measures->model_bytes);
  EXPECT_NE(there.id, made.id);
  EXPECT_EQ(nibble_json(command(results))["present"], 5);
  EXPECT_EQ(nibble_json({"sweep", "--repeat", results + "/" + there.id + ".json", "--threads", "2"})["same_measures"],
            true);
  EXPECT_EQ(nibble({"report", results, "-o", path("report.md")}).exit_code, 0);
  EXPECT_THAT(read_file(path("report.md")), HasSubstr("there"));
}

TEST_F(Sweep, ARecordsCommandWorksWhereTheSweepRan) {
  write_file(file,
             "models: [little]\nevaluations: [{name: eval, tokens: text.u16, protocol: blocks, context: 32}]\n"
             "list: [float]\n");
  std::filesystem::create_directory(temp / "elsewhere");
  const auto in = [&](const std::string& directory, const std::string& line) {
    const std::string shell = "nibble() { '" + std::string(NIBBLE_PROGRAM) + "' \"$@\"; }; cd '" + directory + "' && ";
    return run_program("/bin/sh", {"-c", shell + line});
  };
  ASSERT_EQ(in(temp.path(), "nibble sweep sweep.yaml -o 'my results' -q").exit_code, 0);
  const eval::SweepRecord record = eval::read_records(temp / "my results").at(0);
  const ProgramRun again = in(temp.path(), record.command);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  ASSERT_EQ(in(temp.path(), "nibble report 'my results' -o report.md").exit_code, 0);
  EXPECT_THAT(read_file(temp / "report.md"), HasSubstr("'my results/" + record.id + ".json'"));
  const ProgramRun elsewhere = in(temp / "elsewhere", "nibble sweep --repeat '../my results/" + record.id + ".json'");
  EXPECT_EQ(elsewhere.exit_code, 3);
  EXPECT_THAT(elsewhere.err, HasSubstr("there is no 'little': paths of a record are those of the directory where"));
}

TEST_F(Sweep, KilledAtAnyMomentItEndsInTheSameRecords) {
  const Records expected = undisturbed();
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int kills = 0;
  for (int attempt = 0;; ++attempt) {
    ASSERT_LT(attempt, 30);
    const std::chrono::milliseconds moment(random() % (100u << std::min(attempt, 5)));
    ProgramOptions options;
    if (attempt < 8) {
      options.while_running = [moment, attempt](pid_t program) {
        std::this_thread::sleep_for(moment);
        kill(program, attempt % 4 == 3 ? SIGINT : SIGKILL);
      };
    }
    const auto run = nibble(command(results, {"-q"}), options);
    if (run.exit_code == 0) break;
    EXPECT_TRUE(run.exit_code == 128 + SIGKILL || run.exit_code == 130) << run.exit_code << run.err;
    ++kills;
  }
  EXPECT_GT(kills, 0);
  EXPECT_EQ(records(results), expected);
  EXPECT_TRUE(std::filesystem::is_empty(results + "/.sweep/scratch"));
}

TEST_F(Sweep, AFullDiskStopsItAndIsNobodysFailure) {
  const std::string shell = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";  // files of 32 KiB at most
  std::vector<std::string> arguments{"-c", shell, NIBBLE_PROGRAM};
  for (const std::string& word : command(results)) arguments.push_back(word);
  const auto run = run_program("/bin/sh", arguments);
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("File too large"));
  for (const auto& record : eval::read_records(results)) EXPECT_FALSE(record.error) << record.error->message;
  EXPECT_EQ(nibble(command(results)).exit_code, 0);
  EXPECT_EQ(records(results), undisturbed());
}

TEST_F(Sweep, AFailingCellIsRecordedAndTheOthersGoOn) {
  const std::string broken = temp / "broken";
  std::filesystem::copy(temp / "little", broken);
  std::string bytes = read_file(broken + "/model.safetensors");
  bytes.replace(bytes.size() - 2000, 4, std::string("\x00\x00\xc0\x7f", 4));  // a NaN in float32
  write_file(broken + "/model.safetensors", bytes);
  write({"broken", "little"}, "list: [{format: uniform, bits: 3}]");
  const auto run = nibble(command(results));
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_THAT(run.err, HasSubstr("1 of 2 cells failed"));
  std::string failed;
  for (const auto& record : eval::read_records(results)) {
    if (!record.error) continue;
    failed = results + "/" + record.id + ".json";
    EXPECT_EQ(record.error->kind, "NumericalError");
    EXPECT_EQ(eval::fact(record.labels, "model"), "broken");
  }
  ASSERT_FALSE(failed.empty());

  const auto written = std::filesystem::last_write_time(failed);
  EXPECT_EQ(nibble(command(results)).exit_code, 4);
  EXPECT_EQ(std::filesystem::last_write_time(failed), written);
  EXPECT_EQ(nibble(command(results, {"--retry-failed"})).exit_code, 4);
  EXPECT_GT(std::filesystem::last_write_time(failed), written);
}

TEST_F(Sweep, WatchingAndRepeatingRefuseWhatTheyDoNotRead) {
  ASSERT_EQ(nibble(command(results)).exit_code, 0);
  const std::string record = results + "/" + eval::read_records(results).front().id + ".json";
  const auto refused = [&](std::vector<std::string> options, const std::string& what) {
    options.insert(options.begin(), "sweep");
    const ProgramRun run = nibble(options);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err, HasSubstr(what));
  };
  refused({"--watch", results, "--shard", "1/2"}, "--shard means nothing beside --watch");
  refused({"--watch", results, "--memory", "1G"}, "--memory means nothing beside --watch");
  refused({"--watch", results, "--threads", "1"}, "--threads means nothing beside --watch");
  refused({"--watch", results, "-q"}, "--quiet means nothing beside --watch");
  refused({"--repeat", record, "--dry-run"}, "--dry-run means nothing beside --repeat");
  refused({"--repeat", record, "--retry-failed"}, "--retry-failed means nothing beside --repeat");
}

TEST_F(Sweep, WarnsOfACellThatNeedsMoreMemoryThanThereIs) {
  write_file(file, "models: [" + path("little") + "]\nevaluations: [{name: eval, tokens: " + path("text.u16") +
                       ", protocol: blocks, context: 32}]\nlist: [float, {bits: 2}]\n");
  const std::string warning = "cell 'little · float · eval' needs 68 MB, and --memory grants 0.001 MB";
  const auto plan = nibble_json({"sweep", file, "--dry-run", "--memory", "1K"});
  ASSERT_EQ(plan["warnings"].size(), 1u);
  EXPECT_THAT(plan["warnings"][0].get<std::string>(), HasSubstr(warning));
  EXPECT_EQ(plan["workers"], 1);
  const ProgramRun run = nibble(command(results, {"--memory", "1K"}));
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.err, HasSubstr(warning));
  EXPECT_THAT(nibble_json({"sweep", file, "--dry-run", "--memory", "1G"})["warnings"], testing::IsEmpty());
}

TEST_F(Sweep, ADryRunRefusesWhatItDoesNotRead) {
  const auto refused = [&](const std::vector<std::string>& options) {
    std::vector<std::string> all{"sweep", file, "--dry-run"};
    all.insert(all.end(), options.begin(), options.end());
    const ProgramRun run = nibble(all);
    EXPECT_EQ(run.exit_code, 2) << options[0];
    EXPECT_THAT(run.err, HasSubstr("sweep: " + options[0] + " means nothing beside --dry-run"));
    EXPECT_EQ(run.out, "");
  };
  refused({"--retry-failed"});
  refused({"--cache", temp / "cache"});
  refused({"--cache-size", "1G"});
  refused({"--quiet"});
  // These it reads.
  const auto plan = [&](const std::string& threads, const std::string& shard) {
    return nibble_json(
        {"sweep", file, "--dry-run", "-o", results, "--threads", threads, "--shard", shard, "--memory", "1G"});
  };
  EXPECT_EQ(plan("1", "1/1")["cells"].size(), plan("1", "1/2")["cells"].size() + plan("1", "2/2")["cells"].size());
  EXPECT_GT(plan("1", "1/1")["seconds"], 0.0);
  EXPECT_FALSE(std::filesystem::exists(results));
}

// Statistics and states of another tier of instructions differ in their last digits: they are other entries.
TEST_F(Sweep, WhatIsKeptIsOfATierOfInstructions) {
  if (best_supported_isa() == Isa::kScalar || std::getenv("NIBBLE_FORCE_ISA") != nullptr)
    GTEST_SKIP() << "there is one tier";
  write({"little"}, "grid: {weighting: [second-moment], bits: [4, 2]}");
  std::string text = read_file(file);
  text.insert(text.find("{name: eval, ") + 1, "divergence: true, ");
  write_file(file, text);
  const std::string cache = temp / "cache";
  const auto kept_after = [&](const std::string& output) {
    const ProgramRun run = nibble(command(temp / output, {"--cache", cache}));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(cache)) names.insert(entry.path().filename().string());
    const auto of = [&](std::string_view kind) {
      return std::ranges::count_if(names, [&](const std::string& name) { return name.starts_with(kind); });
    };
    return std::pair(of("calibration-"), of("reference-"));
  };
  EXPECT_EQ(kept_after("first"), std::pair(1L, 1L));
  EXPECT_EQ(kept_after("again"), std::pair(1L, 1L));
  setenv("NIBBLE_FORCE_ISA", "scalar", 1);
  EXPECT_EQ(kept_after("scalar"), std::pair(2L, 2L));
  unsetenv("NIBBLE_FORCE_ISA");
}

TEST_F(Sweep, NothingOfItLiesInAModelsDirectory) {
  const std::string model = path("little");
  for (const auto& run :
       {nibble(command(model)), nibble(command(model, {"--dry-run"})), nibble(command(results, {"--cache", model}))}) {
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err, HasSubstr("'" + model + "' holds a checkpoint"));
  }
  EXPECT_FALSE(std::filesystem::exists(model + "/.sweep"));
}

TEST_F(Sweep, TwoProcessesShareADirectory) {
  const Records expected = undisturbed();
  ProgramRun second;
  std::thread other([&] { second = nibble(command(results, {"-q", "--json"})); });
  const auto first = nibble(command(results, {"-q", "--json"}));
  other.join();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(records(results), expected);
  const auto one = nlohmann::json::parse(first.out), two = nlohmann::json::parse(second.out);
  const auto count = [](const nlohmann::json& summary, const char* key) { return summary[key].get<int>(); };
  EXPECT_EQ(count(one, "done") + count(two, "done"), count(one, "cells"));
  // What one did not do the other did, before it looked or meanwhile.
  EXPECT_EQ(count(one, "present") + count(one, "elsewhere"), count(two, "done"));
  EXPECT_EQ(count(two, "present") + count(two, "elsewhere"), count(one, "done"));
}

TEST_F(Sweep, ShardsMergeByCopying) {
  const Records expected = undisturbed();
  for (const std::string shard : {"1/3", "2/3", "3/3"}) {
    const std::string part = temp / ("part" + shard.substr(0, 1));
    EXPECT_EQ(nibble(command(part, {"--shard", shard})).exit_code, 0);
    const auto watched = nibble_json({"sweep", "--watch", part});  // does not wait for other shards
    EXPECT_EQ(watched["cells"], watched["done"]);
    std::filesystem::create_directories(results);
    for (const auto& entry : std::filesystem::directory_iterator(part))
      if (eval::is_record_name(entry.path())) std::filesystem::copy(entry.path(), results);
  }
  EXPECT_EQ(records(results), expected);
}

TEST_F(Sweep, AShardIsTwoNumbersInOrder) {
  for (const std::string shard :
       {"1/-1", "0/2", "3/2", "2", "1/", "/2", "1/2x", "+1/2", "1/ 2", "1/18446744073709551616"})
    EXPECT_THAT(nibble(command(results, {"--shard", shard})).err,
                HasSubstr("--shard: expected i/n with 1 <= i <= n, such as 2/8, got '" + shard + "'"));
}

TEST_F(Sweep, AnMpirunHandsOutTheCells) {
  if (kMpirun.empty()) GTEST_SKIP() << "built without MPI";
  const Records expected = undisturbed();
  std::vector<std::string> arguments{"--allow-run-as-root", "--oversubscribe", "-n", "3", NIBBLE_PROGRAM};
  for (const std::string& word : command(results, {"--threads", "1"})) arguments.push_back(word);
  arguments.erase(std::find(arguments.begin(), arguments.end(), "--threads"), arguments.end() - 2);
  setenv("LSAN_OPTIONS", "detect_leaks=0", 1);  // Open MPI keeps what it has until the process ends
  const auto run = run_program(kMpirun, arguments);
  unsetenv("LSAN_OPTIONS");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  Records found = records(results);
  EXPECT_EQ(found.size(), expected.size());
  for (auto& [id, text] : found) {  // the number of threads is a fact of the environment
    const auto at = text.find("\"threads\": \"1\"");
    ASSERT_NE(at, std::string::npos);
    text.replace(at, 14, "\"threads\": \"2\"");
  }
  EXPECT_EQ(found, expected);
}

TEST_F(Sweep, AnErrorOfOneProcessEndsTheMpirun) {
  if (kMpirun.empty()) GTEST_SKIP() << "built without MPI";
  write_file(temp / "no directory", "");
  const std::vector<std::string> fails{"-q", "--cache", temp / "no directory"}, works{"-q"};
  for (const bool first : {true, false}) {
    const ProgramRun run = first ? run_two(fails, works) : run_two(works, fails);
    EXPECT_EQ(run.exit_code, 3) << run.err;
    EXPECT_THAT(run.err, HasSubstr(fmt::format("nibble sweep: error in process {}: cannot create '", first ? 0 : 1)));
  }
}

TEST_F(Sweep, SpeedIsMeasuredAlone) {
  write({"little"}, "list: [float, {bits: 2}]");
  std::string text = read_file(file);
  text.insert(text.find("evaluations: [") + 14,
              "{name: decode, speed: {contexts: [16, 32], generate: 4, repeat: 2}}, ");
  write_file(file, text);
  const auto plan = nibble_json({"sweep", file, "--dry-run"});
  EXPECT_EQ(plan["workers"], 1);
  const auto sweep = nibble_json(command(results));
  EXPECT_EQ(sweep["done"], 4);
  std::string measured;
  for (const auto& record : eval::read_records(results)) {
    EXPECT_EQ(record.speeds.empty(), eval::fact(record.labels, "evaluation") == "eval");
    if (record.speeds.empty()) continue;
    ASSERT_EQ(record.speeds.size(), 2u);
    EXPECT_EQ(record.speeds[1].context, 32u);
    EXPECT_EQ(record.speeds[1].prompt, 32u - 4 - 1);
    EXPECT_GT(record.speeds[1].tokens_per_second.min, 0.0);
    EXPECT_LE(record.speeds[1].tokens_per_second.min, record.speeds[1].tokens_per_second.max);
    EXPECT_GT(record.measures->bits_per_weight, 0.0);
    measured = results + "/" + record.id + ".json";
  }
  EXPECT_EQ(nibble_json(command(results))["present"], 4);
  EXPECT_EQ(nibble_json({"sweep", "--repeat", measured, "--threads", "2"})["same_measures"], true);
}

TEST_F(Sweep, TheFloatModelRunsOnceForAllCellsThatAreComparedWithIt) {
  write_with_divergence();
  const auto kept = [](const std::string& output) {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(output + "/.sweep/cache"))
      count += entry.path().filename().string().starts_with("reference-");
    return count;
  };
  ASSERT_EQ(nibble(command(results)).exit_code, 0);
  EXPECT_EQ(kept(results), 1u);
  ASSERT_EQ(nibble(command(temp / "apart", {"--cache-size", "1K"})).exit_code, 0);  // no room: it runs for each cell
  EXPECT_EQ(kept(temp / "apart"), 0u);
  EXPECT_EQ(records(temp / "apart"), records(results));
}

TEST_F(Sweep, TheDryRunListsTheCellsAndLeavesNothingBehind) {
  const auto plan = nibble_json({"sweep", file, "--dry-run"});
  ASSERT_EQ(plan["cells"].size(), 5u);
  EXPECT_GT(plan["seconds"], 0.0);
  EXPECT_GT(plan["memory_bytes"], 0u);
  EXPECT_GT(plan["disk_bytes"], 0u);
  EXPECT_FALSE(std::filesystem::exists(results));
}

TEST_F(Sweep, IsWatchedRepeatedAndCompared) {
  ASSERT_EQ(nibble(command(results)).exit_code, 0);
  const auto watched = nibble_json({"sweep", "--watch", results});
  EXPECT_EQ(watched["cells"], 5);
  EXPECT_EQ(watched["done"], 5);
  EXPECT_EQ(watched["best"].size(), 1u);

  const auto all = eval::read_records(results);
  const std::string a = results + "/" + all[0].id + ".json", b = results + "/" + all[1].id + ".json";
  EXPECT_EQ(nibble_json({"sweep", "--repeat", a, "--threads", "2"})["same_measures"], true);
  const auto diff = nibble_json({"diff", a, b});
  EXPECT_EQ(diff["same_measures"], false);
  EXPECT_FALSE(diff["settings"].empty());
  const ProgramRun with_threads = nibble({"diff", a, b, "--threads", "1"});
  EXPECT_EQ(with_threads.exit_code, 2);
  EXPECT_THAT(with_threads.err, HasSubstr("diff: --threads means nothing beside two records"));
  // Means of a few hundred losses below 16 nats, in double, in two orders.
  EXPECT_TRUE(near(diff["paired"]["nats_per_token"].get<double>(),
                   all[1].measures->nll_nats_per_token - all[0].measures->nll_nats_per_token, {.abs = 1e-9}));
}

TEST_F(Sweep, WhereCellsHaveADivergenceItIsShownAndDecidesWhichIsBest) {
  write_with_divergence();
  const auto run = nibble(command(results));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("KL, millinats"));
  std::vector<eval::SweepRecord> quantized;
  for (const auto& record : eval::read_records(results))
    if (record.measures->divergence) quantized.push_back(record);
  ASSERT_EQ(quantized.size(), 3u);
  for (const auto& record : quantized) {
    const eval::DivergenceMeasures& kl = *record.measures->divergence;
    const std::string text = fmt::format("{:.3f} ± {:.3f}", kl.nats_per_token * 1e3, *kl.stderr_nats * 1e3);
    EXPECT_THAT(run.out, HasSubstr(text));
    EXPECT_THAT(run.err, HasSubstr("KL " + text + " mnat"));
  }
  const auto [least, most] = std::ranges::minmax_element(
      quantized, {}, [](const eval::SweepRecord& record) { return record.measures->divergence->nats_per_token; });
  // The lowest perplexity is now that of the cell with the most divergence.
  most->measures->perplexity = 1.0;
  write_file(results + "/" + most->id + ".json", record_text(*most));
  const auto watched = nibble_json({"sweep", "--watch", results});
  ASSERT_EQ(watched["best"].size(), 1u);
  EXPECT_EQ(watched["best"][0]["id"], least->id);
  EXPECT_EQ(watched["best"][0]["kl_nats_per_token"], least->measures->divergence->nats_per_token);
  EXPECT_EQ(watched["best"][0]["kl_stderr_nats"], *least->measures->divergence->stderr_nats);
}

TEST_F(Sweep, TheBarSaysTheLowestDivergenceSoFar) {
  if (!std::filesystem::exists("/usr/bin/script")) GTEST_SKIP() << "nothing here makes a terminal";
  write_with_divergence();
  std::string line = NIBBLE_PROGRAM;
  for (const std::string& word : command(results)) line += " " + word;
  const auto run = run_program("/usr/bin/script", {"-qec", line, "/dev/null"});
  ASSERT_EQ(run.exit_code, 0) << run.out;
  double lowest = std::numeric_limits<double>::infinity();
  for (const auto& record : eval::read_records(results))
    if (record.measures->divergence) lowest = std::min(lowest, record.measures->divergence->nats_per_token * 1e3);
  EXPECT_THAT(run.out, HasSubstr(fmt::format("sweep, best KL {:.2f} mnat", lowest)));
}

TEST_F(Sweep, CheckpointsAreComparedLayerByLayer) {
  const std::string quantized = temp / "int4";
  ASSERT_EQ(nibble({"quantize", demo_path("gpt2-demo"), "--preset", "int4-block", "-o", quantized}).exit_code, 0);
  const auto diff = nibble_json({"diff", demo_path("gpt2-demo"), quantized, "--threads", "2"});
  ASSERT_FALSE(diff["layers"].empty());
  // The same sum of squares in another order: n of them err by n / 2^53 of it at most, which its root halves; n < 2^19.
  for (const auto& layer : diff["layers"])
    EXPECT_TRUE(near(layer["between"].get<double>(), layer["relative_weight_error"][1].get<double>(), {.rel = 1e-10}))
        << layer;
}

TEST_F(Sweep, WhatIsNotThereIsNoRecord) {
  const auto run = nibble({"diff", demo_path("gpt2-demo"), temp / "typo"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("typo': no such file"));
}

TEST_F(Sweep, WhatIsWrongWithAFileIsSaidWithItsLine) {
  write_file(file, "models: [m]\nevaluations:\n  - {text: t, protocl: half}\n");
  const auto run = nibble(command(results));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("line 3: evaluations: unknown key 'protocl'; did you mean 'protocol'?"));
}

}  // namespace
}  // namespace nibble::test
