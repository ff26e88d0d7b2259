#include "calib/stats/hdf5_write.h"

#include <fmt/format.h>

#include <vector>

namespace nibble::calib::h5 {
namespace {

Handle dataspace(std::span<const std::uint64_t> shape, std::string_view what) {
  if (shape.empty()) return {H5Screate(H5S_SCALAR), H5Sclose, what};
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  return {H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose, what};
}

Handle create_attribute(hid_t object, const std::string& name, hid_t type, const Handle& space, std::string_view what) {
  return {H5Acreate2(object, name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose, what};
}

}  // namespace

Handle create_file(const std::string& path) {
  const std::string what = fmt::format("cannot create '{}'", path);
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, what);
  check(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_V18), what);
  check(H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG), what);
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, what);
  check(H5Pset_obj_track_times(creation.id(), false), what);
  return {H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()), H5Fclose, what};
}

Handle create_group(hid_t parent, const std::string& name, std::string_view what) {
  const Handle creation(H5Pcreate(H5P_GROUP_CREATE), H5Pclose, what);
  check(H5Pset_obj_track_times(creation.id(), false), what);
  check(H5Pset_link_creation_order(creation.id(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED), what);
  return {H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, creation.id(), H5P_DEFAULT), H5Gclose, what};
}

void write_text_attribute(hid_t object, const std::string& name, std::string_view text, std::string_view what) {
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose, what);
  check(H5Tset_size(type.id(), text.empty() ? 1 : text.size()), what);
  check(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), what);
  check(H5Tset_cset(type.id(), H5T_CSET_UTF8), what);
  const Handle attribute = create_attribute(object, name, type.id(), dataspace({}, what), what);
  check(H5Awrite(attribute.id(), type.id(), text.empty() ? "" : text.data()), what);
}

void write_scalar_attribute(hid_t object, const std::string& name, std::uint64_t value, std::string_view what) {
  const Handle attribute = create_attribute(object, name, stored_type<std::uint64_t>(), dataspace({}, what), what);
  check(H5Awrite(attribute.id(), native_type<std::uint64_t>(), &value), what);
}

void write_vector_attribute(hid_t object, const std::string& name, std::span<const std::uint64_t> values,
                            std::string_view what) {
  const std::uint64_t extent = values.size();
  const Handle attribute =
      create_attribute(object, name, stored_type<std::uint64_t>(), dataspace({&extent, 1}, what), what);
  if (!values.empty()) check(H5Awrite(attribute.id(), native_type<std::uint64_t>(), values.data()), what);
}

template <class T>
Handle write_dataset(hid_t group, const std::string& name, std::span<const std::uint64_t> shape, const T* values,
                     std::string_view what) {
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what);
  check(H5Pset_obj_track_times(creation.id(), false), what);
  check(H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER), what);  // all of it is written right away
  const Handle space = dataspace(shape, what);
  Handle dataset(H5Dcreate2(group, name.c_str(), stored_type<T>(), space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
                 H5Dclose, what);
  check(H5Dwrite(dataset.id(), native_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values), what);
  return dataset;
}

template Handle write_dataset(hid_t, const std::string&, std::span<const std::uint64_t>, const float*,
                              std::string_view);
template Handle write_dataset(hid_t, const std::string&, std::span<const std::uint64_t>, const double*,
                              std::string_view);
template Handle write_dataset(hid_t, const std::string&, std::span<const std::uint64_t>, const std::uint64_t*,
                              std::string_view);

}  // namespace nibble::calib::h5
