#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/matrix/matrix_view.h"

namespace nibble::python {

namespace nb = nanobind;

/// Anything of the caller's with __dlpack__ or a buffer, in main memory, which is never written to; numpy's bfloat16
/// (of ml_dtypes), which has neither, too. What nothing can be read of is refused by require().
class AnyArray : public nb::ndarray<nb::ro, nb::device::cpu> {
 public:
  using Base = nb::ndarray<nb::ro, nb::device::cpu>;

  /// Takes what an argument is. For nanobind.
  void take(nb::handle given, std::uint32_t flags, nb::detail::cleanup_list* cleanup) noexcept;
  nb::dlpack::dtype dtype() const;
  /// Throws InvalidArgument unless it is an array that can be read. `name` is for the message.
  void require(std::string_view name) const;

 private:
  bool bfloat16_ = false;  // seen as uint16
  std::string refused_;    // what it is instead
};
/// One that may be left out.
using MaybeArray = std::optional<AnyArray>;
/// The same, to be changed in place.
using WritableCodes = nb::ndarray<std::uint8_t, nb::ndim<2>, nb::device::cpu>;

/// The floats of an array as the libraries read them. In place, where they lie so already: float32, with the values of
/// a row side by side (slices of rows or columns are; a transposed matrix is not). Otherwise a copy: other strides, and
/// float16 and bfloat16, which float32 holds exactly. Throws InvalidArgument for any other type, float64 among them:
/// rounding is the caller's business. `name` is for messages. Lives no longer than the argument it came from.
class Floats {
 public:
  Floats() = default;  ///< empty: "not given"
  Floats(const AnyArray& array, std::string_view name);
  Floats(const MaybeArray& array, std::string_view name);

  /// Of an array (rows, columns); a vector is one row. Throws InvalidArgument for other numbers of dimensions.
  MatrixView<const float> matrix() const;
  /// All values in order. Throws InvalidArgument unless they lie without gaps: see flat().
  std::span<const float> values() const;
  /// Copies unless the values lie without gaps.
  Floats& flat();
  /// Throws InvalidArgument for a NaN or an infinity, saying where.
  const Floats& finite() const;
  bool copied() const { return copied_; }
  std::size_t dimensions() const { return dimensions_; }

 private:
  std::string_view name_;
  std::size_t dimensions_ = 0;
  MatrixView<const float> view_;
  std::vector<float> copy_;
  bool copied_ = false;
};

/// A copy in float64 of a matrix, or of a vector as one row; of float64 too.
Matrix<double> doubles_of(const AnyArray& array, std::string_view name);

/// Codes (rows, columns) of the caller's, uint8; in place where rows are contiguous, else copied.
class Codes {
 public:
  Codes(const AnyArray& array, std::string_view name);
  MatrixView<const std::uint8_t> matrix() const { return view_; }

 private:
  MatrixView<const std::uint8_t> view_;
  std::vector<std::uint8_t> copy_;
};

/// Where codes are changed in place. Throws InvalidArgument unless rows are contiguous.
MatrixView<std::uint8_t> in_place(const WritableCodes& codes, std::string_view name);

/// Throws InvalidArgument naming the first code that is not below `limit`.
void require_below(MatrixView<const std::uint8_t> codes, std::size_t limit, std::string_view name);

/// Whole numbers of any integer type, an array or a sequence of them, as ids. Throws InvalidArgument for anything else,
/// and for negative or huge ones.
std::vector<std::uint32_t> ids_of(nb::handle ids, std::string_view name);

template <class T>
using NumpyMatrix = nb::ndarray<nb::numpy, T, nb::ndim<2>>;
template <class T>
using NumpyVector = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

/// Hands a result over: the array owns it. Needs the interpreter's lock.
template <class T>
NumpyMatrix<T> to_numpy(Matrix<T>&& values) {
  auto* owned = new Matrix<T>(std::move(values));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Matrix<T>*>(p); });
  return NumpyMatrix<T>(owned->data(), {owned->rows(), owned->cols()}, owner);
}
template <class T>
NumpyVector<T> to_numpy(std::vector<T>&& values) {
  auto* owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return NumpyVector<T>(owned->data(), {owned->size()}, owner);
}

/// A view of a part of `owner`'s object, read-only, which keeps that alive.
template <class T>
NumpyMatrix<const T> view_of(const Matrix<T>& values, nb::handle owner) {
  return NumpyMatrix<const T>(values.data(), {values.rows(), values.cols()}, owner);
}
template <class T>
NumpyVector<const T> view_of(const std::vector<T>& values, nb::handle owner) {
  return NumpyVector<const T>(values.data(), {values.size()}, owner);
}

template <class>
struct MemberOf;
template <class Class_, class Member>
struct MemberOf<Member Class_::*> {
  using Class = Class_;
};
/// view_of() one member of a bound object: the getter of a property.
template <auto kMember>
auto array_of(nb::handle_t<typename MemberOf<decltype(kMember)>::Class> self) {
  return view_of(nb::cast<const typename MemberOf<decltype(kMember)>::Class&>(self).*kMember, self);
}

/// Runs `work` without the interpreter's lock.
template <class Work>
auto unlocked(const Work& work) {
  const nb::gil_scoped_release release;
  return work();
}

}  // namespace nibble::python

template <>
struct nanobind::detail::type_caster<nibble::python::AnyArray> {
  NB_TYPE_CASTER(nibble::python::AnyArray, make_caster<nibble::python::AnyArray::Base>::Name)

  bool from_python(handle given, std::uint32_t flags, cleanup_list* cleanup) noexcept {
    value.take(given, flags, cleanup);
    return true;  // what it is not, it says by the name of the argument
  }
};
