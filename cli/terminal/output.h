#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace nibble::cli {

// Standard output belongs to results: either text, or with --json one object and nothing else. Whatever is not a result
// (progress, warnings, statistics about a run) goes to standard error.

/// To be called before any file is opened: standard descriptors that are closed lead nowhere from here on. Otherwise
/// the next file would get one of their numbers, and with it what is said.
void occupy_standard_descriptors();
/// Writes to standard output. Throws FormatError when it cannot be written (a full disk).
void print(std::string_view text);
/// Writes one JSON object and a newline. NaN and infinities, which JSON lacks, become null; bytes that are not UTF-8
/// become U+FFFD.
void print_json(const nlohmann::ordered_json& object);
/// Hands what was printed to the kernel. Throws FormatError when it refuses.
void flush_output();
/// Writes to standard error; where that cannot be written, nothing.
void tell(std::string_view text);
/// "nibble: warning: …" on standard error.
void warn(std::string_view text);

}  // namespace nibble::cli
