#include "eval/sweep/tensor_facts.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "core/matrix/matrix_view.h"
#include "quant/job/plan/plan.h"
#include "quant/store/model_weights.h"

namespace nibble::eval {
namespace {

std::vector<float> values_of(const quant::QuantizedTensor& tensor, std::string_view suffix) {
  for (const quant::TensorPart& part : tensor.parts()) {
    if (part.suffix != suffix || part.dtype == DType::kU8 || part.dtype == DType::kI8) continue;
    std::vector<float> values(part.bytes.size() / dtype_size(part.dtype));
    convert_to_f32(part.dtype, part.bytes.data(), values.size(), values.data());
    return values;
  }
  return {};
}

void add_values(const WeightSource& source, const quant::QuantizedTensor& quantized, TensorRecord& record) {
  const quant::TensorSpec& spec = quantized.spec();
  if (spec.coding == quant::Coding::kPalette && spec.palettes() == 1 && spec.cluster_dim == 1) {
    const std::vector<float> palette = values_of(quantized, "palette");
    record.palette.assign(palette.begin(), palette.end());
    std::sort(record.palette.begin(), record.palette.end());  // windows have an order of their own
  }
  Matrix<float> w(source.rows(), source.cols());
  source.decode_rows(0, w.rows(), w.data());
  source.release();
  const std::vector<float> scales = values_of(quantized, "scale");
  for (std::size_t i = 0; i < scales.size(); ++i)
    for (float& value : w.row(i)) value = scales[i] != 0.0f ? value / scales[i] : 0.0f;
  record.histogram = histogram_of(w.values());
}

}  // namespace

Histogram histogram_of(std::span<const float> values) {
  Histogram histogram;
  histogram.counts.assign(kHistogramBins, 0);
  if (values.empty()) return histogram;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  histogram.low = static_cast<double>(*least);
  histogram.high = static_cast<double>(*most);
  const double range = histogram.high - histogram.low;
  const double per_unit = range > 0.0 ? static_cast<double>(kHistogramBins) / range : 0.0;
  for (const float value : values) {
    const auto bin = static_cast<std::size_t>((static_cast<double>(value) - histogram.low) * per_unit);
    ++histogram.counts[std::min(bin, kHistogramBins - 1)];
  }
  return histogram;
}

std::vector<TensorRecord> tensor_records(const quant::QuantizeResult& result,
                                         const std::shared_ptr<const model::Checkpoint>& quantized,
                                         const std::shared_ptr<const model::Checkpoint>& original,
                                         const model::Architecture& architecture, const quant::Recipe& recipe) {
  std::vector<TensorRecord> records;
  std::map<std::string, std::size_t> place;
  for (const quant::TensorResult& tensor : result.tensors) {
    place[tensor.name] = records.size();
    records.push_back({tensor, {}, {}});
  }
  const quant::QuantizedWeights weights = quant::open_quantized_weights(quantized);
  const quant::Plan plan = quant::make_plan(original, architecture, recipe);
  parallel_for(plan.items.size(), [&](std::size_t i) {
    const auto& item = plan.items[i];
    const auto found = weights.find(item.identity.name);
    const auto known = place.find(item.identity.name);
    if (found != weights.end() && known != place.end())
      add_values(*item.source, found->second->tensor(), records[known->second]);
  });
  return records;
}

}  // namespace nibble::eval
