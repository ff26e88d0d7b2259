#pragma once

#include <cstddef>
#include <system_error>

namespace nibble {

/// Throws InvalidArgument for thread `number` of `count` (from 1) that std::thread could not begin, with what may help.
[[noreturn]] void throw_no_thread(std::size_t number, std::size_t count, const std::system_error& error);

}  // namespace nibble
