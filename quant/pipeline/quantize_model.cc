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
#include "quant/pipeline/memory_gate.h"
#include "quant/pipeline/output_directory.h"
#include "quant/pipeline/plan.h"
#include "quant/pipeline/quantization_config.h"
#include "quant/pipeline/quantize_tensor.h"
#include "quant/pipeline/shard.h"

namespace nibble::quant {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Everything that decides the bytes of the output.
std::string job_fingerprint(const model::Checkpoint& checkpoint, const Recipe& recipe) {
  return Hasher()
      .update(fmt::format("nibble quantize, format {}", kQuantizedFormatVersion))
      .update(checkpoint.fingerprint())
      .update(recipe.canonical_text())
      .update(isa_name(active_isa()))
      .hex();
}

// Copied tensors are looked at before any work is done; weights when they are read.
void require_finite(const std::vector<CopyItem>& copies, const model::Checkpoint& checkpoint) {
  parallel_for(copies.size(), [&](std::size_t i) {
    const model::TensorView& tensor = copies[i].tensor;
    const auto bad = model::first_non_finite(tensor);
    checkpoint.check_intact(tensor);
    NIBBLE_REQUIRE(!bad, NumericalError, "{}: expected finite values, got NaN or infinity at index {}", tensor.name,
                   *bad);
  });
}

Shard make_shard(const std::filesystem::path& file, const QuantizeItem& item) {
  const double start = now_seconds();
  const WeightParts made = quantize_tensor(item.identity.name, *item.source, item.settings);
  item.source->release();
  std::uint64_t bits = 0;
  for (const TensorPart& part : made.parts) bits += part.bytes.size() * 8;
  Shard shard = write_shard(file,
                            tensor_result(item.identity.name, item.settings.format, item.weights(), bits,
                                          made.relative_error, made.optimality_gap),
                            made.parts);
  shard.result.seconds = now_seconds() - start;
  return shard;
}

// Quantizes all items, largest first, or finds them done by a run that was killed. Shards in the order of items.
std::vector<Shard> make_shards(const std::vector<QuantizeItem>& items, const OutputDirectory& output,
                               const ProgressSink& progress) {
  std::vector<std::size_t> order(items.size());
  std::uint64_t total = 0, largest = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    order[i] = i;
    total += items[i].weights();
    largest = std::max(largest, items[i].weights());
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return items[a].weights() > items[b].weights(); });
  std::vector<Shard> shards(items.size());
  std::atomic<std::uint64_t> done{0};
  const auto report = [&] {
    if (progress) progress({"quantizing", static_cast<double>(done.load()), static_cast<double>(total), "weights"});
  };
  MemoryGate gate(4 * largest);
  report();
  parallel_for(items.size(), [&](std::size_t position) {
    const QuantizeItem& item = items[order[position]];
    const auto file = output.scratch() / (item.identity.name + ".safetensors");
    Shard& shard = shards[order[position]];
    if (auto found = find_shard(file, item.identity.name)) {
      shard = std::move(*found);
    } else {
      const MemoryGate::Pass pass(gate, item.weights());
      shard = make_shard(file, item);
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
  require_finite(plan.copies, *checkpoint);

  OutputDirectory output(options.output, options.overwrite, job_fingerprint(*checkpoint, options.recipe));
  const std::vector<Shard> shards = make_shards(plan.items, output, options.progress);
  const QuantizeResult result = assemble(plan, shards, *checkpoint, output.partial() / "model.safetensors");

  QuantizationConfig quantization;
  for (const QuantizeItem& item : plan.items)
    if (item.settings.format != Format::kFloat16)
      quantization.tensors[item.identity.name] = stored_tensor(item.settings, item.source->rows(), item.source->cols());
  quantization.recipe = options.recipe.canonical_json().dump();
  quantization.checkpoint_fingerprint = checkpoint->fingerprint();
  quantization.bits_per_weight = result.bits_per_weight;
  quantization.model_bits_per_weight = result.model_bits_per_weight;
  output.add_text("config.json", with_quantization_config(checkpoint->config_text(), quantization));
  output.add_text("quantization.json", report_json(result));
  output.add_companions(options.model);
  output.publish();
  return result;
}

}  // namespace nibble::quant
