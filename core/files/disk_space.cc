#include "core/files/disk_space.h"

#include "core/error.h"

namespace nibble {

void require_disk_space(const std::filesystem::path& where, std::uint64_t bytes, std::string_view who,
                        std::string_view what) {
  std::error_code error;
  const std::uint64_t free = std::filesystem::space(where, error).available;
  if (error)
    throw FormatError(fmt::format("cannot see how much room '{}' has: {}", where.string(), error.message()), error);
  if (bytes <= free) return;
  // As full as one that a write fails on: who goes on later where a disk was full goes on here too.
  throw FormatError(fmt::format("{}: needs {} MB more in '{}' for {}, but only {} MB are free", who, bytes >> 20,
                                where.string(), what, free >> 20),
                    std::make_error_code(std::errc::no_space_on_device));
}

}  // namespace nibble
