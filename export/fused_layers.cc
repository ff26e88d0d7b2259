#include "export/fused_layers.h"

#include <map>
#include <string_view>
#include <utility>

namespace nibble::exporting {
namespace {

constexpr std::pair<std::string_view, std::string_view> kFused[] = {{"q_proj", "qkv_proj"},
                                                                    {"k_proj", "qkv_proj"},
                                                                    {"v_proj", "qkv_proj"},
                                                                    {"gate_proj", "gate_up_proj"},
                                                                    {"up_proj", "gate_up_proj"}};

}  // namespace

std::optional<std::string> fused_name(const std::string& module) {
  const std::size_t last = module.rfind('.') + 1;  // 0 where there is no dot
  for (const auto& [part, whole] : kFused)
    if (module.compare(last, std::string::npos, part) == 0) return module.substr(0, last) + std::string(whole);
  return std::nullopt;
}

std::vector<FusedLayer> fused_layers(std::span<const OutputMatrix> coded, std::span<const OutputMatrix> floats) {
  std::map<std::string, std::vector<const OutputMatrix*>> by_name;
  for (const auto& matrices : {coded, floats})
    for (const OutputMatrix& matrix : matrices)
      if (const auto name = fused_name(matrix.group->name)) by_name[*name].push_back(&matrix);
  std::vector<FusedLayer> layers;
  for (auto& [name, members] : by_name)
    if (members.size() > 1) layers.push_back({name, std::move(members)});
  return layers;
}

}  // namespace nibble::exporting
