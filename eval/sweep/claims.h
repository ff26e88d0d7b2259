#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace nibble::eval {

/// Claims of pieces of work, by name, among all processes that use one file: locks on byte ranges of it (Linux: open
/// file description locks, also over NFS). The kernel drops a claim with its process however that ends, so there is
/// nothing left to tidy up and no claim of the dead. The file stays empty.
class Claims {
 public:
  /// Makes the file if need be. Throws FormatError.
  explicit Claims(std::filesystem::path file);

  /// A claim, held while this lives.
  class Claim {
   public:
    ~Claim();
    Claim(Claim&& other) noexcept;
    Claim& operator=(Claim&&) = delete;
    /// An exclusive claim becomes one that others may share, without a moment in between. Throws FormatError.
    void share();

   private:
    friend class Claims;
    Claim(int file, std::int64_t offset) : file_(file), offset_(offset) {}
    int file_ = -1;
    std::int64_t offset_ = 0;
  };

  enum class Kind { kShared, kExclusive };
  /// Empty when somebody else's claim of the same name is in the way. Claims within one process are in each other's
  /// way too. Throws FormatError (a file system without locks).
  std::optional<Claim> try_claim(std::string_view name, Kind kind = Kind::kExclusive) const;
  /// Whether somebody holds a claim of this name.
  bool is_claimed(std::string_view name) const;

 private:
  std::filesystem::path file_;
};

}  // namespace nibble::eval
