#pragma once

// Private to calib/stats, like hdf5_read.h and hdf5_write.h: checked, owning wrappers of the HDF5 C interface. No
// public header includes hdf5.h.

#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <string_view>

namespace nibble::calib::h5 {

/// Held by every public call that enters HDF5, which is not thread-safe. Errors are not printed while it lives.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::lock_guard<std::recursive_mutex> lock_;
  H5E_auto2_t handler_ = nullptr;
  void* handler_data_ = nullptr;
};

/// Throws FormatError, "what: HDF5's own reason", with the system's error code where that has one, when an HDF5 call
/// returned a negative value.
void check(std::int64_t status, std::string_view what);

/// Owns one HDF5 identifier.
class Handle {
 public:
  using Closer = herr_t (*)(hid_t);
  Handle() = default;
  /// Throws FormatError when `id` is negative; `what` says what was tried.
  Handle(hid_t id, Closer closer, std::string_view what);
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  hid_t id() const { return id_; }
  void reset() noexcept;
  /// Closes now; throws FormatError when HDF5 cannot, for example because the last bytes do not fit the disk.
  void close(std::string_view what);

 private:
  hid_t id_ = -1;
  Closer closer_ = nullptr;
};

/// How a C++ type is stored, on every machine: little-endian IEEE or unsigned integer.
template <class T>
hid_t stored_type();
template <>
inline hid_t stored_type<float>() {
  return H5T_IEEE_F32LE;
}
template <>
inline hid_t stored_type<double>() {
  return H5T_IEEE_F64LE;
}
template <>
inline hid_t stored_type<std::uint64_t>() {
  return H5T_STD_U64LE;
}

/// How the same type lies in memory here.
template <class T>
hid_t native_type();
template <>
inline hid_t native_type<float>() {
  return H5T_NATIVE_FLOAT;
}
template <>
inline hid_t native_type<double>() {
  return H5T_NATIVE_DOUBLE;
}
template <>
inline hid_t native_type<std::uint64_t>() {
  return H5T_NATIVE_UINT64;
}

}  // namespace nibble::calib::h5
