#pragma once

#include <cstdint>
#include <string>

namespace nibble::cli {

// Numbers for people: decimal (SI) steps, three significant digits, the unit always beside the number.

std::string human_count(double count);             ///< "0", "87.5", "999", "12.3k", "1.09M", "70.6G"
std::string human_bytes(std::uint64_t bytes);      ///< "512 bytes", "12.3 kB", "27.9 MB"
std::string human_duration(double seconds);        ///< "0.4 ms", "850 ms", "3.2 s", "1:05", "2:03:04"
std::string human_clock(double seconds);           ///< "00:07", "12:34", "1:02:03": of even width, for time left
std::string with_separators(std::uint64_t count);  ///< "402,009"

}  // namespace nibble::cli
