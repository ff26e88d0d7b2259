#include "calib/stats/hdf5_read.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "core/checked_math.h"
#include "core/error.h"

namespace nibble::calib::h5 {
namespace {

constexpr std::uint64_t kMaxAttributeBytes = 1 << 20;
constexpr std::size_t kMaxLinkName = 4096;

void require_hard_link(hid_t parent, const std::string& name, std::string_view what) {
  NIBBLE_REQUIRE(has_link(parent, name), FormatError, "{}: '{}' is missing", what, name);
  H5L_info_t info{};
  check(H5Lget_info(parent, name.c_str(), &info, H5P_DEFAULT), what);
  NIBBLE_REQUIRE(info.type == H5L_TYPE_HARD, FormatError,
                 "{}: '{}' is a{} link; only hard links are followed, others may lead into other files", what, name,
                 info.type == H5L_TYPE_SOFT       ? " soft"
                 : info.type == H5L_TYPE_EXTERNAL ? "n external"
                                                  : "n unknown");
}

Handle open_object(hid_t parent, const std::string& name, H5I_type_t kind, std::string_view kind_name,
                   std::string_view what) {
  require_hard_link(parent, name, what);
  Handle object(H5Oopen(parent, name.c_str(), H5P_DEFAULT), H5Oclose, what);
  NIBBLE_REQUIRE(H5Iget_type(object.id()) == kind, FormatError, "{}: '{}' is not a {}", what, name, kind_name);
  return object;
}

std::string stored_type_text(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  const std::string_view name = kind == H5T_FLOAT     ? "floating point"
                                : kind == H5T_INTEGER ? "integer"
                                : kind == H5T_STRING  ? "text"
                                                      : "something else";
  return fmt::format("{} of {} bytes", name, H5Tget_size(type));
}

std::vector<std::uint64_t> extents(hid_t space, std::string_view what) {
  const int rank = H5Sget_simple_extent_ndims(space);
  const bool simple = H5Sget_simple_extent_type(space) != H5S_NULL && rank >= 0 && rank <= 2;
  NIBBLE_REQUIRE(simple, FormatError, "{}: expected at most 2 dimensions, got {}", what, rank);
  std::array<hsize_t, 2> shape{};
  if (rank > 0) check(H5Sget_simple_extent_dims(space, shape.data(), nullptr), what);
  return {shape.begin(), shape.begin() + rank};
}

Handle open_attribute(hid_t object, const std::string& name, std::string_view what) {
  NIBBLE_REQUIRE(H5Aexists(object, name.c_str()) > 0, FormatError, "{}: attribute '{}' is missing", what, name);
  Handle attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, what);
  const hsize_t bytes = H5Aget_storage_size(attribute.id());
  NIBBLE_REQUIRE(bytes <= kMaxAttributeBytes, FormatError, "{}: attribute '{}' has {} bytes, at most {} are read", what,
                 name, bytes, kMaxAttributeBytes);
  return attribute;
}

// Ours begin with the signature at once.
bool begins_as_hdf5(const std::string& path) {
  constexpr std::string_view kSignature("\x89HDF\r\n\x1a\n", 8);
  std::ifstream file(path, std::ios::binary);
  std::array<char, kSignature.size()> start{};
  if (!file.read(start.data(), start.size())) return !file.is_open() || file.bad();  // whose reason HDF5 tells
  return std::string_view(start.data(), start.size()) == kSignature;
}

}  // namespace

Handle open_file(const std::string& path) {
  const std::string what = fmt::format("cannot open calibration file '{}'", path);
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, what);
  check(H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG), what);
  // What HDF5 says of these tells of its insides.
  std::error_code error;
  const bool directory = std::filesystem::is_directory(path, error);
  NIBBLE_REQUIRE(directory || std::filesystem::exists(path, error) || error, FormatError, "{}: no such file", what);
  NIBBLE_REQUIRE(!directory && begins_as_hdf5(path), FormatError,
                 "{}: expected what nibble calibrate wrote (HDF5), got {}; is this the right file?", what,
                 directory ? "a directory" : "another kind of file");
  return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose, what};
}

