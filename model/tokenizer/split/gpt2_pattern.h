#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace nibble::model {

/// How GPT-2 cuts text into words before BPE (Radford et al. 2019, encoder.py).
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Calls on_match(begin, end) for every match of kGpt2Pattern, as Regex::for_each_match would, several times faster.
/// The matches cover the text without gaps. Requires valid UTF-8.
void for_each_gpt2_match(std::string_view text,
                         const std::function<void(std::size_t begin, std::size_t end)>& on_match);

}  // namespace nibble::model
