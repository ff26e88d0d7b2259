#pragma once

#include <CLI/App.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::cli {

/// Options that every command has that shows progress.
struct CommonOptions {
  std::size_t threads = 0;
  bool json = false;
  bool quiet = false;
  /// Puts --threads into force. Called first by every command.
  void apply() const;
};
/// `used`: where threads are, if some of the command's work goes without: "Threads to use on checkpoints; …".
void add_common_options(CLI::App& app, CommonOptions& common, std::string_view used = "");
void add_threads(CLI::App& app, CommonOptions& common, std::string_view used = "");
void add_json_flag(CLI::App& app, bool& json);

/// The positional MODEL: a checkpoint directory.
void add_model(CLI::App& app, std::filesystem::path& model);

/// An option (or positional) that takes a path.
CLI::Option* add_path(CLI::App& app, const std::string& name, std::filesystem::path& value, const std::string& label,
                      const std::string& description);

/// Has `option`, which takes paths into a variable of another kind, refuse empty ones, as add_path() does.
CLI::Option* check_path(CLI::Option* option);

struct CountRange {
  std::uint64_t low = 1, high = std::numeric_limits<std::int64_t>::max();
};
/// An option that takes a whole number in the range, in plain decimal digits: CLI11 alone reads 010 as eight and -1 as
/// the largest number there is.
CLI::Option* add_count(CLI::App& app, const std::string& name, std::uint64_t& value, const std::string& description,
                       CountRange range = {});

/// An option that takes whole numbers in the range between commas.
CLI::Option* add_count_list(CLI::App& app, const std::string& name, std::vector<std::size_t>& values,
                            const std::string& description, CountRange range = {});

/// Throws InvalidArgument when one of `options` was given on the command line: "calibrate: --seed means nothing beside
/// --merge".
void refuse_given(const CLI::App& app, std::initializer_list<const char*> options, std::string_view beside);

/// An option that takes a number in [low, high].
CLI::Option* add_number(CLI::App& app, const std::string& name, double& value, const std::string& description,
                        double low, double high);

}  // namespace nibble::cli
