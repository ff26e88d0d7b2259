#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calib/stats/hdf5_handles.h"

// Reading files of strangers: everything is checked before it is used. `what` names the file in messages.

namespace nibble::calib::h5 {

Handle open_file(const std::string& path);
std::uint64_t file_bytes(hid_t file, std::string_view what);

bool has_link(hid_t group, const std::string& name);
/// Names of the links in a group, in the order they were made where the group remembers it, else sorted. Throws
/// FormatError above `limit` of them.
std::vector<std::string> link_names(hid_t group, std::size_t limit, std::string_view what);

/// Open what a *hard* link leads to. Throw FormatError for a missing link, for soft and external links, which could
/// lead into other files, and for objects of another kind.
Handle open_group(hid_t parent, const std::string& name, std::string_view what);
Handle open_dataset(hid_t parent, const std::string& name, std::string_view what);
/// Where in the file an object is: equal for hard links to the same object.
std::uint64_t object_address(hid_t object, std::string_view what);

/// Throw FormatError for an absent attribute, another type, or more than 1 MiB.
bool has_attribute(hid_t object, const std::string& name);
std::string read_text_attribute(hid_t object, const std::string& name, std::string_view what);
std::vector<std::uint64_t> read_integer_attribute(hid_t object, const std::string& name, std::string_view what);

/// The extents of a data set of at most two dimensions, after refusing external files, virtual, chunked and compact
/// layouts and filters. An empty shape is a scalar.
std::vector<std::uint64_t> dataset_shape(hid_t dataset, std::string_view what);
/// Before anything is allocated: refuses what dataset_shape() refuses, another stored type or shape, and storage that
/// is not there or reaches beyond the end of the file, whose size thereby bounds the allocation.
template <class T>
void check_dataset(hid_t dataset, std::span<const std::uint64_t> shape, std::uint64_t file_size, std::string_view what);
/// Reads all of a data set that check_dataset() accepted.
template <class T>
void read_checked_dataset(hid_t dataset, T* destination, std::string_view what);

}  // namespace nibble::calib::h5
