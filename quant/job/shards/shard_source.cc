#include "quant/job/shards/shard_source.h"

#include <utility>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "quant/store/quantization_config.h"

namespace nibble::quant {
namespace {

// A weight (rows, cols) that stayed float16.
class HalfSource final : public WeightSource {
 public:
  HalfSource(TensorPart part, std::size_t rows, std::size_t cols) : part_(std::move(part)), rows_(rows), cols_(cols) {}
  std::size_t rows() const override { return rows_; }
  std::size_t cols() const override { return cols_; }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    const std::size_t row_bytes = cols_ * dtype_size(part_.dtype);
    convert_to_f32(part_.dtype, part_.bytes.data() + begin * row_bytes, (end - begin) * cols_, destination);
  }

 private:
  TensorPart part_;
  std::size_t rows_, cols_;
};

}  // namespace

std::shared_ptr<const WeightSource> shard_source(const QuantizeItem& item, const Shard& shard) {
  const std::size_t rows = item.source->rows(), cols = item.source->cols();
  std::vector<TensorPart> parts = shard_parts(shard);
  if (!item.settings.coded()) {
    NIBBLE_REQUIRE(parts.size() == 1 && parts[0].shape == std::vector<std::uint64_t>({rows, cols}), FormatError,
                   "'{}': expected one weight ({}, {})", shard.file.string(), rows, cols);
    return std::make_shared<HalfSource>(std::move(parts[0]), rows, cols);
  }
  auto decoded = std::make_shared<const QuantizedTensor>(
      item.identity.name, stored_tensor(item.settings, rows, cols).spec, std::move(parts));
  return item.input_scales ? unscale_columns(std::move(decoded), item.input_scales) : decoded;
}

}  // namespace nibble::quant
