#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "tests/support/files.h"
#include "tests/support/run_program.h"

namespace nibble::test {

/// Runs the program of this build.
inline ProgramRun nibble(const std::vector<std::string>& arguments, const ProgramOptions& options = {}) {
  return run_program(NIBBLE_PROGRAM, arguments, options);
}

/// Runs it with --json, and expects success and one object on standard output.
inline nlohmann::json nibble_json(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const ProgramRun run = nibble(arguments);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const nlohmann::json object = nlohmann::json::parse(run.out, nullptr, false);
  EXPECT_TRUE(object.is_object()) << run.out;
  return object;
}

inline std::string demo_path(const std::string& name) { return source_path("datasets/demo/" + name).string(); }

inline const std::string kLlamaDemo = demo_path("llama-demo"), kGpt2Demo = demo_path("gpt2-demo");
inline const std::string kEvalText = demo_path("eval.txt");
inline const std::string kMpirun = NIBBLE_MPIEXEC;  ///< empty without MPI

}  // namespace nibble::test
