#include "export/coreml/weight_constant.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/matrix/dtype.h"
#include "core/matrix/not_finite.h"
#include "quant/format/codes.h"

namespace nibble::coreml {
namespace {

using quant::QuantizedTensor;
using quant::TensorSpec;
using Tensor = std::shared_ptr<const QuantizedTensor>;

constexpr std::size_t kChunkValues = std::size_t{1} << 18;

// Codes of the rows, each put through `map`, as one stream; rows that need no repacking as they lie.
template <class Map>
BlobPlan::Producer codes_producer(const Tensor& tensor, Rows rows, unsigned width, Map map) {
  return [=](const ByteSink& sink) {
    const std::size_t count = tensor->spec().codes_per_row();
    BitPacker packer(width, sink);
    std::vector<std::uint8_t> codes(count);
    for (std::size_t r = rows.begin; r < rows.end; ++r) {
      quant::unpack_codes(tensor->code_row(r), tensor->spec().bits, codes);
      for (std::uint8_t& code : codes) code = map(code);
      packer.append(codes);
    }
    packer.finish();
  };
}

// Whole bytes, all changed alike: `flip` toggles the highest bit of every code, which makes it two's complement.
BlobPlan::Producer bytes_producer(const Tensor& tensor, Rows rows, std::uint8_t flip) {
  return [=](const ByteSink& sink) {
    std::vector<std::byte> bytes;
    for (std::size_t r = rows.begin; r < rows.end; ++r) {
      const auto row = tensor->code_row(r);
      bytes.assign(row.begin(), row.end());
      for (std::byte& b : bytes) b ^= std::byte{flip};
      sink(bytes);
    }
  };
}

Value blob(BlobPlan& plan, DataType type, std::vector<std::uint64_t> shape, const std::string& label,
           BlobPlan::Producer producer) {
  Value value{{type, std::move(shape)}, {}};
  value.data = BlobReference{plan.add(type, value.type.elements(), label, std::move(producer))};
  return value;
}

// Rows of one table: as many as share a palette, and divide the rows and begin where a table begins.
std::size_t rows_per_table(const QuantizedTensor& tensor, Rows rows) {
  if (tensor.find("scale") != nullptr) return 1;
  const std::size_t group = tensor.spec().group_size;
  return group == 0 ? rows.count() : std::gcd(std::gcd(group, rows.count()), rows.begin);
}

BlobPlan::Producer tables_producer(const Tensor& tensor, Rows rows, std::size_t rows_each,
                                   const std::shared_ptr<Rounding>& rounding) {
  return [=](const ByteSink& sink) {
    const TensorSpec& spec = tensor->spec();
    const quant::TensorPart* scales = tensor->find("scale");
    std::vector<float> palette, table(spec.entries() * spec.cluster_dim);
    std::vector<std::uint16_t> halves(table.size());
    std::size_t loaded = static_cast<std::size_t>(-1);
    for (std::size_t r = rows.begin; r < rows.end; r += rows_each) {
      const std::size_t group = spec.group_size == 0 ? 0 : r / spec.group_size;
      if (group != loaded) tensor->load_palette(group, palette), loaded = group;
      float scale = 1.0f;
      if (scales != nullptr) convert_to_f32(DType::kF16, scales->bytes.data() + 2 * r, 1, &scale);
      for (std::size_t i = 0; i < table.size(); ++i) table[i] = scales != nullptr ? scale * palette[i] : palette[i];
      convert_to_f16(table, halves.data());
      for (std::size_t i = 0; i < table.size(); ++i) {
        const float kept = f16_to_f32(halves[i]);
        NIBBLE_REQUIRE(std::isfinite(kept), NumericalError, "{}: palette entry {} of row {} {}", tensor->name(),
                       table[i], r, why_not_finite(table[i], DType::kF16));
        rounding->add(table[i], kept);
      }
      sink(std::as_bytes(std::span(halves)));
    }
  };
}

Constant plan_palette(BlobPlan& plan, const Tensor& tensor, Rows rows, const std::shared_ptr<Rounding>& rounding) {
  const TensorSpec& spec = tensor->spec();
  const std::size_t each = rows_per_table(*tensor, rows), codes = spec.codes_per_row();
  const bool as_they_lie = codes * spec.bits % 8 == 0;
  Constant constant{"constexpr_lut_to_dense", {}, {DataType::kFloat16, {rows.count(), spec.cols}}};
  constant.operands["indices"] =
      blob(plan, unsigned_type(spec.bits), {rows.count(), codes}, tensor->name() + ".codes",
           as_they_lie ? bytes_producer(tensor, rows, 0)
                       : codes_producer(tensor, rows, spec.bits, [](std::uint8_t code) { return code; }));
  constant.operands["lut"] = blob(plan, DataType::kFloat16, {rows.count() / each, 1, spec.entries(), spec.cluster_dim},
                                  tensor->name() + ".palette", tables_producer(tensor, rows, each, rounding));
  if (spec.cluster_dim > 1)
    constant.operands["vector_axis"] = Value{scalar_type(DataType::kInt32), std::vector<std::int32_t>{1}};
  return constant;
}

// Values of a part with one element per block, of the rows asked for, as they lie.
BlobPlan::Producer part_producer(const Tensor& tensor, const char* suffix, Rows rows) {
  return [=](const ByteSink& sink) {
    const quant::TensorPart* part = tensor->find(suffix);
    const std::size_t row_bytes = tensor->spec().blocks() * dtype_size(part->dtype);
    sink(part->bytes.subspan(rows.begin * row_bytes, rows.count() * row_bytes));
  };
}

Constant plan_blocks(BlobPlan& plan, const Tensor& tensor, Rows rows) {
  const TensorSpec& spec = tensor->spec();
  const std::string name = tensor->name();
  const unsigned width = spec.bits <= 4 ? 4 : 8;
  const bool zeros = tensor->find("block_zero") != nullptr;
  const bool as_they_lie = width == spec.bits && spec.cols * width % 8 == 0;
  const std::vector<std::uint64_t> blocks{rows.count(), spec.blocks()};
  Constant constant{"constexpr_blockwise_shift_scale", {}, {DataType::kFloat16, {rows.count(), spec.cols}}};
  auto& operands = constant.operands;
  if (zeros) {
    const DataType type = unsigned_type(width);
    operands["data"] = blob(plan, type, {rows.count(), spec.cols}, name + ".codes",
                            as_they_lie ? bytes_producer(tensor, rows, 0)
                                        : codes_producer(tensor, rows, width, [](std::uint8_t code) { return code; }));
    operands["offset"] = blob(plan, type, blocks, name + ".block_zero", [=](const ByteSink& sink) {
      BitPacker packer(width, sink);
      part_producer(tensor, "block_zero", rows)([&](std::span<const std::byte> bytes) {
        packer.append({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
      });
      packer.finish();
    });
  } else {
    // Two's complement of code - 2^(bits - 1): of whole nibbles or bytes the highest bit flips.
    const auto half = static_cast<std::uint8_t>(1u << (spec.bits - 1)),
               mask = static_cast<std::uint8_t>((1u << width) - 1u);
    operands["data"] =
        blob(plan, width == 4 ? DataType::kInt4 : DataType::kInt8, {rows.count(), spec.cols}, name + ".codes",
             as_they_lie ? bytes_producer(tensor, rows, width == 4 ? 0x88 : 0x80)
                         : codes_producer(tensor, rows, width, [=](std::uint8_t code) {
                             return static_cast<std::uint8_t>(static_cast<unsigned>(code - half) & mask);
                           }));
  }
  operands["scale"] =
      blob(plan, DataType::kFloat16, blocks, name + ".block_scale", part_producer(tensor, "block_scale", rows));
  return constant;
}

}  // namespace

std::string why_not_held(const TensorSpec& spec, bool outliers) {
  if (outliers) return "weights that are kept apart (outliers) have no place in a compressed constant";
  if (spec.coding == quant::Coding::kBlocks && spec.group_size != 0 && spec.group_size < spec.cols &&
      spec.cols % spec.group_size != 0)
    return fmt::format("blocks of {} do not divide rows of {} inputs", spec.group_size, spec.cols);
  if (spec.coding == quant::Coding::kBlockPalette) return "palettes that blocks of inputs scale have no operation";
  if (spec.windowed()) return "codes that overlap (windows) have no operation";
  if (spec.coding == quant::Coding::kPalette && (spec.bits == 5 || spec.bits == 7))
    return fmt::format("there are no indices of {} bits", spec.bits);
  return {};
}

Constant plan_coded_weight(BlobPlan& plan, std::shared_ptr<const QuantizedTensor> tensor, Rows rows,
                           const std::shared_ptr<Rounding>& rounding) {
  const std::string reason = why_not_held(tensor->spec(), tensor->find("outlier_rows") != nullptr);
  NIBBLE_REQUIRE(reason.empty(), InvalidArgument, "{}: {}", tensor->name(), reason);
  return tensor->spec().coding == quant::Coding::kPalette ? plan_palette(plan, tensor, rows, rounding)
                                                          : plan_blocks(plan, tensor, rows);
}

Constant plan_float_weight(BlobPlan& plan, std::shared_ptr<const WeightSource> source, Rows rows,
                           const std::string& label, const std::shared_ptr<Rounding>& rounding) {
  const std::size_t cols = source->cols();
  Constant constant{"const", {}, {DataType::kFloat16, {rows.count(), cols}}};
  constant.operands["val"] = blob(plan, DataType::kFloat16, constant.type.shape, label, [=](const ByteSink& sink) {
    const std::size_t step = std::max<std::size_t>(1, kChunkValues / std::max<std::size_t>(cols, 1));
    std::vector<float> values;
    std::vector<std::uint16_t> halves;
    for (std::size_t begin = rows.begin; begin < rows.end; begin += step) {
      const std::size_t end = std::min(begin + step, rows.end);
      values.resize((end - begin) * cols);
      halves.resize(values.size());
      source->decode_rows(begin, end, values.data());
      convert_to_f16(values, halves.data());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float kept = f16_to_f32(halves[i]);
        NIBBLE_REQUIRE(std::isfinite(kept), NumericalError, "{}: {} {}", label, values[i],
                       why_not_finite(values[i], DType::kF16));
        rounding->add(values[i], kept);
      }
      sink(std::as_bytes(std::span(halves)));
    }
    source->release();
  });
  return constant;
}

}  // namespace nibble::coreml
