// What a calibration costs, as shares of what the processor can do: forward, backward and Fisher of 100 windows of 512
// tokens, against the GEMM rate and the plain forward pass measured in the same run.
//
//   calibrate_bench [MODEL [WINDOWS]]      MODEL defaults to ../shared/models/gpt2-novels

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <functional>

#include "calib/collect/collector.h"
#include "core/machine/memory.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"
#include "tests/model/transformer/golden_files.h"
#include "tests/model/transformer/toy_weights.h"
#include "tests/support/files.h"

namespace nibble::calib {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The plain forward of the same windows in the same batches, logits of all positions included.
double forward_seconds(const model::Model& model, std::span<const TokenId> tokens, std::size_t length) {
  constexpr std::size_t kBatch = 4;
  return seconds_of([&] {
    for (std::size_t begin = 0; begin < tokens.size(); begin += kBatch * length) {
      const auto part = tokens.subspan(begin, std::min(kBatch * length, tokens.size() - begin));
      std::vector<std::size_t> starts, rows(part.size());
      for (std::size_t t = 0; t <= part.size(); t += length) starts.push_back(t);
      for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = r;
      model.forward({part, starts}, rows, [](std::span<const std::size_t>, MatrixView<const float>) {});
    }
  });
}

void run(const std::filesystem::path& directory, std::size_t windows) {
  constexpr std::size_t kLength = 512;
  const test::LoadedModel loaded = test::load(directory);
  const auto tokens = test::toy_tokens(loaded.architecture, windows * kLength, 1);
  const test::TempDir dir;
  CalibrationJob job{.model = *loaded.model,
                     .tokens = tokens,
                     .settings = {.window_tokens = kLength, .collected = {.activations = true, .fisher = true}},
                     .output = dir / "calib.h5"};
  const CalibrationPlan plan = plan_job(job);
  const double gemm_rate = plan.operations / (0.6 * estimate_seconds(plan));
  const double forward = forward_seconds(*loaded.model, tokens, kLength);
  const PeakAnonymousMemory memory;
  const double seconds = seconds_of([&] { calibrate(job); });
  const double rate = plan.operations / seconds;
  fmt::print("{}: {} windows of {}, {} threads, {}\n", directory.filename().string(), windows, kLength, thread_count(),
             gemm_identity());
  fmt::print("GEMM rate               {:8.1f} GFLOP/s\n", gemm_rate / 1e9);
  fmt::print("plain forward           {:8.2f} s   {:8.0f} tokens/s\n", forward,
             static_cast<double>(tokens.size()) / forward);
  fmt::print("forward+backward+Fisher {:8.2f} s   {:8.0f} tokens/s   {:.1f} GFLOP/s, {:.0f} % of the GEMM rate\n",
             seconds, static_cast<double>(tokens.size()) / seconds, rate / 1e9, 100.0 * rate / gemm_rate);
  fmt::print("ratio to plain forward  {:8.2f}\n", seconds / forward);
  fmt::print("peak anonymous memory   {:8.0f} MB, planned {:.0f} MB\n", static_cast<double>(memory.bytes()) / 1e6,
             static_cast<double>(plan.memory_bytes) / 1e6);
}

}  // namespace
}  // namespace nibble::calib

int main(int argc, char** argv) {
  const std::filesystem::path model = argc > 1 ? argv[1] : nibble::test::shared_path("models/gpt2-novels");
  nibble::calib::run(model, argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 100);
}
