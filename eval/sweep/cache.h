#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "eval/sweep/claims.h"

namespace nibble::eval {

/// Shared work of sweeps: a directory with one directory per key, several processes at once. When it grows beyond its
/// limit, what was not used for longest goes, except entries in use. What lies beside them is nobody's business here.
class Cache {
 public:
  /// Makes the directory if need be. Throws FormatError.
  Cache(std::filesystem::path directory, std::uint64_t limit_bytes);

  /// An entry that stays while this lives.
  struct Entry {
    std::filesystem::path directory;
    Claims::Claim claim;
  };

  /// The entry `key` ("WORD-ID", is_id()), made by make(directory) unless it is there complete; while another process
  /// makes it, waiting() is called about ten times a second. What an earlier make() that was killed left in the
  /// directory is still there. Passes on what make() throws. Throws FormatError, InvalidArgument (no such key).
  Entry get(const std::string& key, const std::function<void(const std::filesystem::path&)>& make,
            const std::function<void()>& waiting = {});

  bool has(const std::string& key) const;  ///< complete

 private:
  void evict() const;

  std::filesystem::path directory_;
  std::uint64_t limit_ = 0;
  Claims claims_;
};

}  // namespace nibble::eval
