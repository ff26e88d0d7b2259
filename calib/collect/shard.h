#pragma once

#include <filesystem>
#include <string_view>

#include "calib/stats/layer_stats.h"

namespace nibble::calib {

/// A finished layer, or the part of it that one pass gathers, waiting beside the output until all are there.
///
/// File: "NIBBLE calib shard" and a version, the identity of the run, the layer's names, shape, counts and arrays (each
/// preceded by its length), then the hash of all that. Little-endian, read on the machine that wrote it. Written to
/// NAME.partial, flushed, renamed. Throws FormatError when the disk says no.
void write_shard(const std::filesystem::path& path, std::string_view identity, const LayerStats& layer);

/// Throws FormatError: unreadable, damaged, of another run, or with another shape than `expected` (module, out, in),
/// before anything is allocated.
LayerStats read_shard(const std::filesystem::path& path, std::string_view identity, const LayerStats& expected);

}  // namespace nibble::calib
