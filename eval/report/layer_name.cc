#include "eval/report/layer_name.h"

#include <charconv>

namespace nibble::eval {

std::optional<LayerName> parse_layer_name(std::string_view name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    std::size_t block = 0;
    const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), block);
    if (!part.empty() && error == std::errc() && rest == part.data() + part.size() && block < 10'000 &&
        end < name.size())
      return LayerName{block, std::string(name.substr(end + 1))};
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace nibble::eval
