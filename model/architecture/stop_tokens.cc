#include "model/architecture/stop_tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace nibble::model {

void add_stop_tokens(const JsonFields& fields, Architecture& architecture) {
  const nlohmann::json* eos = fields.find("eos_token_id");
  if (eos == nullptr) return;
  // Llama 3.1 lists several ends.
  const nlohmann::json list = eos->is_array() ? *eos : nlohmann::json::array({*eos});
  NIBBLE_REQUIRE(list.size() <= 64, FormatError, "{}: 'eos_token_id': expected at most 64 ids, got {}", fields.what(),
                 list.size());
  std::vector<std::uint32_t>& stops = architecture.stop_tokens;
  for (const nlohmann::json& id : list) {
    const nlohmann::json member = {{"eos_token_id", id}};
    const auto token = static_cast<std::uint32_t>(
        JsonFields(member, fields.what()).integer("eos_token_id", 0, architecture.vocabulary - 1));
    if (std::find(stops.begin(), stops.end(), token) == stops.end()) stops.push_back(token);
  }
  if (!stops.empty()) architecture.eos = stops.front();
}

}  // namespace nibble::model
