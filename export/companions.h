#pragma once

#include <filesystem>
#include <string_view>

#include "export/export_model.h"

namespace nibble::exporting {

/// Writes a small text file, flushed to disk.
void write_text(const std::filesystem::path& file, std::string_view text);

/// What travels along with a model into a directory in the shape of Hugging Face: the tokenizer's files,
/// generation_config.json, chat template, licence, README, where the checkpoint has them (a GGUF file
/// has the first and the third in its metadata).
void add_companions(const ExportModel& model, const std::filesystem::path& output);

}  // namespace nibble::exporting
