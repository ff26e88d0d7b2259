#include "cli/command.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  using namespace nibble::cli;
  constexpr CommandMaker kCommands[] = {
      inspect_command,    calibrate_command,      quantize_command,  //
      perplexity_command, compare_logits_command, tokenize_command,  //
      generate_command,   export_command,         rotate_command,    //
      synthesize_command, bound_command,                             //
      diff_command,       report_command,         sweep_command,     //
      speed_command,      evaluate_command,       version_command,
  };
  return run_program(argc, argv, kCommands);
}
