#pragma once

#include <cstdint>
#include <string_view>

namespace nibble::cli {

/// "512M", "4G", "1.5G", "1000000": bytes, with K, M, G, T for powers of 1024. Throws InvalidArgument naming `option`.
std::uint64_t parse_memory_size(std::string_view option, std::string_view text);

}  // namespace nibble::cli
