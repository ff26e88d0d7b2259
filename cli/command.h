#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace nibble::cli {

/// A subcommand: its options in CLI11's hands, and what to do once they are parsed. One source file each; all have the
/// same shape: parse, call one library function, print.
struct Command {
  CLI::App* options = nullptr;
  std::function<void()> run;
};

// Each adds its subcommand to `program`.
Command inspect_command(CLI::App& program);
Command calibrate_command(CLI::App& program);
Command quantize_command(CLI::App& program);
Command perplexity_command(CLI::App& program);
Command compare_logits_command(CLI::App& program);
Command tokenize_command(CLI::App& program);
Command generate_command(CLI::App& program);
Command export_command(CLI::App& program);
Command rotate_command(CLI::App& program);
Command bound_command(CLI::App& program);
Command synthesize_command(CLI::App& program);
Command sweep_command(CLI::App& program);
Command diff_command(CLI::App& program);
Command speed_command(CLI::App& program);
Command evaluate_command(CLI::App& program);
Command report_command(CLI::App& program);
Command version_command(CLI::App& program);

}  // namespace nibble::cli
