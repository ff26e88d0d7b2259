#include "quant/job/shards/make_shards.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "core/machine/memory_gate.h"
#include "core/machine/thread_pool.h"
#include "quant/job/statistics/weight_statistics.h"
#include "quant/tensor/quantize_tensor.h"

namespace nibble::quant {
namespace {

constexpr double kSecondsWorthFlushing = 1.0;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Shard make_shard(const ShardJob& job, const Calibration& calibration) {
  const double start = now_seconds();
  const QuantizeItem& item = *job.item;
  WeightParts made =
      quantize_tensor(item.identity.name, *item.source, item.settings, statistics_for(item, calibration));
  for (std::size_t i = 0; i < item.output_drift.size(); ++i)
    made.bias_correction[i] = static_cast<float>(static_cast<double>(made.bias_correction[i]) + item.output_drift[i]);
  std::uint64_t bits = item.added_bits;
  for (const TensorPart& part : made.parts) bits += part.bytes.size() * 8;
  TensorResult result = tensor_result(item.identity.name, item.settings.format, item.weights(), bits, made);
  if (job.estimate) result.predicted_loss = predicted_loss(item, made, calibration, *job.estimate);
  item.source->release();
  result.seconds = now_seconds() - start;
  const Flush flush = result.seconds < kSecondsWorthFlushing ? job.quickly_made : Flush::kYes;
  return write_shard(job.file, result, std::move(made), flush);
}

}  // namespace

std::vector<Shard> make_shards(std::span<const ShardJob> jobs, const Calibration& calibration, JobReporter& reporter,
                               std::uint64_t memory_bytes, Announce announce) {
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return work_bytes(*jobs[a].item, calibration) > work_bytes(*jobs[b].item, calibration);
  });
  std::vector<Shard> shards(jobs.size());
  MemoryGate gate(memory_bytes);
  const auto make_one = [&](std::size_t position) {
    const ShardJob& job = jobs[order[position]];
    Shard& shard = shards[order[position]];
    auto work = JobReporter::Work::kDone;
    if (auto found = find_shard(job.file, job.item->identity.name)) {
      shard = std::move(*found);
      work = JobReporter::Work::kFound;
    } else {
      const MemoryGate::Pass pass(gate, work_bytes(*job.item, calibration));
      shard = make_shard(job, calibration);
    }
    if (announce == Announce::kYes) reporter.announce(shard.result);
    reporter.advance(job.item->weights(), work);
  };
  // One weight after the other where memory holds no second one, and, as solvers keep all threads busy with one, where
  // it holds fewer of theirs than there are threads; the rest side by side.
  const auto alone = [&](const QuantizeItem& item) {
    const std::uint64_t share = item.settings.solver == Solver::kNearest ? 1 : thread_count();
    return work_bytes(item, calibration) > memory_bytes / share;
  };
  std::size_t first_small = 0;
  while (first_small < jobs.size() && alone(*jobs[order[first_small]].item)) make_one(first_small++);
  parallel_for(jobs.size() - first_small, [&](std::size_t small) { make_one(first_small + small); });
  return shards;
}

}  // namespace nibble::quant
