#include "export/gguf/chat_templates.h"

#include <algorithm>

#include "core/error.h"
#include "core/files/output_file.h"
#include "core/text/json.h"
#include "core/text/strict_json.h"

namespace nibble::exporting {
namespace {

constexpr std::uint64_t kMaxBytes = 16 << 20;  // tokenizer_config.json lists added tokens

}  // namespace

std::vector<std::pair<std::string, std::string>> read_chat_templates(const std::filesystem::path& directory) {
  std::vector<std::pair<std::string, std::string>> templates;
  const auto add = [&](std::string name, std::string text) {
    if (name == "default") name.clear();
    const bool there = std::any_of(templates.begin(), templates.end(), [&](const auto& t) { return t.first == name; });
    if (!there) templates.emplace_back(std::move(name), std::move(text));
  };
  if (const auto file = directory / "chat_template.jinja"; std::filesystem::exists(file))
    add("", read_text_file(file, kMaxBytes));
  const auto file = directory / "tokenizer_config.json";
  if (!std::filesystem::exists(file)) return templates;
  const nlohmann::json config = parse_strict_json(read_text_file(file, kMaxBytes), file.string());
  const auto found = config.is_object() ? config.find("chat_template") : config.end();
  if (found == config.end() || found->is_null()) return templates;
  if (found->is_string()) {
    add("", found->get<std::string>());
  } else {
    NIBBLE_REQUIRE(found->is_array(), FormatError, "{}: chat_template: expected a text or a list of them",
                   file.string());
    for (const nlohmann::json& entry : *found) {
      const bool good = entry.is_object() && entry.contains("name") && entry["name"].is_string() &&
                        entry.contains("template") && entry["template"].is_string();
      NIBBLE_REQUIRE(good, FormatError, "{}: chat_template: expected entries with a name and a template",
                     file.string());
      add(entry["name"].get<std::string>(), entry["template"].get<std::string>());
    }
  }
  std::stable_sort(templates.begin(), templates.end(),
                   [](const auto& a, const auto& b) { return a.first.empty() > b.first.empty(); });
  return templates;
}

}  // namespace nibble::exporting
