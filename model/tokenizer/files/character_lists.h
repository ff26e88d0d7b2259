#pragma once

#include <string_view>

namespace nibble::model {

// What two pre-tokenizers of Hugging Face's tokenizers 0.23 take for punctuation and for numbers: their tables are of
// other Unicode versions than the regex library's. Contents of a bracket, read out of that version code point by code
// point.

/// ASCII punctuation and the categories P* of Unicode 8.
extern const std::string_view kPunctuationList;
/// The categories Nd, Nl and No of Unicode 16.
extern const std::string_view kNumberList;

}  // namespace nibble::model
