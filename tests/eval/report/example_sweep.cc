#include "tests/eval/report/example_sweep.h"

#include <fmt/format.h>

#include <cmath>

#include "core/random.h"
#include "tests/support/files.h"

namespace nibble::test {
namespace {

using eval::SweepRecord;
using eval::TensorRecord;

constexpr double kFloatLoss = 4.7629;  // ln 117.08
constexpr std::size_t kWindows = 78, kBlocks = 6;

std::vector<TensorRecord> tensors_of(unsigned bits, double error, Random& random) {
  std::vector<TensorRecord> tensors;
  for (std::size_t block = 0; block < kBlocks; ++block)
    for (const char* kind :
         {"attn.c_attn.q", "attn.c_attn.k", "attn.c_attn.v", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}) {
      TensorRecord tensor{{.name = fmt::format("h.{}.{}", block, kind),
                           .format = "palette",
                           .weights = 147'456,
                           .stored_bits = 147'456 * bits + 256,
                           .bits_per_weight = bits + 0.0417,
                           .relative_weight_error = error * (1.0 + 0.4 * random.uniform()),
                           .optimality_gap = 0.0,
                           .output_error = error * (0.3 + random.uniform()),
                           .fisher_error = error * error * 1e-4 * std::exp(2.0 * random.normal())},
                          {},
                          eval::Histogram{-4.5, 4.5, {}}};
      const int entries = 1 << bits;
      for (int k = 0; k < entries; ++k) {
        const double place = (k + 0.5) / entries * 2.0 - 1.0;
        tensor.palette.push_back(1.6 * std::atanh(0.95 * place));
      }
      for (int i = 0; i < 64; ++i) {
        const double x = (i + 0.5) / 64.0 * 9.0 - 4.5;
        tensor.histogram->counts.push_back(
            static_cast<std::uint64_t>(8000.0 * std::exp(-0.5 * x * x) * (0.9 + 0.2 * random.uniform())));
      }
      tensors.push_back(std::move(tensor));
    }
  return tensors;
}

SweepRecord record_of(const std::string& recipe, const std::string& json, double loss, double bits_per_weight,
                      std::uint64_t seed) {
  SweepRecord record;
  Random text(1), own(seed);  // windows of one text: the same difficulty for every cell
  record.id = fmt::format("{:032x}", seed);
  record.labels = {{"model", "gpt2-novels"}, {"recipe", recipe}, {"evaluation", "novels, blocks of 512"}};
  record.configuration = {{"model", R"({"fingerprint":"5f1e"})"},
                          {"recipe", json},
                          {"calibration", json == "null" ? "null" : R"({"text":"c0ffee","samples":64})"},
                          {"evaluation", R"({"tokens":"ab12","protocol":"blocks","context":512})"}};
  eval::CellMeasures measures;
  double sum = 0.0, squares = 0.0;
  for (std::size_t w = 0; w < kWindows; ++w) {
    measures.window_nll.push_back(kFloatLoss + 0.15 * text.normal() + loss * (1.0 + 0.3 * own.normal()));
    sum += measures.window_nll.back();
  }
  const double mean = sum / kWindows;
  for (const double nll : measures.window_nll) squares += (nll - mean) * (nll - mean);
  measures.nll_nats_per_token = mean;
  measures.perplexity = std::exp(mean);
  measures.perplexity_stderr = measures.perplexity * std::sqrt(squares / (kWindows - 1) / kWindows);
  measures.tokens_scored = kWindows * 511;
  measures.bits_per_weight = bits_per_weight;
  measures.model_bits_per_weight = bits_per_weight + 3.0;
  measures.model_bytes = static_cast<std::uint64_t>(10'616'832 * bits_per_weight / 8.0) + 6'684'672;
  record.measures = std::move(measures);
  record.environment = {
      {"commit", "0123456789ab"}, {"compiler", "GCC 12.2.0"}, {"processor", "a processor"}, {"threads", "2"}};
  record.sources = {{"model", "models/gpt2-novels"}};
  record.command = "nibble sweep --repeat " + record.id + ".json";
  record.timings = {{"quantize_seconds", 0.8}, {"evaluate_seconds", 2.4}, {"tokens_per_second", 16'000.0}};
  return record;
}

}  // namespace

std::vector<SweepRecord> example_sweep() {
  std::vector<SweepRecord> records = {record_of("float", "null", 0.0, 16.0, 1)};
  std::uint64_t seed = 2;
  for (const unsigned bits : {4u, 3u, 2u})
    for (const bool weighting : {false, true})
      for (const bool scaling : {false, true})
        for (const bool shifting : {false, true}) {
          const double gain = (weighting ? 0.4 : 1.0) * (scaling ? 0.5 : 1.0) * (shifting ? 0.9 : 1.0);
          const double loss = 0.0123 * gain * std::pow(4.0, 4 - static_cast<int>(bits));
          const std::string weights = weighting ? "fisher" : "none", scales = scaling ? "std" : "none";
          SweepRecord record = record_of(
              fmt::format("bits={} weighting={} scaling={} shifting={}", bits, weights, scales, shifting),
              fmt::format(
                  R"({{"defaults":{{"format":"palette","bits":{},"granularity":"tensor","weighting":"{}","scaling":"{}","shifting":{}}}}})",
                  bits, weights, scales, shifting),
              loss, bits + 0.0004 + (scaling ? 0.0208 : 0.0) + (shifting ? 0.0104 : 0.0), seed);
          Random random(seed++);
          record.measures->tensors = tensors_of(bits, 0.4 * std::pow(0.5, bits) * std::sqrt(gain), random);
          records.push_back(std::move(record));
        }
  return records;
}

std::vector<SweepRecord> hostile_sweep(const std::string& poison) {
  std::vector<SweepRecord> records = example_sweep();
  for (SweepRecord& record : records) {
    for (auto& [name, value] : record.labels) value += poison;
    for (auto& [name, value] : record.environment) value += poison;
    record.environment.emplace_back("key" + poison, "value");
    record.command += poison;
    for (TensorRecord& tensor : record.measures->tensors) tensor.name += poison;
  }
  records[7].measures.reset();
  records[7].error = eval::CellError{"Unexpected" + poison, "message" + poison};
  return records;
}

SweepRecord given_checkpoint(SweepRecord record, const std::string& name) {
  std::string id;
  for (const char letter : name) id += fmt::format("{:02x}", letter);
  record.id = fmt::format("{:f>32}", id);
  record.labels[1].second = name;
  record.configuration[1].second = fmt::format(R"({{"checkpoint":{{"fingerprint":"{}"}}}})", name);
  record.configuration[2].second = "null";
  return record;
}

void write_records(const std::filesystem::path& directory, const std::vector<SweepRecord>& records) {
  for (const SweepRecord& record : records) write_file(directory / (record.id + ".json"), record_text(record));
}

}  // namespace nibble::test
