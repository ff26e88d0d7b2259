#include "eval/sweep/claims.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/files/hash.h"

namespace nibble::eval {
namespace {

// One byte far inside the range of offsets stands for a name; 60 bits of its hash tell names apart.
std::int64_t offset_of(std::string_view name) {
  const std::string hex = Hasher().update(name).hex().substr(0, 15);
  std::int64_t offset = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), offset, 16);
  return offset;
}

struct flock range_of(short type, std::int64_t offset) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = offset;
  range.l_len = 1;
  return range;
}

enum class For { kWriting, kReading };

int open_file(const std::filesystem::path& file, For what) {
  int handle = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  // To look at the claims of others, reading is enough.
  if (handle < 0 && what == For::kReading && (errno == EACCES || errno == EROFS))
    handle = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (handle < 0) throw errno_error(fmt::format("cannot open '{}'", file.string()), errno);
  return handle;
}

}  // namespace

Claims::Claims(std::filesystem::path file) : file_(std::move(file)) { ::close(open_file(file_, For::kReading)); }

Claims::Claim::~Claim() {
  if (file_ >= 0) ::close(file_);
}

Claims::Claim::Claim(Claim&& other) noexcept : file_(std::exchange(other.file_, -1)), offset_(other.offset_) {}

void Claims::Claim::share() {
  struct flock range = range_of(F_RDLCK, offset_);
  NIBBLE_REQUIRE(::fcntl(file_, F_OFD_SETLK, &range) == 0, FormatError, "cannot share a claim: {}",
                 std::strerror(errno));
}

std::optional<Claims::Claim> Claims::try_claim(std::string_view name, Kind kind) const {
  Claim claim(open_file(file_, kind == Kind::kShared ? For::kReading : For::kWriting),
              offset_of(name));  // a description of its own: its locks are its own too
  struct flock range = range_of(kind == Kind::kShared ? F_RDLCK : F_WRLCK, claim.offset_);
  if (::fcntl(claim.file_, F_OFD_SETLK, &range) == 0) return claim;
  NIBBLE_REQUIRE(errno == EAGAIN || errno == EACCES, FormatError, "cannot lock '{}': {}", file_.string(),
                 std::strerror(errno));
  return std::nullopt;
}

bool Claims::is_claimed(std::string_view name) const {
  const Claim probe(open_file(file_, For::kReading), offset_of(name));
  struct flock range = range_of(F_WRLCK, probe.offset_);
  NIBBLE_REQUIRE(::fcntl(probe.file_, F_OFD_GETLK, &range) == 0, FormatError, "cannot look at the locks of '{}': {}",
                 file_.string(), std::strerror(errno));
  return range.l_type != F_UNLCK;
}

}  // namespace nibble::eval
