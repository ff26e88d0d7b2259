#include "quant/pipeline/quantize_model.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/hash.h"
#include "core/isa.h"
#include "core/thread_pool.h"
#include "model/checkpoint/tensor_checks.h"
#include "quant/pipeline/assemble.h"
#include "quant/pipeline/calibration.h"
#include "quant/pipeline/memory_gate.h"
#include "quant/pipeline/output_directory.h"
#include "quant/pipeline/plan.h"
#include "quant/pipeline/quantization_config.h"
#include "quant/pipeline/quantize_tensor.h"
#include "quant/pipeline/shard.h"
#include "quant/pipeline/weight_statistics.h"

namespace nibble::quant {
namespace {

constexpr std::uint64_t kAlwaysAllowedBytes = std::uint64_t{256} << 20;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Everything that decides the bytes of the output.
std::string job_fingerprint(const model::Checkpoint& checkpoint, const Recipe& recipe, const Calibration& calibration) {
  Hasher hasher;
  hasher.update(fmt::format("nibble quantize, format {}", kQuantizedFormatVersion))
      .update(checkpoint.fingerprint())
      .update(recipe.canonical_text())
      .update(isa_name(active_isa()));
  for (const std::string& file : calibration.fingerprints()) hasher.update(file);
  return hasher.hex();
}

// Copied tensors and biases are looked at before any work is done; weights when they are read.
void require_finite(const Plan& plan, const model::Checkpoint& checkpoint) {
  std::vector<model::TensorView> tensors;
  for (const CopyItem& copy : plan.copies) tensors.push_back(copy.tensor);
  for (const BiasItem& bias : plan.biases)
    if (bias.original) tensors.push_back(*bias.original);
  parallel_for(tensors.size(), [&](std::size_t i) {
    const model::TensorView& tensor = tensors[i];
    const auto bad = model::first_non_finite(tensor);
    checkpoint.check_intact(tensor);
    NIBBLE_REQUIRE(!bad, NumericalError, "{}: expected finite values, got NaN or infinity at index {}", tensor.name,
                   *bad);
  });
}

Shard make_shard(const std::filesystem::path& file, const QuantizeItem& item, const Calibration& calibration) {
  const double start = now_seconds();
  WeightParts made =
      quantize_tensor(item.identity.name, *item.source, item.settings, statistics_for(item, calibration));
  item.source->release();
  std::uint64_t bits = item.adds_bias ? item.source->rows() * 16 : 0;
  for (const TensorPart& part : made.parts) bits += part.bytes.size() * 8;
  const TensorResult result = tensor_result(item.identity.name, item.settings.format, item.weights(), bits, made);
  Shard shard = write_shard(file, result, std::move(made));
  shard.result.seconds = now_seconds() - start;
  return shard;
}

// Quantizes all items, largest first, or finds them done by a run that was killed. Shards in the order of items.
std::vector<Shard> make_shards(const std::vector<QuantizeItem>& items, const Calibration& calibration,
                               const OutputDirectory& output, const ProgressSink& progress) {
  std::vector<std::size_t> order(items.size());
  std::uint64_t total = 0, allowed_bytes = kAlwaysAllowedBytes;
  for (std::size_t i = 0; i < items.size(); ++i) {
    order[i] = i;
    total += items[i].weights();
    allowed_bytes = std::max({allowed_bytes, items[i].weights() * 16, work_bytes(items[i], calibration)});
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return items[a].weights() > items[b].weights(); });
  std::vector<Shard> shards(items.size());
  std::atomic<std::uint64_t> done{0};
  const auto report = [&] {
    if (progress) progress({"quantizing", static_cast<double>(done.load()), static_cast<double>(total), "weights"});
  };
  MemoryGate gate(allowed_bytes);
  report();
  parallel_for(items.size(), [&](std::size_t position) {
    const QuantizeItem& item = items[order[position]];
    const auto file = output.scratch() / (item.identity.name + ".safetensors");
    Shard& shard = shards[order[position]];
    if (auto found = find_shard(file, item.identity.name)) {
      shard = std::move(*found);
    } else {
      const MemoryGate::Pass pass(gate, work_bytes(item, calibration));
      shard = make_shard(file, item, calibration);
    }
    done += item.weights();
    if (thread_index() == 0) report();
  });
  report();
  return shards;
}

void refuse_quantized(const model::Checkpoint& checkpoint, const std::string& what) {
  const auto config = nlohmann::json::parse(checkpoint.config_text());
  NIBBLE_REQUIRE(!config.contains("quantization_config"), InvalidArgument,
                 "{} is quantized already; quantize the float checkpoint it was made from", what);
}

}  // namespace

QuantizeResult quantize_model(const QuantizeOptions& options) {
  options.recipe.validate();
  const auto checkpoint = model::Checkpoint::open(options.model);
  const std::string what = fmt::format("checkpoint '{}'", options.model.string());
  const model::Config config = model::parse_config(checkpoint->config_text(), "config.json of " + what);
  refuse_quantized(*checkpoint, what);
  std::error_code error;
  NIBBLE_REQUIRE(!std::filesystem::equivalent(options.model, options.output, error), InvalidArgument,
                 "output '{}' is the model itself", options.output.string());
  const Plan plan = make_plan(checkpoint, config, options.recipe);
  const Calibration calibration(options.calibration, *checkpoint);
  for (const QuantizeItem& item : plan.items) calibration.require_for(item);
  require_finite(plan, *checkpoint);

  OutputDirectory output(options.output, options.overwrite, job_fingerprint(*checkpoint, options.recipe, calibration));
  const std::vector<Shard> shards = make_shards(plan.items, calibration, output, options.progress);
  const QuantizeResult result = assemble(plan, shards, *checkpoint, output.partial() / "model.safetensors");

  QuantizationConfig quantization;
  for (const QuantizeItem& item : plan.items)
    if (item.settings.format != Format::kFloat16)
      quantization.tensors[item.identity.name] = stored_tensor(item.settings, item.source->rows(), item.source->cols());
  quantization.recipe = options.recipe.canonical_json().dump();
  quantization.checkpoint_fingerprint = checkpoint->fingerprint();
  quantization.calibration_fingerprints = calibration.fingerprints();
  quantization.bits_per_weight = result.bits_per_weight;
  quantization.model_bits_per_weight = result.model_bits_per_weight;
  output.add_text("config.json", with_quantization_config(checkpoint->config_text(), quantization));
  output.add_text("quantization.json", report_json(result));
  output.add_companions(options.model);
  output.publish();
  return result;
}

}  // namespace nibble::quant
