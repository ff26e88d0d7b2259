#include "python/src/arrays.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "quant/algo/rounding/finite.h"

namespace nibble::python {
namespace {

constexpr nb::dlpack::dtype kBfloat16{static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1};

std::string dtype_text(nb::dlpack::dtype dtype) {
  const char* kind = "type";
  switch (static_cast<nb::dlpack::dtype_code>(dtype.code)) {
    case nb::dlpack::dtype_code::Int:
      kind = "int";
      break;
    case nb::dlpack::dtype_code::UInt:
      kind = "uint";
      break;
    case nb::dlpack::dtype_code::Float:
      kind = "float";
      break;
    case nb::dlpack::dtype_code::Bfloat:
      kind = "bfloat";
      break;
    case nb::dlpack::dtype_code::Complex:
      kind = "complex";
      break;
    case nb::dlpack::dtype_code::Bool:
      return "bool";
    default:
      break;
  }
  return fmt::format("{}{}", kind, dtype.bits);
}

/// Calls visit(offset in elements) for every element, the last index fastest.
void for_each_offset(const AnyArray::Base& array, const std::function<void(std::int64_t)>& visit) {
  const std::size_t dimensions = array.ndim();
  std::vector<std::size_t> index(dimensions, 0);
  for (std::size_t left = array.size(); left > 0; --left) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < dimensions; ++d) offset += static_cast<std::int64_t>(index[d]) * array.stride(d);
    visit(offset);
    for (std::size_t d = dimensions; d-- > 0;) {
      if (++index[d] < array.shape(d)) break;
      index[d] = 0;
    }
  }
}

/// Whether the values of a row lie side by side, one row behind the other.
bool rows_lie_well(const AnyArray& array) {
  const std::size_t dimensions = array.ndim();
  if (dimensions == 0) return true;
  if (array.shape(dimensions - 1) > 1 && array.stride(dimensions - 1) != 1) return false;
  std::int64_t least = static_cast<std::int64_t>(array.shape(dimensions - 1));
  for (std::size_t d = dimensions - 1; d-- > 0;) {
    if (array.shape(d) > 1 && array.stride(d) < least) return false;
    // Beyond two dimensions a view has one stride: the outer ones must follow from it.
    if (dimensions > 2 && array.shape(d) > 1 && array.stride(d) != least) return false;
    least *= static_cast<std::int64_t>(array.shape(d));
  }
  return true;
}

std::size_t row_length(const AnyArray& array) { return array.ndim() == 0 ? 1 : array.shape(array.ndim() - 1); }

std::size_t row_stride(const AnyArray& array) {
  const std::size_t length = row_length(array);
  if (array.ndim() != 2 || array.shape(0) < 2) return length;
  return static_cast<std::size_t>(array.stride(0));
}

template <class T>
MatrixView<const T> view_over(const AnyArray& array) {
  const std::size_t length = row_length(array);
  return {static_cast<const T*>(array.data()), length == 0 ? 0 : array.size() / length, length, row_stride(array)};
}

}  // namespace

void AnyArray::take(nb::handle given, std::uint32_t flags, nb::detail::cleanup_list* cleanup) noexcept {
  const auto read = [&](nb::handle array) {
    nb::detail::make_caster<Base> caster;
    if (!caster.from_python(array, flags, cleanup)) return false;
    Base::operator=(std::move(caster.value));
    return true;
  };
  try {
    if (!given.is_none() && read(given)) return;
    const bool typed = nb::hasattr(given, "dtype");
    const std::string dtype = typed ? nb::str(nb::object(given.attr("dtype"))).c_str() : "";
    bfloat16_ = dtype == "bfloat16" && nb::hasattr(given, "view") && read(nb::object(given.attr("view")("uint16")));
    if (!bfloat16_) refused_ = fmt::format("{}{}{}", nb::type_name(given.type()).c_str(), typed ? " of " : "", dtype);
  } catch (...) {
    refused_ = "an object that does not tell";
  }
}

nb::dlpack::dtype AnyArray::dtype() const { return bfloat16_ ? kBfloat16 : Base::dtype(); }

void AnyArray::require(std::string_view name) const {
  NIBBLE_REQUIRE(refused_.empty(), InvalidArgument,
                 "{}: expected an array in main memory (with __dlpack__ or a buffer), of numbers in this machine's "
                 "order of bytes, got {}",
                 name, refused_);
}

