#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace nibble::exporting {

/// The chat templates of a checkpoint directory, by name; the default one has none and stands first: of
/// chat_template.jinja, else of tokenizer_config.json (a text, or a list of {name, template}). Throws FormatError.
std::vector<std::pair<std::string, std::string>> read_chat_templates(const std::filesystem::path& directory);

}  // namespace nibble::exporting
