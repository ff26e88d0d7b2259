#include "core/scratch_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include "core/error.h"

namespace nibble {
namespace {

thread_local const std::filesystem::path* scratch_directory = nullptr;

/// Which buffers are mapped. Nearly always none, which is seen without the lock.
class MappedBuffers {
 public:
  void add(void* buffer) {
    const std::lock_guard lock(mutex_);
    buffers_.insert(buffer);
    count_.store(buffers_.size());
  }
  bool remove(void* buffer) noexcept {
    if (count_.load() == 0) return false;
    const std::lock_guard lock(mutex_);
    const bool found = buffers_.erase(buffer) != 0;
    count_.store(buffers_.size());
    return found;
  }

 private:
  std::mutex mutex_;
  std::unordered_set<void*> buffers_;
  std::atomic<std::size_t> count_{0};
};

// Not destroyed: buffers of static objects are released after it would be.
MappedBuffers& mapped_buffers() {
  static auto* const buffers = new MappedBuffers;
  return *buffers;
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value() const { return value_; }

 private:
  int value_;
};

// An open file that is gone with its last user: a killed process leaves nothing behind.
int open_nameless(const std::filesystem::path& directory) {
#ifdef O_TMPFILE
  const int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  // File systems that do not know the flag say so in one of these ways.
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT) return -1;
#endif
  std::string name = (directory / "scratch-XXXXXX").string();
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) unlink(name.c_str());
  return named;
}

void* map_scratch(const std::filesystem::path& directory, std::size_t bytes) {
  const auto fail = [&](int error) {
    throw errno_error(fmt::format("cannot hold {} bytes of scratch in '{}'", bytes, directory.string()), error);
  };
  const Descriptor file(open_nameless(directory));
  if (file.value() < 0) fail(errno);
  // Room now, or an error: a write to a mapped page that finds the disk full could only end the process.
  int error = 0;
  do error = posix_fallocate(file.value(), 0, static_cast<off_t>(bytes));
  while (error == EINTR);
  if (error != 0) fail(error);
  void* buffer = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.value(), 0);
  if (buffer == MAP_FAILED) fail(errno);
  try {
    mapped_buffers().add(buffer);
  } catch (...) {
    munmap(buffer, bytes);
    throw;
  }
  return buffer;
}

}  // namespace

ScratchMemory::ScratchMemory(std::filesystem::path directory)
    : directory_(std::move(directory)), outer_(std::exchange(scratch_directory, &directory_)) {}

ScratchMemory::~ScratchMemory() { scratch_directory = outer_; }

void* allocate_large(std::size_t bytes) {
  return scratch_directory == nullptr ? ::operator new(bytes) : map_scratch(*scratch_directory, bytes);
}

void release_large(void* buffer, std::size_t bytes) noexcept {
  if (mapped_buffers().remove(buffer))
    munmap(buffer, bytes);
  else
    ::operator delete(buffer);
}

}  // namespace nibble