Floats::Floats(const AnyArray& array, std::string_view name) : name_(name), dimensions_(array.ndim()) {
  array.require(name);
  const nb::dlpack::dtype dtype = array.dtype();
  const bool half = dtype == nb::dlpack::dtype{static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
  const bool brain = dtype == kBfloat16;
  NIBBLE_REQUIRE(dtype == nb::dtype<float>() || half || brain, InvalidArgument,
                 "{}: expected float32 (or float16 or bfloat16, which are widened), got {}; convert it first, for "
                 "example with .astype('float32')",
                 name, dtype_text(dtype));
  if (dtype == nb::dtype<float>() && rows_lie_well(array)) {
    view_ = view_over<float>(array);
    return;
  }
  copied_ = true;
  copy_.reserve(array.size());
  if (dtype == nb::dtype<float>()) {
    const auto* data = static_cast<const float*>(array.data());
    for_each_offset(array, [&](std::int64_t offset) { copy_.push_back(data[offset]); });
  } else {
    const auto* data = static_cast<const std::uint16_t*>(array.data());
    for_each_offset(array, [&](std::int64_t offset) {
      copy_.push_back(half ? f16_to_f32(data[offset]) : bf16_to_f32(data[offset]));
    });
  }
  const std::size_t length = row_length(array);
  view_ = {copy_.data(), length == 0 ? 0 : copy_.size() / length, length};
}

Floats::Floats(const MaybeArray& array, std::string_view name) {
  if (array) *this = Floats(*array, name);
}

MatrixView<const float> Floats::matrix() const {
  NIBBLE_REQUIRE(dimensions_ <= 2, InvalidArgument, "{}: expected a matrix or a vector, got {} dimensions", name_,
                 dimensions_);
  return view_;
}

Floats& Floats::flat() {
  if (view_.stride() == view_.cols() || view_.rows() < 2) return *this;
  copy_.reserve(view_.rows() * view_.cols());
  for (std::size_t r = 0; r < view_.rows(); ++r) copy_.insert(copy_.end(), view_.row(r).begin(), view_.row(r).end());
  view_ = {copy_.data(), view_.rows(), view_.cols()};
  copied_ = true;
  return *this;
}

const Floats& Floats::finite() const {
  for (std::size_t r = 0; r < view_.rows(); ++r)
    if (const auto found = quant::first_not_finite(view_.row(r)))
      throw InvalidArgument(
          fmt::format("{}: expected finite values, got {} at ({}, {})", name_, view_(r, *found), r, *found));
  return *this;
}

std::span<const float> Floats::values() const {
  NIBBLE_REQUIRE(view_.stride() == view_.cols() || view_.rows() < 2, InvalidArgument,
                 "{}: expected values without gaps between them", name_);
  return {view_.data(), view_.rows() * view_.cols()};
}

Matrix<double> doubles_of(const AnyArray& array, std::string_view name) {
  array.require(name);
  NIBBLE_REQUIRE(array.ndim() == 1 || array.ndim() == 2, InvalidArgument,
                 "{}: expected a matrix or a vector, got {} dimensions", name, array.ndim());
  Matrix<double> result(array.ndim() == 1 ? 1 : array.shape(0), row_length(array));
  double* next = result.data();
  if (array.dtype() == nb::dtype<double>()) {
    const auto* data = static_cast<const double*>(array.data());
    for_each_offset(array, [&](std::int64_t offset) { *next++ = data[offset]; });
    return result;
  }
  const Floats floats(array, name);
  const MatrixView<const float> view = floats.matrix();
  for (std::size_t r = 0; r < view.rows(); ++r) next = std::copy(view.row(r).begin(), view.row(r).end(), next);
  return result;
}

Codes::Codes(const AnyArray& array, std::string_view name) {
  array.require(name);
  NIBBLE_REQUIRE(array.dtype() == nb::dtype<std::uint8_t>() && array.ndim() == 2, InvalidArgument,
                 "{}: expected uint8 of two dimensions, got {} of {}", name, dtype_text(array.dtype()), array.ndim());
  if (rows_lie_well(array)) {
    view_ = view_over<std::uint8_t>(array);
    return;
  }
  const auto* data = static_cast<const std::uint8_t*>(array.data());
  copy_.reserve(array.size());
  for_each_offset(array, [&](std::int64_t offset) { copy_.push_back(data[offset]); });
  view_ = {copy_.data(), array.shape(0), array.shape(1)};
}

MatrixView<std::uint8_t> in_place(const WritableCodes& codes, std::string_view name) {
  const std::size_t rows = codes.shape(0), cols = codes.shape(1);
  NIBBLE_REQUIRE((cols < 2 || codes.stride(1) == 1) && (rows < 2 || codes.stride(0) >= static_cast<std::int64_t>(cols)),
                 InvalidArgument, "{}: expected rows that lie side by side, as they are changed in place", name);
  return {codes.data(), rows, cols, rows < 2 ? cols : static_cast<std::size_t>(codes.stride(0))};
}

void require_below(MatrixView<const std::uint8_t> codes, std::size_t limit, std::string_view name) {
  for (std::size_t r = 0; r < codes.rows(); ++r)
    for (std::size_t c = 0; c < codes.cols(); ++c)
      NIBBLE_REQUIRE(codes(r, c) < limit, InvalidArgument, "{}: {} at ({}, {}) is not below {}", name, codes(r, c), r,
                     c, limit);
}

std::vector<std::uint32_t> ids_of(nb::handle ids, std::string_view name) {
  std::vector<std::uint32_t> result;
  const auto add = [&](auto id) {
    bool fits = id <= static_cast<decltype(id)>(std::numeric_limits<std::int32_t>::max());
    if constexpr (std::is_signed_v<decltype(id)>) fits = fits && id >= 0;
    NIBBLE_REQUIRE(fits, InvalidArgument, "{}: {} at index {} is no token id", name, id, result.size());
    result.push_back(static_cast<std::uint32_t>(id));
  };
  AnyArray::Base array;
  const bool text = PyUnicode_Check(ids.ptr()) != 0 || PyBytes_Check(ids.ptr()) != 0;
  NIBBLE_REQUIRE(!text, InvalidArgument, "{}: expected token ids, got text; a Tokenizer makes ids of it", name);
  if (!nb::try_cast(ids, array, true)) {
    NIBBLE_REQUIRE(PySequence_Check(ids.ptr()) != 0, InvalidArgument, "{}: expected a sequence of token ids, got {}",
                   name, nb::type_name(ids.type()).c_str());
    for (nb::handle id : ids) {
      std::int64_t value = 0;
      NIBBLE_REQUIRE(nb::try_cast(id, value), InvalidArgument, "{}: expected whole numbers, got {} at index {}", name,
                     nb::type_name(id.type()).c_str(), result.size());
      add(value);
    }
    return result;
  }
  NIBBLE_REQUIRE(array.ndim() == 1, InvalidArgument, "{}: expected one dimension, got {}", name, array.ndim());
  result.reserve(array.size());
  const auto dtype = array.dtype();
  const auto collect = [&](auto zero) {
    using T = decltype(zero);
    const T* data = static_cast<const T*>(array.data());
    for_each_offset(array, [&](std::int64_t offset) {
      if constexpr (sizeof(T) < 4) {
        add(static_cast<std::int32_t>(data[offset]));
      } else {
        add(data[offset]);
      }
    });
  };
  if (dtype == nb::dtype<std::uint32_t>()) {
    collect(std::uint32_t{});
  } else if (dtype == nb::dtype<std::int64_t>()) {
    collect(std::int64_t{});
  } else if (dtype == nb::dtype<std::int32_t>()) {
    collect(std::int32_t{});
  } else if (dtype == nb::dtype<std::int16_t>()) {
    collect(std::int16_t{});
  } else if (dtype == nb::dtype<std::int8_t>()) {
    collect(std::int8_t{});
  } else if (dtype == nb::dtype<std::uint16_t>()) {
    collect(std::uint16_t{});
  } else if (dtype == nb::dtype<std::uint8_t>()) {
    collect(std::uint8_t{});
  } else if (dtype == nb::dtype<std::uint64_t>()) {
    collect(std::uint64_t{});
  } else {
    throw InvalidArgument(fmt::format("{}: expected whole numbers, got {}", name, dtype_text(dtype)));
  }
  return result;
}

}  // namespace nibble::python
