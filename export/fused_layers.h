#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "export/quantized_directory.h"

namespace nibble::exporting {

/// The layer that vLLM makes of q, k and v, or of gate and up, of which `matrix` is one: its name, by which settings
/// are looked up. Nothing where the output has them in one matrix already, and for others.
std::optional<std::string> fused_name(const OutputMatrix& matrix);

/// Such a layer, and its matrices.
struct FusedLayer {
  std::string name;
  std::vector<const OutputMatrix*> members;
};
/// Those of all of these matrices, by name.
std::vector<FusedLayer> fused_layers(std::span<const OutputMatrix> coded, std::span<const OutputMatrix> floats);

}  // namespace nibble::exporting
