#include "model/checkpoint/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "core/error.h"
#include "core/files/hash.h"

namespace nibble::model {

/// One mapping as the signal handler sees it. Never freed, only reused: the handler walks the list without locks.
struct MappedFile::Registration {
  std::atomic<std::uintptr_t> begin{0}, end{0};  // whole pages; empty while unused
  std::atomic<bool> lost{false};
  bool used = false;  // guarded by SigbusRegistry::mutex
  Registration* next = nullptr;
};

struct SigbusRegistry {
  using Registration = MappedFile::Registration;
  static inline std::mutex mutex;
  static inline std::atomic<Registration*> head{nullptr};
  static inline struct sigaction previous {};
  static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<Registration*>::is_always_lock_free);

  static std::size_t page_size() {
    static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return size;
  }

  static Registration* add(const std::byte* data, std::size_t size) {
    const std::lock_guard lock(mutex);
    static const bool installed = install();
    (void)installed;
    Registration* entry = head.load();
    while (entry != nullptr && entry->used) entry = entry->next;
    if (entry == nullptr) {
      entry = new Registration;
      entry->next = head.load();
      head.store(entry);
    }
    entry->used = true;
    entry->lost = false;
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    entry->begin = begin;  // before `end`: a half-made entry is an empty range
    entry->end = begin + (size + page_size() - 1) / page_size() * page_size();
    return entry;
  }

  static void remove(Registration* entry) {
    const std::lock_guard lock(mutex);
    entry->end = 0;
    entry->begin = 0;
    entry->used = false;
  }

 private:
  static bool install() {
    page_size();  // the handler must not be the first to ask
    struct sigaction action {};
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous);
    return true;
  }

  // Only atomics and system calls in here.
  static void on_sigbus(int, siginfo_t* info, void*) {
    const int saved_errno = errno;
    const bool fault = info->si_code > 0;  // else sent by kill() or raise(), without an address
    if (fault && put_zeros_under(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
      errno = saved_errno;
      return;
    }
    sigaction(SIGBUS, &previous, nullptr);  // not ours: the access repeats and meets the handler before us
    if (!fault) raise(SIGBUS);
  }

  /// Marks the mapping around `address` as lost and replaces it by zero pages from there on.
  static bool put_zeros_under(std::uintptr_t address) {
    for (Registration* entry = head.load(); entry != nullptr; entry = entry->next) {
      const std::uintptr_t begin = entry->begin, end = entry->end;
      if (address < begin || address >= end) continue;
      entry->lost = true;  // before any thread can see the zeros
      const std::uintptr_t page = address / page_size() * page_size();
      return mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
    }
    return false;
  }
};

namespace {

std::int64_t written_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw FormatError(fmt::format("cannot open '{}': {}", path.string(), std::strerror(error)));
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // non-blocking: opening a FIFO must not hang
  if (file_ < 0) fail(path_, errno);
  try {
    struct stat status {};
    if (fstat(file_, &status) != 0) fail(path_, errno);
    NIBBLE_REQUIRE(S_ISREG(status.st_mode), FormatError, "cannot open '{}': expected a regular file", path_.string());
    size_ = static_cast<std::size_t>(status.st_size);
    written_ns_ = written_ns(status);
    if (size_ == 0) return;
    void* address = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file_, 0);
    if (address == MAP_FAILED) fail(path_, errno);
    data_ = static_cast<const std::byte*>(address);
    registration_ = SigbusRegistry::add(data_, size_);
  } catch (...) {
    ::close(file_);
    throw;
  }
}

MappedFile::~MappedFile() {
  if (registration_ != nullptr) {
    SigbusRegistry::remove(registration_);
    munmap(const_cast<std::byte*>(data_), size_);
  }
  ::close(file_);
}

void MappedFile::check_intact() const {
  struct stat status {};
  const bool same_size = fstat(file_, &status) == 0 && static_cast<std::size_t>(status.st_size) >= size_;
  const bool lost = registration_ != nullptr && registration_->lost;
  NIBBLE_REQUIRE(
      same_size && !lost, FormatError,
      "reading '{}' failed: it had {} bytes when it was opened and has {} now; was it replaced, cut short or "
      "lost while in use?",
      path_.string(), size_, status.st_size);
  NIBBLE_REQUIRE(
      written_ns(status) == written_ns_, FormatError,
      "reading '{}' failed: it was written to while in use, so that what was read so far and the rest may not "
      "belong together; start again",
      path_.string());
}

void MappedFile::release(std::span<const std::byte> part) const {
  if (part.empty()) return;
  const std::size_t page = SigbusRegistry::page_size();
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(part.data()) + part.size();
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // advice: nothing is lost if it fails
}

std::string MappedFile::hash(std::span<const std::byte> part) const {
  constexpr std::size_t kPiece = std::size_t{1} << 24;
  Hasher hasher;
  for (std::size_t at = 0; at < part.size(); at += kPiece) {
    const auto piece = part.subspan(at, std::min(kPiece, part.size() - at));
    hasher.update(piece);
    release(piece);
  }
  check_intact();
  return hasher.hex();
}

}  // namespace nibble::model
