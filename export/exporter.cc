#include "export/exporter.h"

#include <fmt/ranges.h>

#include <array>

#include "core/error.h"
#include "core/text/suggest.h"

namespace nibble::exporting {

std::span<const Exporter* const> exporters() {
  static constexpr std::array all{
      &kDequantizedExporter,        //
      &kGgufExporter,               //
      &kMlxExporter,                //
      &kCompressedTensorsExporter,  //
      &kGptqExporter,               //
      &kAwqExporter,                //
      &kCoreMlExporter,             //
  };
  return all;
}

const Exporter& find_exporter(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Exporter* exporter : exporters()) {
    if (exporter->name == name) return *exporter;
    names.push_back(exporter->name);
  }
  throw InvalidArgument(
      fmt::format("export format: expected {}, got '{}'{}", fmt::join(names, ", "), name, did_you_mean(name, names)));
}

const ExportGroup& ExportPlan::group_of(const ExportPart& part) const {
  const auto index = static_cast<std::size_t>(&part - model.parts().data());
  NIBBLE_REQUIRE(index < group_index.size(), InvalidArgument, "'{}' is no part of this plan", part.parameter->module);
  return groups[group_index[index]];
}

}  // namespace nibble::exporting
