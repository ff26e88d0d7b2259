#include "core/machine/scratch_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/error.h"

namespace nibble {

struct ScratchMemory::State : std::enable_shared_from_this<State> {
  State(std::filesystem::path place, std::uint64_t limit) : directory(std::move(place)), held_limit(limit) {}

  /// Whether so many bytes more may be held; then they count until they are given back.
  bool hold(std::uint64_t bytes) {
    if (held.fetch_add(bytes) + bytes <= held_limit) return true;
    held -= bytes;
    return false;
  }

  const std::filesystem::path directory;
  const std::uint64_t held_limit;
  std::atomic<std::uint64_t> held{0};
};

namespace {

thread_local ScratchMemory::State* scratch_of_thread = nullptr;

/// The buffers that were asked for under a ScratchMemory. Mostly none, which is seen without the lock.
class CountedBuffers {
 public:
  struct Entry {
    std::shared_ptr<ScratchMemory::State> state;
    bool mapped = false;
  };

  void add(void* buffer, Entry entry) {
    const std::lock_guard lock(mutex_);
    buffers_.emplace(buffer, std::move(entry));
    count_.store(buffers_.size());
  }
  /// Empty for buffers that were not.
  Entry remove(void* buffer) noexcept {
    if (count_.load() == 0) return {};
    const std::lock_guard lock(mutex_);
    const auto found = buffers_.find(buffer);
    if (found == buffers_.end()) return {};
    Entry entry = std::move(found->second);
    buffers_.erase(found);
    count_.store(buffers_.size());
    return entry;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, Entry> buffers_;
  std::atomic<std::size_t> count_{0};
};

// Never destroyed, for buffers of static objects are released later; nor on the heap, for it is made when the first
// buffer is released, maybe because the heap is full.
CountedBuffers& counted_buffers() {
  alignas(CountedBuffers) static std::byte room[sizeof(CountedBuffers)];
  static auto* const buffers = new (room) CountedBuffers;
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
    throw errno_error(
        fmt::format("cannot reserve {} bytes in '{}', for what --memory does not hold", bytes, directory.string()),
        error);
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
  return buffer;
}

// What the heap is given back it may keep. Of the largest held buffers nothing is to stay, so they are mapped as well;
// smaller ones come and go too often for that. (Nor under AddressSanitizer, which watches the heap.)
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kMappedFrom = SIZE_MAX;
#else
constexpr std::size_t kMappedFrom = std::size_t{16} << 20;
#endif

void* take(std::size_t bytes) {
  if (bytes < kMappedFrom) return ::operator new(bytes);
  void* buffer = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (buffer == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(buffer, bytes, MADV_HUGEPAGE);  // a wish; small pages work too
#endif
  return buffer;
}

void drop(void* buffer, std::size_t bytes) noexcept {
  if (bytes < kMappedFrom)
    ::operator delete(buffer);
  else
    munmap(buffer, bytes);
}

void give_back(void* buffer, std::size_t bytes, const CountedBuffers::Entry& entry) noexcept {
  if (!entry.state) {
    ::operator delete(buffer);
  } else if (entry.mapped) {
    munmap(buffer, bytes);
  } else {
    drop(buffer, bytes);
    entry.state->held -= bytes;
  }
}

}  // namespace

ScratchMemory::ScratchMemory(std::filesystem::path directory, std::uint64_t held_bytes)
    : state_(std::make_shared<State>(std::move(directory), held_bytes)),
      outer_(std::exchange(scratch_of_thread, state_.get())) {}

ScratchMemory::~ScratchMemory() { scratch_of_thread = outer_; }

ScratchMemory::State* LentScratch::of_this_thread() { return scratch_of_thread; }
LentScratch::LentScratch(ScratchMemory::State* state) : before_(std::exchange(scratch_of_thread, state)) {}
LentScratch::~LentScratch() { scratch_of_thread = before_; }

void* allocate_large(std::size_t bytes) {
  if (scratch_of_thread == nullptr) return ::operator new(bytes);
  CountedBuffers::Entry entry{scratch_of_thread->shared_from_this(), !scratch_of_thread->hold(bytes)};
  void* buffer = nullptr;
  try {
    buffer = entry.mapped ? map_scratch(entry.state->directory, bytes) : take(bytes);
    counted_buffers().add(buffer, entry);
  } catch (...) {
    if (buffer != nullptr)
      give_back(buffer, bytes, entry);
    else if (!entry.mapped)
      entry.state->held -= bytes;
    throw;
  }
  return buffer;
}

void release_large(void* buffer, std::size_t bytes) noexcept {
  give_back(buffer, bytes, counted_buffers().remove(buffer));
}

}  // namespace nibble
