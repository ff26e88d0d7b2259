#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "core/files/output_file.h"
#include "core/text/json.h"
#include "core/text/strict_json.h"

namespace nibble::quant {

/// What a killed run of a job left in `file`, as `read` makes it of its JSON. Nothing where there is no file, where it
/// is larger than `max_bytes` or damaged, or where `read` throws FormatError or an exception of nlohmann::json: then
/// the work is done again.
template <class Read>
auto kept_state(const std::filesystem::path& file, std::size_t max_bytes, Read&& read)
    -> std::optional<decltype(read(nlohmann::json()))> {
  if (!std::filesystem::exists(file)) return std::nullopt;
  try {
    return read(parse_strict_json(read_text_file(file, max_bytes), file.string()));
  } catch (const FormatError&) {
  } catch (const nlohmann::json::exception&) {
  }
  return std::nullopt;
}

}  // namespace nibble::quant
