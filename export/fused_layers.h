#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "export/quantized_directory.h"

namespace nibble::exporting {

/// What vLLM calls the one matrix that it makes of a module and its neighbours: "….qkv_proj" for "….q_proj",
/// "….k_proj" and "….v_proj", "….gate_up_proj" likewise; nothing for others. It looks settings up by this name.
std::optional<std::string> fused_name(const std::string& module);

/// A layer that vLLM makes of several: the matrices of the output that are in it.
struct FusedLayer {
  std::string name;
  std::vector<const OutputMatrix*> members;
};
/// Those of all of these matrices, by name.
std::vector<FusedLayer> fused_layers(std::span<const OutputMatrix> coded, std::span<const OutputMatrix> floats);

}  // namespace nibble::exporting
