#include "eval/report/entries.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace nibble::eval {

Facts report_settings(const SweepRecord& record) {
  Facts settings = settings_of(record);
  const auto calibration = nlohmann::json::parse(fact(record.configuration, "calibration"), nullptr, false);
  if (!calibration.is_object()) return settings;
  for (const auto& [name, key] : kCalibrationSettings)
    if (const auto value = calibration.find(key); value != calibration.end() && value->is_string())
      settings.emplace_back(name, value->get<std::string>());
  return settings;
}

std::string Entry::comparable_key() const {
  return fmt::format("{}\n{}", fact(record.configuration, "model"), scored_text(record));
}

}  // namespace nibble::eval
