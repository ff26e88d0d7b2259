#include "model/synthesize/synthesize_model.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/files/disk_space.h"
#include "core/files/output_directory.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "core/random.h"
#include "model/architecture/families.h"
#include "model/checkpoint/safetensors_writer.h"

namespace nibble::model {
namespace {

constexpr std::size_t kTableBits = 16, kTableSize = std::size_t{1} << kTableBits;
constexpr std::size_t kTile = std::size_t{1} << 20;  // values made from one seed

// A tensor of the checkpoint: normal with this deviation around this mean.
struct RandomTensor {
  TensorDeclaration declaration;
  double mean = 0.0, deviation = 0.0;
};

std::vector<RandomTensor> tensors_of(const Architecture& architecture) {
  constexpr double kEmbedding = 0.02;
  const double into_residual = 1.0 / std::sqrt(2.0 * static_cast<double>(architecture.blocks.size()));
  std::vector<RandomTensor> tensors;
  for (FileTensor& tensor : file_tensors(architecture)) {
    RandomTensor random{{std::move(tensor.name), DType::kF16, std::move(tensor.shape)}, 0.0, 0.0};
    if (tensor.role == Role::kEmbedding || tensor.role == Role::kPositions || tensor.role == Role::kHead) {
      random.deviation = tensor.bias ? 0.0 : kEmbedding;
    } else if (tensor.in > 0) {
      random.deviation = (tensor.writes_residual ? into_residual : 1.0) / std::sqrt(static_cast<double>(tensor.in));
    } else if (!tensor.bias && tensor.role != Role::kSinks && tensor.role != Role::kRouterCorrection) {
      random.mean = 1.0 - tensor.gain_offset;  // of a norm
    }
    tensors.push_back(std::move(random));
  }
  return tensors;
}

// Quantiles at (i + 1/2) / size: drawn uniformly, they are a normal deviate.
std::vector<double> normal_table() {
  const boost::math::normal standard;
  std::vector<double> table(kTableSize);
  for (std::size_t i = 0; i < kTableSize / 2; ++i) {
    table[i] = quantile(standard, (static_cast<double>(i) + 0.5) / static_cast<double>(kTableSize));
    table[kTableSize - 1 - i] = -table[i];
  }
  return table;
}

void fill(std::span<std::uint16_t> values, std::uint64_t seed, std::span<const std::uint16_t> table) {
  Random random(seed);
  for (std::size_t i = 0; i < values.size();) {
    std::uint64_t bits = random.next();
    for (std::size_t draw = 0; draw < 64 / kTableBits && i < values.size(); ++draw, bits >>= kTableBits)
      values[i++] = table[bits & (kTableSize - 1)];
  }
}

std::uint64_t bytes_of(const RandomTensor& tensor) {
  return 2 * checked_element_count(tensor.declaration.shape, tensor.declaration.name);
}

// Makes the values tile by tile, one per thread at a time, and writes them in order.
void write_tensor(const RandomTensor& tensor, std::uint64_t seed, std::span<const double> quantiles,
                  SafetensorsWriter& writer) {
  std::vector<std::uint16_t> table(kTableSize);
  for (std::size_t i = 0; i < kTableSize; ++i)
    table[i] = f32_to_f16(static_cast<float>(tensor.mean + tensor.deviation * quantiles[i]));
  const std::uint64_t count = checked_element_count(tensor.declaration.shape, tensor.declaration.name);
  const std::size_t tiles_at_once = 2 * thread_count();
  std::vector<std::uint16_t> values(std::min<std::uint64_t>(count, tiles_at_once * kTile));
  Random seeds(seed);
  for (std::uint64_t begin = 0; begin < count; begin += values.size()) {
    const std::size_t size = std::min<std::uint64_t>(values.size(), count - begin);
    const auto now = std::span(values).first(size);
    std::vector<std::uint64_t> tile_seeds(divide_up(size, kTile));
    for (std::uint64_t& tile_seed : tile_seeds) tile_seed = seeds.next();
    parallel_for_tiles(size, kTile, [&](std::size_t first, std::size_t last) {
      fill(now.subspan(first, last - first), tile_seeds[first / kTile], table);
    });
    writer.write(std::as_bytes(now));
  }
}

// All of them into model.safetensors.
void write_tensors(std::span<const RandomTensor> tensors, const std::filesystem::path& directory,
                   const SynthesizeOptions& options) {
  std::vector<TensorDeclaration> declarations;
  std::uint64_t total = 0, done = 0;
  for (const RandomTensor& tensor : tensors) {
    declarations.push_back(tensor.declaration);
    total += bytes_of(tensor);
  }
  require_disk_space(directory, total, "synthesize", "the weights");
  SafetensorsWriter writer(
      directory / "model.safetensors", declarations,
      {{"format", "pt"},
       {"contents", fmt::format("random weights, seed {}: for speed and memory work", options.seed)}});
  const std::vector<double> quantiles = normal_table();
  for (const RandomTensor& tensor : tensors) {
    std::uint64_t seed = options.seed;
    for (const char c : tensor.declaration.name) seed = Random(seed ^ static_cast<unsigned char>(c)).next();
    write_tensor(tensor, seed, quantiles, writer);
    done += bytes_of(tensor);
    if (options.progress)
      options.progress({"synthesizing", static_cast<double>(done), static_cast<double>(total), "bytes"});
  }
  writer.commit();
}

}  // namespace

void synthesize_model(std::string_view config_text, const std::filesystem::path& output,
                      const SynthesizeOptions& options) {
  const Architecture architecture = parse_architecture(config_text, "config.json");
  const std::vector<RandomTensor> tensors = tensors_of(architecture);
  OutputDirectory directory(output, options.overwrite);
  try {
    write_tensors(tensors, directory.partial(), options);
    directory.add_text("config.json", config_text);
    directory.publish();
  } catch (...) {
    directory.discard();
    throw;
  }
}

}  // namespace nibble::model
