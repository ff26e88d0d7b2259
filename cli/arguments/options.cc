#include "cli/arguments/options.h"

#include <fmt/format.h>

#include <CLI/Validators.hpp>
#include <charconv>
#include <system_error>

#include "core/error.h"
#include "core/machine/thread_pool.h"

namespace nibble::cli {
namespace {

// A CLI11 check: an empty text means fine.
template <class T>
CLI::Validator in_range(T low, T high, const std::string& kind) {
  return CLI::Validator(
      [=](const std::string& text) {
        T value{};
        const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool whole = status == std::errc() && end == text.data() + text.size();
        if (whole && value >= low && value <= high) return std::string();
        if (high >= static_cast<T>(std::numeric_limits<std::int64_t>::max()))
          return fmt::format("expected {} of at least {}, got '{}'", kind, low, text);
        return fmt::format("expected {} from {} to {}, got '{}'", kind, low, high, text);
      },
      "");
}

}  // namespace

void CommonOptions::apply() const { set_thread_count(threads); }

void add_common_options(CLI::App& app, CommonOptions& common, std::string_view used) {
  add_threads(app, common, used);
  add_json_flag(app, common.json);
  app.add_flag("-q,--quiet", common.quiet, "No progress on standard error");
}

void add_threads(CLI::App& app, CommonOptions& common, std::string_view used) {
  add_count(app, "--threads", common.threads,
            fmt::format("Threads to use{}{}; 0 means all processors", used.empty() ? "" : " ", used),
            {.low = 0, .high = 1024});
}

void add_json_flag(CLI::App& app, bool& json) {
  app.add_flag("--json", json, "Print one JSON object on standard output, for machines");
}

void add_model(CLI::App& app, std::filesystem::path& model) {
  add_path(app, "MODEL", model, "",
           "Checkpoint: a directory (config.json, *.safetensors), float or quantized, or a .gguf file")
      ->required();
}

CLI::Option* check_path(CLI::Option* option) {
  return option->check(
      CLI::Validator([](const std::string& text) { return text.empty() ? "expected a path, got ''" : ""; }, ""));
}

CLI::Option* add_path(CLI::App& app, const std::string& name, std::filesystem::path& value, const std::string& label,
                      const std::string& description) {
  return check_path(app.add_option_function<std::string>(
                           name, [&value](const std::string& text) { value = text; }, description)
                        ->type_name(label));
}

CLI::Option* add_count(CLI::App& app, const std::string& name, std::uint64_t& value, const std::string& description,
                       CountRange range) {
  return app
      .add_option_function<std::string>(
          name, [&value](const std::string& text) { std::from_chars(text.data(), text.data() + text.size(), value); },
          description)
      ->type_name("N")
      ->check(in_range<std::uint64_t>(range.low, range.high, "a whole number"));
}

CLI::Option* add_count_list(CLI::App& app, const std::string& name, std::vector<std::size_t>& values,
                            const std::string& description, CountRange range) {
  return app
      .add_option_function<std::vector<std::string>>(
          name,
          [&values](const std::vector<std::string>& words) {
            values.clear();
            for (const std::string& word : words) {
              std::from_chars(word.data(), word.data() + word.size(), values.emplace_back());
            }
          },
          description)
      ->delimiter(',')
      ->allow_extra_args(false)  // a word behind the list is no part of it
      ->type_name("LIST")
      ->check(in_range<std::uint64_t>(range.low, range.high, "a whole number"));
}

CLI::Option* add_number(CLI::App& app, const std::string& name, double& value, const std::string& description,
                        double low, double high) {
  return app
      .add_option_function<std::string>(
          name, [&value](const std::string& text) { std::from_chars(text.data(), text.data() + text.size(), value); },
          description)
      ->type_name("X")
      ->check(in_range<double>(low, high, "a number"));
}

void refuse_given(const CLI::App& app, std::initializer_list<const char*> options, std::string_view beside) {
  for (const char* name : options)
    NIBBLE_REQUIRE(app.count(name) == 0, InvalidArgument, "{}: {} means nothing beside {}", app.get_name(), name,
                   beside);
}

}  // namespace nibble::cli
