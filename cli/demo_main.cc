#include "cli/command.h"
#include "cli/commands/quantize.h"
#include "cli/program.h"

// The commands that scripts/demo.sh runs, and nothing else to compile: the first minute with this repository.
int main(int argc, char** argv) {
  using namespace nibble::cli;
  constexpr CommandMaker kCommands[] = {
      [](CLI::App& program) { return make_quantize_command(program, nullptr); },
      perplexity_command,
      generate_command,
      version_command,
  };
  return run_program(argc, argv, kCommands);
}
