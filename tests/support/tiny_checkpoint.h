#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::test {

/// A tensor for a checkpoint made by a test. `bytes` is taken as it is, so it may be wrong on purpose.
struct TinyTensor {
  std::string name;
  std::string dtype;  ///< as in the file: "F32", "BF16", "U8", …
  std::vector<std::uint64_t> shape;
  std::string bytes;  ///< row-major, little-endian
};

/// Float tensors from values; F16 and BF16 are rounded to nearest even.
TinyTensor f32_tensor(std::string name, std::vector<std::uint64_t> shape, std::span<const float> values);
TinyTensor f16_tensor(std::string name, std::vector<std::uint64_t> shape, std::span<const float> values);
TinyTensor bf16_tensor(std::string name, std::vector<std::uint64_t> shape, std::span<const float> values);

/// `count` reproducible values, normal with the given standard deviation.
std::vector<float> normal_values(std::size_t count, std::uint64_t seed, double deviation = 1.0);

/// Size of the header, header, data: any header and any data, for files that are wrong on purpose.
std::string raw_safetensors(std::string_view header_json, std::string_view data);

/// A safetensors file of these tensors in this order, by code that shares nothing with the product's writer. The header
/// is not padded, so the data usually starts at an odd address.
std::string safetensors_bytes(const std::vector<TinyTensor>& tensors);

/// Makes `directory` if need be, with config.json and model.safetensors in it.
void write_checkpoint(const std::filesystem::path& directory, std::string_view config_json,
                      const std::vector<TinyTensor>& tensors);

/// The same in shards: one file per element, and model.safetensors.index.json.
void write_sharded_checkpoint(const std::filesystem::path& directory, std::string_view config_json,
                              const std::vector<std::vector<TinyTensor>>& shards);

}  // namespace nibble::test
