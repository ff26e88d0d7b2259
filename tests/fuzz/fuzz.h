#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

// A fuzz target is one file, NAME_fuzz.cc, with NIBBLE_FUZZ(input) { … } around the parser, one line in
// tests/fuzz/CMakeLists.txt, and a few small files in tests/fuzz/corpus/NAME to start from.
//
// What a parser may do with any bytes: return, or throw FormatError or InvalidArgument. Any other exception, a
// sanitizer's report, a leak, 2 GB of memory or two minutes are what libFuzzer looks for.
namespace nibble::fuzz {

/// A directory of this process in memory (or where temporary files go), removed at exit.
const std::filesystem::path& directory();

/// A file there with these contents, replaced with every call.
std::filesystem::path file(std::string_view name, std::string_view contents);
/// Likewise, but no such file where there are no contents.
void file_if_any(std::string_view name, std::string_view contents);

/// The input cut at lines "----" into as many texts: for parsers of several files. Missing ones are empty.
std::vector<std::string_view> parts(std::string_view input, std::size_t count);

/// Says why an input was refused where NIBBLE_FUZZ_SHOW is set in the environment: how to see that a seed is none.
void refused(const std::exception& why);

}  // namespace nibble::fuzz

/// The body gets the input as std::string_view `input`.
#define NIBBLE_FUZZ(input)                                                            \
  static void nibble_fuzz(std::string_view input);                                    \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);  \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { \
    try {                                                                             \
      nibble_fuzz({reinterpret_cast<const char*>(data), size});                       \
    } catch (const nibble::FormatError& error) {                                      \
      nibble::fuzz::refused(error); /* the file is */                                 \
    } catch (const nibble::InvalidArgument& error) {                                  \
      nibble::fuzz::refused(error); /* what it asks for is */                         \
    }                                                                                 \
    return 0;                                                                         \
  }                                                                                   \
  static void nibble_fuzz(std::string_view input)
