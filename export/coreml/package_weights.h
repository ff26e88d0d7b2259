#pragma once

#include <filesystem>
#include <memory>

#include "model/architecture/architecture.h"
#include "model/checkpoint/weights.h"

namespace nibble::coreml {

/// The weights that a package holds, read back from disk: decoded by constant_source.h, found by names.h. Constants
/// that functions share must be the same in all of them, and rows that a head has in parts the same as those of the
/// whole matrix, else opening and decoding throw FormatError. linear() is not there: throws InvalidArgument.
std::unique_ptr<model::WeightProvider> open_package_weights(const std::filesystem::path& directory,
                                                            const model::Architecture& architecture);

}  // namespace nibble::coreml