std::uint64_t file_bytes(hid_t file, std::string_view what) {
  hsize_t size = 0;
  check(H5Fget_filesize(file, &size), what);
  return size;
}

bool has_link(hid_t group, const std::string& name) { return H5Lexists(group, name.c_str(), H5P_DEFAULT) > 0; }

std::vector<std::string> link_names(hid_t group, std::size_t limit, std::string_view what) {
  H5G_info_t info{};
  check(H5Gget_info(group, &info), what);
  NIBBLE_REQUIRE(info.nlinks <= limit, FormatError, "{}: {} links, at most {} are read", what, info.nlinks, limit);
  const Handle creation(H5Gget_create_plist(group), H5Pclose, what);
  unsigned flags = 0;
  check(H5Pget_link_creation_order(creation.id(), &flags), what);
  // HDF5 1.10.8 makes a table of the links of such a group, and where the file is broken frees entries it never set.
  // The index of creation order needs no table, nor does asking for the links one by one.
  NIBBLE_REQUIRE(info.storage_type != H5G_STORAGE_TYPE_DENSE || (flags & H5P_CRT_ORDER_INDEXED) != 0, FormatError,
                 "{}: a group without an index of the order its links were made in", what);
  const H5_index_t index = (flags & H5P_CRT_ORDER_TRACKED) != 0 ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const auto get = [&](char* name, std::size_t size) {
      const ssize_t length = H5Lget_name_by_idx(group, ".", index, H5_ITER_INC, i, name, size, H5P_DEFAULT);
      check(length < 0 ? -1 : 0, what);
      return static_cast<std::size_t>(length);
    };
    const std::size_t length = get(nullptr, 0);
    NIBBLE_REQUIRE(length <= kMaxLinkName, FormatError, "{}: a link's name of {} bytes, at most {} are read", what,
                   length, kMaxLinkName);
    std::string name(length + 1, '\0');
    get(name.data(), name.size());
    name.resize(length);
    names.push_back(std::move(name));
  }
  return names;
}

Handle open_group(hid_t parent, const std::string& name, std::string_view what) {
  return open_object(parent, name, H5I_GROUP, "group", what);
}

Handle open_dataset(hid_t parent, const std::string& name, std::string_view what) {
  return open_object(parent, name, H5I_DATASET, "data set", what);
}

std::uint64_t object_address(hid_t object, std::string_view what) {
  H5O_info_t info{};
  check(H5Oget_info2(object, &info, H5O_INFO_BASIC), what);
  return info.addr;
}

bool has_attribute(hid_t object, const std::string& name) { return H5Aexists(object, name.c_str()) > 0; }

