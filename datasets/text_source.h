#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace nibble::datasets {

/// The whole text of a file for evaluation, as it is (.txt, .raw, …), at most 1 GiB.
///
/// hf_join  the file is read as rows, one a line, and joined as the Hugging Face recipe joins WikiText: by "\n\n",
/// where
///          a row of white space only (the files have " \n") is "" and any other keeps its own " … \n".
/// Throws FormatError: unreadable, empty, .jsonl or compressed, invalid UTF-8 (with the byte's position).
std::string read_evaluation_text(const std::filesystem::path& path, bool hf_join);

/// True for text of ASCII white space only, and for none.
bool is_blank(std::string_view text);

}  // namespace nibble::datasets
