#include "tests/support/tiny_checkpoint.h"

#include <cstring>

#include "core/matrix/dtype.h"
#include "core/random.h"
#include "tests/support/files.h"

namespace nibble::test {
namespace {

template <class Bits, class Convert>
TinyTensor tensor_of(std::string name, std::string dtype, std::vector<std::uint64_t> shape,
                     std::span<const float> values, Convert convert) {
  std::string bytes(values.size() * sizeof(Bits), '\0');
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Bits bits = convert(values[i]);
    std::memcpy(bytes.data() + i * sizeof(Bits), &bits, sizeof(Bits));
  }
  return {std::move(name), std::move(dtype), std::move(shape), std::move(bytes)};
}

std::string joined(const std::vector<std::uint64_t>& numbers) {
  std::string text;
  for (const std::uint64_t number : numbers) {
    if (!text.empty()) text += ',';
    text += std::to_string(number);
  }
  return text;
}

}  // namespace

TinyTensor f32_tensor(std::string name, std::vector<std::uint64_t> shape, std::span<const float> values) {
  return tensor_of<float>(std::move(name), "F32", std::move(shape), values, [](float value) { return value; });
}
TinyTensor f16_tensor(std::string name, std::vector<std::uint64_t> shape, std::span<const float> values) {
  return tensor_of<std::uint16_t>(std::move(name), "F16", std::move(shape), values, f32_to_f16);
}
TinyTensor bf16_tensor(std::string name, std::vector<std::uint64_t> shape, std::span<const float> values) {
  return tensor_of<std::uint16_t>(std::move(name), "BF16", std::move(shape), values, f32_to_bf16);
}

std::vector<float> normal_values(std::size_t count, std::uint64_t seed, double deviation) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(deviation * random.normal());
  return values;
}

std::string raw_safetensors(std::string_view header_json, std::string_view data) {
  std::string file;
  for (std::uint64_t size = header_json.size(), i = 0; i < 8; ++i, size >>= 8) file += static_cast<char>(size & 0xFF);
  return file.append(header_json).append(data);
}

std::string safetensors_bytes(const std::vector<TinyTensor>& tensors) {
  std::string header, data;
  for (const TinyTensor& tensor : tensors) {
    header += header.empty() ? "{" : ",";
    header += "\"" + tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[" + joined(tensor.shape) +
              "],\"data_offsets\":[" + joined({data.size(), data.size() + tensor.bytes.size()}) + "]}";
    data += tensor.bytes;
  }
  return raw_safetensors((header.empty() ? "{" : header) + "}", data);
}

void write_checkpoint(const std::filesystem::path& directory, std::string_view config_json,
                      const std::vector<TinyTensor>& tensors) {
  std::filesystem::create_directories(directory);
  write_file(directory / "config.json", config_json);
  write_file(directory / "model.safetensors", safetensors_bytes(tensors));
}

void write_sharded_checkpoint(const std::filesystem::path& directory, std::string_view config_json,
                              const std::vector<std::vector<TinyTensor>>& shards) {
  std::filesystem::create_directories(directory);
  write_file(directory / "config.json", config_json);
  std::string map;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    const std::string file = "model-" + std::to_string(s + 1) + "-of-" + std::to_string(shards.size()) + ".safetensors";
    write_file(directory / file, safetensors_bytes(shards[s]));
    for (const TinyTensor& tensor : shards[s])
      map += (map.empty() ? "\"" : ",\"") + tensor.name + "\":\"" + file + "\"";
  }
  write_file(directory / "model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":{" + map + "}}");
}

}  // namespace nibble::test