std::string read_text_attribute(hid_t object, const std::string& name, std::string_view what) {
  const Handle attribute = open_attribute(object, name, what);
  const Handle type(H5Aget_type(attribute.id()), H5Tclose, what);
  const Handle space(H5Aget_space(attribute.id()), H5Sclose, what);
  const bool plain = H5Tget_class(type.id()) == H5T_STRING && H5Tis_variable_str(type.id()) == 0 &&
                     H5Sget_simple_extent_type(space.id()) == H5S_SCALAR;
  NIBBLE_REQUIRE(plain, FormatError, "{}: attribute '{}': expected one text of fixed length, got {}", what, name,
                 stored_type_text(type.id()));
  std::string text(H5Tget_size(type.id()), '\0');
  check(H5Aread(attribute.id(), type.id(), text.data()), what);
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

std::vector<std::uint64_t> read_integer_attribute(hid_t object, const std::string& name, std::string_view what) {
  const Handle attribute = open_attribute(object, name, what);
  const Handle type(H5Aget_type(attribute.id()), H5Tclose, what);
  NIBBLE_REQUIRE(H5Tequal(type.id(), stored_type<std::uint64_t>()) > 0, FormatError,
                 "{}: attribute '{}': expected unsigned 64-bit integers, got {}", what, name,
                 stored_type_text(type.id()));
  const Handle space(H5Aget_space(attribute.id()), H5Sclose, what);
  const std::uint64_t count = checked_element_count(extents(space.id(), what), what);
  NIBBLE_REQUIRE(count <= kMaxAttributeBytes / sizeof(std::uint64_t), FormatError, "{}: attribute '{}' has {} values",
                 what, name, count);
  std::vector<std::uint64_t> values(count);
  if (count > 0) check(H5Aread(attribute.id(), native_type<std::uint64_t>(), values.data()), what);
  return values;
}

std::vector<std::uint64_t> dataset_shape(hid_t dataset, std::string_view what) {
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose, what);
  const H5D_layout_t layout = H5Pget_layout(creation.id());
  NIBBLE_REQUIRE(layout != H5D_VIRTUAL, FormatError,
                 "{}: is a virtual data set, which may read other files; only plain ones are read", what);
  NIBBLE_REQUIRE(layout == H5D_CONTIGUOUS, FormatError,
                 "{}: is not stored contiguously; rewrite the file with h5repack -l CONTI", what);
  NIBBLE_REQUIRE(H5Pget_external_count(creation.id()) == 0, FormatError,
                 "{}: keeps its data in an external file, which is not followed", what);
  NIBBLE_REQUIRE(H5Pget_nfilters(creation.id()) == 0, FormatError, "{}: is filtered; no filters are read", what);
  const Handle space(H5Dget_space(dataset), H5Sclose, what);
  return extents(space.id(), what);
}

template <class T>
void check_dataset(hid_t dataset, std::span<const std::uint64_t> shape, std::uint64_t file_size,
                   std::string_view what) {
  const std::vector<std::uint64_t> found = dataset_shape(dataset, what);
  NIBBLE_REQUIRE(std::equal(found.begin(), found.end(), shape.begin(), shape.end()), FormatError,
                 "{}: expected the shape ({}), got ({})", what, fmt::join(shape, ", "), fmt::join(found, ", "));
  const Handle type(H5Dget_type(dataset), H5Tclose, what);
  NIBBLE_REQUIRE(H5Tequal(type.id(), stored_type<T>()) > 0, FormatError, "{}: expected little-endian {}, got {}", what,
                 stored_type_text(stored_type<T>()), stored_type_text(type.id()));
  const std::uint64_t bytes = checked_multiply(checked_element_count(shape, what), sizeof(T), what);
  const std::uint64_t stored = H5Dget_storage_size(dataset);
  const haddr_t offset = H5Dget_offset(dataset);
  NIBBLE_REQUIRE(stored == bytes && offset != HADDR_UNDEF, FormatError, "{}: expected {} stored bytes, got {}", what,
                 bytes, offset == HADDR_UNDEF ? 0 : stored);
  NIBBLE_REQUIRE(checked_add(offset, bytes, what) <= file_size, FormatError,
                 "{}: reaches to byte {} of a file of {}; incomplete copy?", what, offset + bytes, file_size);
}

template <class T>
void read_checked_dataset(hid_t dataset, T* destination, std::string_view what) {
  check(H5Dread(dataset, native_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, destination), what);
}

// T is a type: no parentheses around it.
#define NIBBLE_INSTANTIATE(T)                                                                             \
  template void check_dataset<T>(hid_t, std::span<const std::uint64_t>, std::uint64_t, std::string_view); \
  template void read_checked_dataset<T>(hid_t, T*, std::string_view);  // NOLINT(bugprone-macro-parentheses)
NIBBLE_INSTANTIATE(float)
NIBBLE_INSTANTIATE(double)
NIBBLE_INSTANTIATE(std::uint64_t)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::calib::h5
