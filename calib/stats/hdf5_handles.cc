#include "calib/stats/hdf5_handles.h"

#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace nibble::calib::h5 {
namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

// The innermost entry of HDF5's error stack: the actual reason, on one line (it has dates with their line's end).
std::string reason() {
  std::string text = "no reason given";
  const auto take_first = [](unsigned depth, const H5E_error2_t* error, void* data) -> herr_t {
    if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(data) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text);
  std::erase(text, '\n');
  return text;
}

// HDF5 passes on what the system said only within that text: "…, errno = 28, error message = …".
std::error_code code_in(std::string_view said) {
  constexpr std::string_view kName = "errno = ";
  const std::size_t at = said.find(kName);
  int code = 0;
  if (at != said.npos) std::from_chars(said.data() + at + kName.size(), said.data() + said.size(), code);
  return {code, std::generic_category()};
}

}  // namespace

Session::Session() : lock_(library_mutex()) {
  // After a write or a close that failed, HDF5's clean-up at exit() crashes or loops (1.10.8). Our handles close
  // everything, so it has nothing to do.
  static const herr_t no_exit_handler = H5dont_atexit();
  static_cast<void>(no_exit_handler);
  H5Eget_auto2(H5E_DEFAULT, &handler_, &handler_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Session::~Session() { H5Eset_auto2(H5E_DEFAULT, handler_, handler_data_); }

void check(std::int64_t status, std::string_view what) {
  if (status >= 0) return;
  const std::string said = reason();
  throw FormatError(fmt::format("{}: HDF5 says: {}", what, said), code_in(said));
}

Handle::Handle(hid_t id, Closer closer, std::string_view what) : id_(id), closer_(closer) { check(id, what); }

Handle::Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), closer_(other.closer_) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  reset();
  id_ = std::exchange(other.id_, -1);
  closer_ = other.closer_;
  return *this;
}

void Handle::reset() noexcept {
  if (id_ >= 0) closer_(std::exchange(id_, -1));
}

void Handle::close(std::string_view what) { check(closer_(std::exchange(id_, -1)), what); }

}  // namespace nibble::calib::h5
