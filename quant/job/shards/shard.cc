#include "quant/job/shards/shard.h"

#include <algorithm>

#include "core/error.h"
#include "core/files/hash.h"
#include "core/text/json.h"
#include "core/text/json_fields.h"
#include "core/text/strict_json.h"
#include "model/checkpoint/mapped_file.h"
#include "model/checkpoint/safetensors_file.h"

namespace nibble::quant {
namespace {

constexpr std::string_view kBiasCorrection = "bias_correction";  // a shard's own part

TensorResult parse_figures(const std::string& text, const std::string& what) {
  const nlohmann::json json = parse_strict_json(text, what);
  const JsonFields fields(json, what);
  TensorResult result{parse_tensor_figures(fields)};
  result.damping = fields.optional_figure("damping");
  if (fields.has("silent_inputs")) result.silent_inputs = fields.count("silent_inputs");
  result.predicted_loss = fields.optional_figure("predicted_loss");
  result.seconds = fields.figure("seconds");
  result.resumed = true;
  return result;
}

bool is_correction(const model::TensorView& tensor, const std::string& weight) {
  return tensor.name == fmt::format("{}.{}", weight, kBiasCorrection);
}

// Of suffixes and bytes, as write_shard() hashes them.
std::string hash_of(const std::vector<model::TensorView>& parts, const std::string& weight) {
  Hasher hasher;
  for (const model::TensorView& part : parts) {
    NIBBLE_REQUIRE(part.name.starts_with(weight + "."), FormatError, "{}: unexpected tensor", part.name);
    hasher.update(std::string_view(part.name).substr(weight.size() + 1)).update(part.data);
  }
  return hasher.hex();
}

// What a shard was written with. Without a flush nobody else hears of a disk that did not keep it.
model::SafetensorsContents whole_contents(const Shard& shard, const model::MappedFile& mapped) {
  model::SafetensorsContents contents = model::parse_safetensors(mapped.bytes(), shard.file.string());
  const std::string held = hash_of(contents.tensors, shard.result.name);
  mapped.check_intact();
  const std::size_t parts = shard.tensors.size() + (shard.bias_correction.empty() ? 0 : 1);
  const auto hash = contents.metadata.find("hash");
  NIBBLE_REQUIRE(contents.tensors.size() == parts && hash != contents.metadata.end() && hash->second == held,
                 FormatError,
                 "'{}' does not hold what was written to it: changed while in use, or lost by the disk; run the same "
                 "command again to make it anew",
                 shard.file.string());
  return contents;
}

}  // namespace

nlohmann::ordered_json figures_json(const TensorResult& result) {
  nlohmann::ordered_json json = json_of(result);
  if (result.damping) json["damping"] = *result.damping;
  if (result.silent_inputs) json["silent_inputs"] = *result.silent_inputs;
  if (result.predicted_loss) json["predicted_loss"] = *result.predicted_loss;
  json["seconds"] = result.seconds;
  return json;
}

Shard write_shard(const std::filesystem::path& file, const TensorResult& result, WeightParts made, Flush flush) {
  std::vector<TensorPart>& parts = made.parts;
  if (!made.bias_correction.empty())
    parts.push_back({std::string(kBiasCorrection),
                     DType::kF32,
                     {made.bias_correction.size()},
                     std::as_bytes(std::span(made.bias_correction)),
                     nullptr});
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.suffix < b.suffix; });
  Shard shard{file, result, {}, std::move(made.bias_correction)};
  std::vector<model::TensorDeclaration> declarations;
  Hasher hasher;
  for (const TensorPart& part : parts) {
    declarations.push_back({result.name + "." + part.suffix, part.dtype, part.shape});
    if (part.suffix != kBiasCorrection) shard.tensors.push_back(declarations.back());
    hasher.update(part.suffix).update(part.bytes);
  }
  model::SafetensorsWriter writer(file, declarations,
                                  {{"figures", figures_json(result).dump()}, {"hash", hasher.hex()}}, flush);
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
    Shard shard{file, parse_figures(contents.metadata.at("figures"), file.string()), {}, {}};
    const std::string held = hash_of(contents.tensors, name);
    for (const model::TensorView& tensor : contents.tensors) {
      if (is_correction(tensor, name)) {
        shard.bias_correction.resize(tensor.element_count());
        convert_to_f32(tensor.dtype, tensor.data.data(), tensor.element_count(), shard.bias_correction.data());
      } else {
        shard.tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
      }
    }
    mapped.check_intact();
    if (shard.result.name != name || contents.metadata.at("hash") != held) return std::nullopt;
    return shard;
  } catch (const Error&) {  // not readable as a shard: made again
  } catch (const nlohmann::json::exception&) {
  } catch (const std::out_of_range&) {
  }
  return std::nullopt;
}

std::vector<TensorPart> shard_parts(const Shard& shard) {
  const auto mapped = std::make_shared<const model::MappedFile>(shard.file);
  const model::SafetensorsContents contents = whole_contents(shard, *mapped);
  std::vector<TensorPart> parts;
  for (const model::TensorView& tensor : contents.tensors)
    if (!is_correction(tensor, shard.result.name))
      parts.push_back(
          {tensor.name.substr(shard.result.name.size() + 1), tensor.dtype, tensor.shape, tensor.data, mapped});
  return parts;
}

void append_shard(const Shard& shard, model::SafetensorsWriter& writer) {
  const model::MappedFile mapped(shard.file);
  for (const model::TensorView& tensor : whole_contents(shard, mapped).tensors)
    if (!is_correction(tensor, shard.result.name)) writer.write(tensor.data);
  mapped.check_intact();
}

}  // namespace nibble::quant
