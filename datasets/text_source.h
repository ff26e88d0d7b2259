#pragma once

#include <filesystem>
#include <string>

namespace nibble::datasets {

/// The whole text of a file for evaluation: .txt / .raw as it is. With `hf_join`, the file is read as rows whose blank
/// ones are " \n" (WikiText raw), and joined as the Hugging Face recipe does: rows joined by "\n\n", where an empty row
/// is "" and a text row keeps its own " … \n". Throws FormatError (unreadable, empty, invalid UTF-8 with the byte
/// position).
std::string read_evaluation_text(const std::filesystem::path& path, bool hf_join);

}  // namespace nibble::datasets
