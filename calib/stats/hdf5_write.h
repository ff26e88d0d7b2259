#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "calib/stats/hdf5_handles.h"

// `what` names file and object in messages. Nothing written holds a time: equal contents give equal bytes.

namespace nibble::calib::h5 {

/// Creates or replaces a file. Uses a fixed, old format version, so that the bytes do not depend on the library's.
Handle create_file(const std::string& path);
/// A group that remembers the order in which its links were made.
Handle create_group(hid_t parent, const std::string& name, std::string_view what);
/// Fixed length, UTF-8: reading it back involves no heap and no pointers.
void write_text_attribute(hid_t object, const std::string& name, std::string_view text, std::string_view what);
void write_scalar_attribute(hid_t object, const std::string& name, std::uint64_t value, std::string_view what);
void write_vector_attribute(hid_t object, const std::string& name, std::span<const std::uint64_t> values,
                            std::string_view what);
/// A contiguous row-major data set; an empty shape is a scalar. Returns it, for its attributes.
template <class T>
Handle write_dataset(hid_t group, const std::string& name, std::span<const std::uint64_t> shape, const T* values,
                     std::string_view what);

}  // namespace nibble::calib::h5
