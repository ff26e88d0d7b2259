#include "cli/version.h"

#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <memory>

#include "cli/arguments/options.h"
#include "cli/command.h"
#include "cli/terminal/output.h"
#include "cli/terminal/table.h"
#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "core/text/json.h"

namespace nibble::cli {
namespace {

std::vector<std::string> supported_isas() {
  std::vector<std::string> names;
  for (const Isa isa : all_isas())
    if (supports_isa(isa)) names.emplace_back(isa_name(isa));
  return names;
}

void run(bool json) {
  const VersionFacts facts = version_facts();
  if (json) {
    nlohmann::ordered_json object = {
        {"version", facts.version},      {"git_commit", nullptr},
        {"compiler", facts.compiler},    {"build_type", facts.build_type},
        {"isa", isa_name(active_isa())}, {"best_supported_isa", isa_name(best_supported_isa())},
        {"isa_uses", active_isa_uses()}, {"supported_isas", supported_isas()},
        {"gemm", gemm_identity()},       {"threads", thread_count()}};
    if (!facts.git_commit.empty()) object["git_commit"] = facts.git_commit;
    print_json(object);
    return;
  }
  print("nibble " + facts.version + "\n");
  print(aligned_facts({{"commit", facts.git_commit.empty() ? "unknown" : facts.git_commit},
                       {"compiler", facts.compiler + ", " + facts.build_type},
                       {"instruction set", fmt::format("{}: {}", isa_name(active_isa()), active_isa_uses())},
                       {"it could be", fmt::format("{}", fmt::join(supported_isas(), ", "))},
                       {"matrix products", gemm_identity()},
                       {"threads", std::to_string(thread_count())}}));
}

}  // namespace

Command version_command(CLI::App& program) {
  auto json = std::make_shared<bool>(false);
  CLI::App* app = program.add_subcommand("version", "What this build is: version, commit, compiler, instruction set");
  add_json_flag(*app, *json);
  app->footer("Example:\n  nibble version --json");
  return {app, [json] { run(*json); }};
}

}  // namespace nibble::cli
