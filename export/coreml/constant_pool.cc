#include "export/coreml/constant_pool.h"

#include <cmath>

#include "core/error.h"
#include "core/files/hash.h"
#include "core/matrix/dtype.h"
#include "core/matrix/not_finite.h"

namespace nibble::coreml {

const Constant& ConstantPool::get(const std::string& key, const std::function<Constant()>& make) {
  auto found = constants_.find(key);
  if (found == constants_.end()) found = constants_.emplace(key, make()).first;
  return found->second;
}

const Constant& ConstantPool::halves(const std::vector<std::uint64_t>& shape, std::span<const float> values,
                                     const std::string& label) {
  std::vector<std::uint16_t> halves(values.size());
  convert_to_f16(values, halves.data());
  Rounding rounding;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float kept = f16_to_f32(halves[i]);
    NIBBLE_REQUIRE(std::isfinite(kept), NumericalError, "{}: {} at index {} {}", label, values[i], i,
                   why_not_finite(values[i], DType::kF16));
    rounding.add(values[i], kept);
  }
  Hasher hasher;
  hasher.update(label).update(std::as_bytes(std::span(shape))).update(std::as_bytes(std::span(halves)));
  return get("halves " + hasher.hex(), [&] {
    rounding_->add(rounding);
    Constant constant{"const", {}, {DataType::kFloat16, shape}};
    Value value{constant.type, {}};
    value.data = BlobReference{plan_.add(DataType::kFloat16, values.size(), label,
                                         [halves](const ByteSink& sink) { sink(std::as_bytes(std::span(halves))); })};
    constant.operands["val"] = std::move(value);
    return constant;
  });
}

}  // namespace nibble::coreml
