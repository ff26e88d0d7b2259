#include "quant/pipeline/shard.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/hash.h"
#include "core/strict_json.h"
#include "model/checkpoint/mapped_file.h"
#include "model/checkpoint/safetensors_file.h"

namespace nibble::quant {
namespace {

TensorResult parse_figures(const std::string& text, const std::string& what) {
  const nlohmann::json json = parse_strict_json(text, what);
  TensorResult result;
  result.name = json.at("name").get<std::string>();
  result.format = json.at("format").get<std::string>();
  result.weights = json.at("weights").get<std::uint64_t>();
  result.stored_bits = json.at("stored_bits").get<std::uint64_t>();
  result.bits_per_weight = json.at("bits_per_weight").get<double>();
  result.relative_weight_error = json.at("relative_weight_error").get<double>();
  result.optimality_gap = json.at("optimality_gap").get<double>();
  return result;
}

}  // namespace

nlohmann::ordered_json figures_json(const TensorResult& result) {
  return {{"name", result.name},
          {"format", result.format},
          {"weights", result.weights},
          {"stored_bits", result.stored_bits},
          {"bits_per_weight", result.bits_per_weight},
          {"relative_weight_error", result.relative_weight_error},
          {"optimality_gap", result.optimality_gap}};
}

Shard write_shard(const std::filesystem::path& file, const TensorResult& result, std::vector<TensorPart> parts) {
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.suffix < b.suffix; });
  Shard shard{file, result, {}};
  Hasher hasher;
  for (const TensorPart& part : parts) {
    shard.tensors.push_back({result.name + "." + part.suffix, part.dtype, part.shape});
    hasher.update(part.suffix).update(part.bytes);
  }
  model::SafetensorsWriter writer(file, shard.tensors,
                                  {{"figures", figures_json(result).dump()}, {"hash", hasher.hex()}});
  for (const TensorPart& part : parts) writer.write(part.bytes);
  writer.commit();
  return shard;
}

std::optional<Shard> find_shard(const std::filesystem::path& file, const std::string& name) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  try {
    const model::MappedFile mapped(file);
    const auto contents = model::parse_safetensors(mapped.bytes(), file.string());
    Shard shard{file, parse_figures(contents.metadata.at("figures"), file.string()), {}};
    Hasher hasher;
    for (const model::TensorView& tensor : contents.tensors) {
      shard.tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
      NIBBLE_REQUIRE(tensor.name.starts_with(name + "."), FormatError, "{}: unexpected tensor", tensor.name);
      hasher.update(std::string_view(tensor.name).substr(name.size() + 1)).update(tensor.data);
    }
    mapped.check_intact();
    if (shard.result.name != name || contents.metadata.at("hash") != hasher.hex()) return std::nullopt;
    return shard;
  } catch (const Error&) {  // not readable as a shard: made again
  } catch (const nlohmann::json::exception&) {
  } catch (const std::out_of_range&) {
  }
  return std::nullopt;
}

void append_shard(const Shard& shard, model::SafetensorsWriter& writer) {
  const model::MappedFile mapped(shard.file);
  const auto contents = model::parse_safetensors(mapped.bytes(), shard.file.string());
  NIBBLE_REQUIRE(contents.tensors.size() == shard.tensors.size(), FormatError, "'{}' changed while in use",
                 shard.file.string());
  for (const model::TensorView& tensor : contents.tensors) writer.write(tensor.data);
  mapped.check_intact();
}

}  // namespace nibble::quant
