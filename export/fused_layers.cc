#include "export/fused_layers.h"

#include <map>
#include <utility>

#include "export/program_families.h"

namespace nibble::exporting {

std::optional<std::string> fused_name(const OutputMatrix& matrix) {
  if (matrix.group->parts.size() != 1) return std::nullopt;
  const std::string_view name = vllm_fused_name(matrix.storage().role);
  if (name.empty()) return std::nullopt;
  const std::string& module = matrix.group->name;
  return module.substr(0, module.rfind('.') + 1) + std::string(name);
}

std::vector<FusedLayer> fused_layers(std::span<const OutputMatrix> coded, std::span<const OutputMatrix> floats) {
  std::map<std::string, std::vector<const OutputMatrix*>> by_name;
  for (const auto& matrices : {coded, floats})
    for (const OutputMatrix& matrix : matrices)
      if (const auto name = fused_name(matrix)) by_name[*name].push_back(&matrix);
  std::vector<FusedLayer> layers;
  for (auto& [name, members] : by_name)
    if (members.size() > 1) layers.push_back({name, std::move(members)});
  return layers;
}

}  // namespace nibble::exporting
