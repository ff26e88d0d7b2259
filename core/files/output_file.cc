#include "core/files/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/files/file_lock.h"

namespace nibble {
namespace {

[[noreturn]] void fail(std::string_view action, const std::filesystem::path& path) {
  const int error = errno;
  throw errno_error(fmt::format("{} '{}'", action, path.string()), error);
}

constexpr std::uint64_t kFlushedAtATime = std::uint64_t{16} << 20;

std::mutex unflushed_mutex;
std::vector<std::string> unflushed;  // prefixes, one for each UnflushedDirectory alive

std::string prefix_of(const std::filesystem::path& directory) {
  return (std::filesystem::absolute(directory) / "").lexically_normal().string();
}

bool is_flushed(const std::filesystem::path& path) {
  const std::lock_guard lock(unflushed_mutex);
  if (unflushed.empty()) return true;
  const std::string name = std::filesystem::absolute(path).lexically_normal().string();
  return std::none_of(unflushed.begin(), unflushed.end(),
                      [&](const std::string& prefix) { return name.starts_with(prefix); });
}

InvalidArgument is_there_already(const std::filesystem::path& path) {
  return InvalidArgument(fmt::format("output '{}' exists; choose another or remove it", path.string()));
}

// rename() to a name that is free, in one step. Where the file system cannot, it is looked at just before.
bool rename_to_free_name(const std::filesystem::path& from, const std::filesystem::path& to) {
#ifdef RENAME_NOREPLACE
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return false;
#endif
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(to, error)))
    return ::rename(from.c_str(), to.c_str()) == 0;
  errno = EEXIST;
  return false;
}

// The file `partial`, empty and, if so wanted, locked. Another process may hold it, which is refused, or may have
// renamed what was opened before it was locked. File systems without locks give it unlocked.
int open_partial(const std::filesystem::path& partial, const std::filesystem::path& path, Lock lock) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    const int file = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) fail("cannot create", partial);
    const bool locked = lock == Lock::kYes && ::flock(file, LOCK_EX | LOCK_NB) == 0;
    const int error = errno;
    if (lock == Lock::kNo || (locked && has_name(file, partial)) || (!locked && error != EWOULDBLOCK)) {
      if (::ftruncate(file, 0) == 0 || errno == EINVAL) return file;  // a device has nothing to empty
      const int refused = errno;
      ::close(file);
      errno = refused;
      fail("cannot empty", partial);
    }
    ::close(file);
    if (!locked) break;
  }
  throw is_being_written(path);
}

}  // namespace

std::filesystem::path file_to_replace(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return path;
  // A rename over a pipe or a device would take it from who reads there.
  NIBBLE_REQUIRE(!std::filesystem::is_other(path, error), InvalidArgument, "'{}' exists and is not a regular file",
                 path.string());
  return std::filesystem::is_symlink(path, error) ? std::filesystem::canonical(path) : path;
}

OutputFile::OutputFile(const std::filesystem::path& path, Flush flush, Lock lock, Replace replace)
    : path_(file_to_replace(path)),
      partial_(path_.string() + ".partial"),
      flushed_(flush == Flush::kYes && is_flushed(path_)),
      replaces_(replace == Replace::kYes || std::filesystem::is_symlink(path_)) {  // a link that leads nowhere
  if (!replaces_ && std::filesystem::exists(path_)) throw is_there_already(path_);
  file_ = open_partial(partial_, path_, lock);
}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  ::unlink(partial_.c_str());
  ::close(file_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      fail("cannot write", partial_);
    }
    written_ += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    start_flushing();
  }
}

void OutputFile::start_flushing() {
#ifdef __linux__
  if (!flushed_ || written_ - on_their_way_ < kFlushedAtATime) return;
  // A hint only: that the disk says no, commit() hears.
  ::sync_file_range(file_, static_cast<off64_t>(on_their_way_), static_cast<off64_t>(written_ - on_their_way_),
                    SYNC_FILE_RANGE_WRITE);
  on_their_way_ = written_;
#endif
}

void OutputFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void OutputFile::commit() {
  if (flushed_ && ::fsync(file_) != 0) fail("cannot flush", partial_);
  const int held = ::fcntl(file_, F_DUPFD_CLOEXEC, 0);  // with its lock, until the file has its name
  const bool closed = ::close(file_) == 0;
  file_ = -1;  // closed, even where that failed: the destructor leaves things alone
  const bool renamed =
      closed && (replaces_ ? ::rename(partial_.c_str(), path_.c_str()) == 0 : rename_to_free_name(partial_, path_));
  const int error = errno;
  if (!renamed) ::unlink(partial_.c_str());
  if (held >= 0) ::close(held);
  if (!renamed) {
    if (closed && !replaces_ && error == EEXIST) throw is_there_already(path_);
    errno = error;
    fail(closed ? "cannot rename into place" : "cannot close", closed ? path_ : partial_);
  }
  if (flushed_) sync_directory(path_.has_parent_path() ? path_.parent_path() : std::filesystem::path("."));
}

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  OutputFile file(path);
  file.write(bytes);
  file.commit();
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  write_file(path, std::as_bytes(std::span(text)));
}

std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail("cannot open", path);
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = ::read(file, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int saved = errno;
      ::close(file);
      errno = saved;
      fail("cannot read", path);
    }
    if (count == 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > limit) {
      ::close(file);
      throw FormatError(fmt::format("'{}': expected at most {} bytes; is this the right file?", path.string(), limit));
    }
  }
  ::close(file);
  return text;
}

UnflushedDirectory::UnflushedDirectory(const std::filesystem::path& directory) : prefix_(prefix_of(directory)) {
  const std::lock_guard lock(unflushed_mutex);
  unflushed.push_back(prefix_);
}

UnflushedDirectory::~UnflushedDirectory() {
  const std::lock_guard lock(unflushed_mutex);
  unflushed.erase(std::find(unflushed.begin(), unflushed.end(), prefix_));
}

void sync_directory(const std::filesystem::path& directory) {
  if (!is_flushed(directory / "")) return;
  const int file = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) fail("cannot open directory", directory);
  const int status = ::fsync(file);
  ::close(file);
  if (status != 0) fail("cannot flush directory", directory);
}

}  // namespace nibble
