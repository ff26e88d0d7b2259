#include "quant/format/quantized_tensor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/checked_math.h"
#include "core/error.h"
#include "quant/format/byte_table.h"
#include "quant/format/codes.h"

namespace nibble::quant {
namespace {

constexpr std::array<DType, 1> kOnlyU8{DType::kU8}, kOnlyF16{DType::kF16}, kOnlyI32{DType::kI32}, kOnlyF32{DType::kF32};
constexpr std::array<DType, 2> kF16OrF32{DType::kF16, DType::kF32};
constexpr std::array<DType, 3> kPaletteDtypes{DType::kF16, DType::kF32, DType::kI8};

std::span<const std::string_view> known_suffixes(Coding coding) {
  static constexpr std::array<std::string_view, 7> palette{"codes",        "palette",         "palette_scale", "scale",
                                                           "outlier_rows", "outlier_columns", "outlier_values"};
  static constexpr std::array<std::string_view, 3> blocks{"codes", "block_scale", "block_zero"};
  static constexpr std::array<std::string_view, 4> block_palette{"codes", "palette", "block_scale", "tensor_scale"};
  if (coding == Coding::kPalette) return palette;
  if (coding == Coding::kBlockPalette) return block_palette;
  return blocks;
}

// Codes of one palette in a call of decode_rows() from which on a ByteTable pays.
constexpr std::size_t kByteTableCodes = 2048;

// Calls visit(index, value) for every element of a float part, converted in pieces.
template <class Visit>
void for_each_float(const TensorPart& part, const Visit& visit) {
  constexpr std::size_t kPiece = 4096;
  std::array<float, kPiece> piece;
  const std::size_t size = dtype_size(part.dtype), count = part.bytes.size() / size;
  for (std::size_t begin = 0; begin < count; begin += kPiece) {
    const std::size_t length = std::min(kPiece, count - begin);
    convert_to_f32(part.dtype, part.bytes.data() + begin * size, length, piece.data());
    for (std::size_t i = 0; i < length; ++i) visit(begin + i, piece[i]);
  }
}

// The largest magnitude in a float part. Throws FormatError at the first NaN or infinity.
float checked_maximum(const std::string& name, const TensorPart& part) {
  float largest = 0.0f;
  for_each_float(part, [&](std::size_t i, float value) {
    NIBBLE_REQUIRE(std::isfinite(value), FormatError, "{}.{}: expected finite values, got {} at index {}", name,
                   part.suffix, value, i);
    largest = std::max(largest, std::abs(value));
  });
  return largest;
}

std::vector<std::int32_t> read_i32(const TensorPart& part) {
  std::vector<std::int32_t> values(part.bytes.size() / sizeof(std::int32_t));
  if (!values.empty()) std::memcpy(values.data(), part.bytes.data(), part.bytes.size());
  return values;
}

float float_at(const TensorPart& part, std::size_t index) {
  float value = 0.0f;
  convert_to_f32(part.dtype, part.bytes.data() + index * dtype_size(part.dtype), 1, &value);
  return value;
}

std::size_t group_count(std::size_t extent, std::size_t group_size) {
  return group_size == 0 ? 1 : static_cast<std::size_t>(divide_up(extent, group_size));
}

}  // namespace

std::size_t TensorSpec::row_bytes() const { return packed_row_bytes(codes_per_row(), bits); }
std::size_t TensorSpec::palettes() const { return coding == Coding::kPalette ? group_count(rows, group_size) : 1; }
std::size_t TensorSpec::blocks() const { return group_count(cols, group_size); }

QuantizedTensor::QuantizedTensor(std::string name, TensorSpec spec, std::vector<TensorPart> parts)
    : name_(std::move(name)), spec_(spec), parts_(std::move(parts)) {
  NIBBLE_REQUIRE(spec_.rows > 0 && spec_.cols > 0, FormatError, "{}: expected a non-empty matrix, got ({}, {})", name_,
                 spec_.rows, spec_.cols);
  NIBBLE_REQUIRE(spec_.bits >= 1 && spec_.bits <= kMaxBits, FormatError, "{}: expected 1 to {} bits, got {}", name_,
                 kMaxBits, spec_.bits);
  const std::size_t dim = spec_.cluster_dim;
  NIBBLE_REQUIRE(dim == 1 || (spec_.coding == Coding::kPalette && (dim == 2 || dim == 4)), FormatError,
                 "{}: expected cluster_dim 1, or 2 or 4 with a palette, got {}", name_, dim);
  NIBBLE_REQUIRE(spec_.cols % dim == 0, FormatError, "{}: {} inputs cannot be cut into vectors of {}", name_,
                 spec_.cols, dim);
  if (spec_.windowed()) {
    NIBBLE_REQUIRE(spec_.coding == Coding::kPalette && dim == 1 && spec_.group_size == 0, FormatError,
                   "{}: windowed codes need one palette of scalars for the whole tensor", name_);
    spec_.windows().check(name_);
  }
  for (const TensorPart& part : parts_) {
    const auto known = known_suffixes(spec_.coding);
    NIBBLE_REQUIRE(std::find(known.begin(), known.end(), part.suffix) != known.end(), FormatError,
                   "{}.{}: unknown part of a {} tensor; expected {}", name_, part.suffix,
                   spec_.coding == Coding::kPalette  ? "palette"
                   : spec_.coding == Coding::kBlocks ? "block"
                                                     : "block palette",
                   fmt::join(known, ", "));
    NIBBLE_REQUIRE(find(part.suffix) == &part, FormatError, "{}.{}: given twice", name_, part.suffix);
  }
  codes_ = &require("codes", kOnlyU8,
                    spec_.windowed() ? std::vector<std::uint64_t>{spec_.cols, spec_.windows().column_bytes()}
                                     : std::vector<std::uint64_t>{spec_.rows, spec_.row_bytes()});
  if (spec_.coding == Coding::kPalette) {
    palette_scale_ = find("palette_scale");
    scale_ = find("scale");
    palette_ = &require("palette", kPaletteDtypes,
                        dim == 1 ? std::vector<std::uint64_t>{spec_.palettes(), spec_.entries()}
                                 : std::vector<std::uint64_t>{spec_.palettes(), spec_.entries(), dim});
    check_palette();
    read_outliers();
  } else if (spec_.coding == Coding::kBlockPalette) {
    check_block_palette();
  } else {
    block_scale_ = &require("block_scale", kOnlyF16, {spec_.rows, spec_.blocks()});
    block_zero_ = find("block_zero");
    check_blocks();
  }
}

const TensorPart* QuantizedTensor::find(std::string_view suffix) const {
  const auto part = std::find_if(parts_.begin(), parts_.end(), [&](const auto& p) { return p.suffix == suffix; });
  return part == parts_.end() ? nullptr : &*part;
}

const TensorPart& QuantizedTensor::require(std::string_view suffix, std::span<const DType> dtypes,
                                           std::vector<std::uint64_t> shape) const {
  const TensorPart* part = find(suffix);
  NIBBLE_REQUIRE(part != nullptr, FormatError, "{}.{}: missing", name_, suffix);
  if (std::find(dtypes.begin(), dtypes.end(), part->dtype) == dtypes.end()) {
    std::vector<std::string_view> names;
    for (const DType dtype : dtypes) names.push_back(dtype_name(dtype));
    throw FormatError(
        fmt::format("{}.{}: expected {}, got {}", name_, suffix, fmt::join(names, " or "), dtype_name(part->dtype)));
  }
  NIBBLE_REQUIRE(part->shape == shape, FormatError,
                 "{}.{}: expected shape ({}) for a ({}, {}) weight of {} bits, got ({})", name_, suffix,
                 fmt::join(shape, ", "), spec_.rows, spec_.cols, spec_.bits, fmt::join(part->shape, ", "));
  const std::uint64_t bytes = checked_multiply(checked_element_count(shape, name_), dtype_size(part->dtype), name_);
  NIBBLE_REQUIRE(part->bytes.size() == bytes, FormatError, "{}.{}: expected {} bytes, got {}", name_, suffix, bytes,
                 part->bytes.size());
  return *part;
}

void QuantizedTensor::check_palette() const {
  const bool integers = palette_->dtype == DType::kI8;
  NIBBLE_REQUIRE(integers == (palette_scale_ != nullptr), FormatError,
                 "{}: an I8 palette and palette_scale go together", name_);
  if (integers) {
    require("palette_scale", kF16OrF32, {spec_.palettes()});
    checked_maximum(name_, *palette_scale_);
    for_each_float(*palette_scale_, [&](std::size_t i, float value) {
      NIBBLE_REQUIRE(value >= 0.0f, FormatError, "{}.palette_scale: expected values >= 0, got {} at index {}", name_,
                     value, i);
    });
  } else {
    checked_maximum(name_, *palette_);
  }
  float largest_entry = 0.0f;
  std::vector<float> table;
  for (std::size_t group = 0; group < spec_.palettes(); ++group) {
    load_palette(group, table);
    NIBBLE_REQUIRE(spec_.cluster_dim > 1 || spec_.windowed() || std::is_sorted(table.begin(), table.end()), FormatError,
                   "{}.palette: expected ascending entries in palette {}", name_, group);
    for (const float entry : table) largest_entry = std::max(largest_entry, std::abs(entry));
  }
  float largest_scale = 1.0f;
  if (scale_ != nullptr) {
    NIBBLE_REQUIRE(spec_.cluster_dim == 1, FormatError, "{}.scale: not allowed with vector palettes", name_);
    require("scale", kOnlyF16, {spec_.rows});
    largest_scale = checked_maximum(name_, *scale_);
  }
  NIBBLE_REQUIRE(std::isfinite(largest_entry * largest_scale), FormatError,
                 "{}: palette entries times scales overflow float (up to {} times {})", name_, largest_entry,
                 largest_scale);
}

void QuantizedTensor::check_blocks() const {
  checked_maximum(name_, *block_scale_);
  if (block_zero_ == nullptr) return;
  const TensorPart& zeros = require("block_zero", kOnlyU8, {spec_.rows, spec_.blocks()});
  const std::span values(reinterpret_cast<const std::uint8_t*>(zeros.bytes.data()), zeros.bytes.size());
  const auto large = std::find_if(values.begin(), values.end(), [&](unsigned zero) { return zero >> spec_.bits != 0; });
  NIBBLE_REQUIRE(large == values.end(), FormatError, "{}.block_zero: expected a code, below {}, got {} at index {}",
                 name_, 1 << spec_.bits, static_cast<unsigned>(*large), large - values.begin());
}

void QuantizedTensor::check_block_palette() {
  const bool learned = spec_.block_palette == BlockPalette::kLearned, scaled = spec_.scale_type == ScaleType::kE4M3;
  NIBBLE_REQUIRE(spec_.bits >= 2 && spec_.bits <= 4, FormatError,
                 "{}: expected 2 to 4 bits with a block palette, got {}", name_, spec_.bits);
  NIBBLE_REQUIRE(learned || spec_.bits == 4, FormatError, "{}: the palette {} has codes of 4 bits, got {}", name_,
                 block_palette_name(spec_.block_palette), spec_.bits);
  palette_ = find("palette");
  NIBBLE_REQUIRE(learned == (palette_ != nullptr), FormatError,
                 "{}.palette: a learned palette is stored, a fixed one is not", name_);
  if (learned) checked_maximum(name_, require("palette", kOnlyF16, {1, spec_.entries()}));
  std::vector<float> table;
  load_palette(0, table);
  NIBBLE_REQUIRE(std::is_sorted(table.begin(), table.end()), FormatError, "{}.palette: expected ascending entries",
                 name_);
  const float largest_entry = std::max(std::abs(table.front()), std::abs(table.back()));

  const std::array<DType, 1> dtype{scale_dtype(spec_.scale_type)};
  block_scale_ = &require("block_scale", dtype, {spec_.rows, spec_.blocks()});
  const float largest_scale = checked_maximum(name_, *block_scale_);
  if (spec_.scale_type != ScaleType::kFloat16) {
    for_each_float(*block_scale_, [&](std::size_t i, float value) {
      NIBBLE_REQUIRE(!std::signbit(value), FormatError, "{}.block_scale: expected values >= 0, got {} at index {}",
                     name_, value, i);
    });
  }
  const TensorPart* tensor_scale = find("tensor_scale");
  NIBBLE_REQUIRE(scaled == (tensor_scale != nullptr), FormatError,
                 "{}.tensor_scale: goes with scales in E4M3, and only with those", name_);
  if (scaled) {
    tensor_scale_ = float_at(require("tensor_scale", kOnlyF32, {1}), 0);
    NIBBLE_REQUIRE(std::isfinite(tensor_scale_) && tensor_scale_ > 0.0f, FormatError,
                   "{}.tensor_scale: expected a finite value above 0, got {}", name_, tensor_scale_);
  }
  NIBBLE_REQUIRE(
      std::isfinite(largest_scale * tensor_scale_) && std::isfinite(largest_entry * (largest_scale * tensor_scale_)),
      FormatError, "{}: palette entries times scales overflow float (up to {} times {} times {})", name_, largest_entry,
      largest_scale, tensor_scale_);
}

void QuantizedTensor::read_outliers() {
  const TensorPart *rows = find("outlier_rows"), *columns = find("outlier_columns");
  outlier_values_ = find("outlier_values");
  if (rows == nullptr && columns == nullptr && outlier_values_ == nullptr) return;
  NIBBLE_REQUIRE(!spec_.windowed(), FormatError, "{}: outliers are not allowed with windowed codes", name_);
  outlier_rows_ = read_i32(require("outlier_rows", kOnlyI32, {spec_.rows + 1}));
  const auto bad_row = std::is_sorted_until(outlier_rows_.begin(), outlier_rows_.end());
  NIBBLE_REQUIRE(outlier_rows_.front() == 0 && bad_row == outlier_rows_.end(), FormatError,
                 "{}.outlier_rows: expected a first value of 0 and ascending values; index {} is {}", name_,
                 outlier_rows_.front() == 0 ? bad_row - outlier_rows_.begin() : 0,
                 outlier_rows_.front() == 0 ? *bad_row : outlier_rows_.front());
  const auto count = static_cast<std::uint64_t>(outlier_rows_.back());
  outlier_columns_ = read_i32(require("outlier_columns", kOnlyI32, {count}));
  checked_maximum(name_, require("outlier_values", kOnlyF16, {count}));
  for (std::size_t row = 0; row < spec_.rows; ++row) {
    std::int64_t previous = -1;
    for (auto i = static_cast<std::size_t>(outlier_rows_[row]); i < static_cast<std::size_t>(outlier_rows_[row + 1]);
         ++i) {
      const std::int64_t column = outlier_columns_[i];
      NIBBLE_REQUIRE(column > previous && static_cast<std::uint64_t>(column) < spec_.cols, FormatError,
                     "{}.outlier_columns: expected ascending columns below {} within row {}, got {} at index {}", name_,
                     spec_.cols, row, column, i);
      previous = column;
    }
  }
}

std::uint64_t QuantizedTensor::stored_bits() const {
  std::uint64_t bytes = 0;
  for (const TensorPart& part : parts_) bytes += part.bytes.size();
  return bytes * 8;
}

std::span<const std::byte> QuantizedTensor::code_row(std::size_t row) const {
  NIBBLE_REQUIRE(!spec_.windowed(), InvalidArgument,
                 "{}: the codes of a windowed palette run down the outputs: they have no rows", name_);
  return codes_->bytes.subspan(row * spec_.row_bytes(), spec_.row_bytes());
}

void QuantizedTensor::read_codes(std::size_t first_row, MatrixView<std::uint16_t> codes) const {
  NIBBLE_REQUIRE(
      codes.cols() == spec_.codes_per_row() && first_row <= spec_.rows && codes.rows() <= spec_.rows - first_row,
      InvalidArgument, "{}: ({}, {}) codes from row {} on of ({}, {})", name_, codes.rows(), codes.cols(), first_row,
      spec_.rows, spec_.codes_per_row());
  if (spec_.windowed()) return unpack_window_block(spec_.windows(), codes_->bytes, first_row, 0, codes);
  std::vector<std::uint8_t> row_codes(codes.cols());
  for (std::size_t row = 0; row < codes.rows(); ++row) {
    unpack_codes(code_row(first_row + row), spec_.bits, row_codes);
    std::copy(row_codes.begin(), row_codes.end(), codes.row(row).begin());
  }
}

void QuantizedTensor::load_palette(std::size_t group, std::vector<float>& table) const {
  if (const auto fixed = fixed_palette(spec_.block_palette); spec_.coding == Coding::kBlockPalette && !fixed.empty()) {
    table.assign(fixed.begin(), fixed.end());
    return;
  }
  const std::size_t count = spec_.entries() * spec_.cluster_dim;
  table.resize(count);
  const std::byte* source = palette_->bytes.data() + group * count * dtype_size(palette_->dtype);
  if (palette_->dtype != DType::kI8) return convert_to_f32(palette_->dtype, source, count, table.data());
  const float unit = float_at(*palette_scale_, group);
  for (std::size_t k = 0; k < count; ++k) table[k] = unit * static_cast<float>(static_cast<std::int8_t>(source[k]));
}

void QuantizedTensor::decode_rows(std::size_t begin, std::size_t end, float* destination) const {
  NIBBLE_REQUIRE(begin <= end && end <= spec_.rows, InvalidArgument, "{}: rows [{}, {}) of a matrix of {} rows", name_,
                 begin, end, spec_.rows);
  if (spec_.windowed()) return decode_window_rows(begin, end, destination);
  if (spec_.coding == Coding::kPalette) return decode_palette_rows(begin, end, destination);
  if (spec_.coding == Coding::kBlockPalette) return decode_block_palette_rows(begin, end, destination);
  decode_block_rows(begin, end, destination);
}

void QuantizedTensor::decode_palette_rows(std::size_t begin, std::size_t end, float* destination) const {
  thread_local std::vector<float> table;
  thread_local std::vector<std::uint8_t> codes;
  thread_local ByteTable byte_table;
  const std::size_t group_rows = spec_.group_size == 0 ? spec_.rows : spec_.group_size, dim = spec_.cluster_dim;
  bool by_bytes = false;
  for (std::size_t row = begin; row < end; ++row) {
    if (row == begin || row % group_rows == 0) {
      load_palette(row / group_rows, table);
      const std::size_t alike = std::min(end - row, group_rows - row % group_rows);
      by_bytes = dim == 1 && ByteTable::has_width(spec_.bits) && alike * spec_.cols >= kByteTableCodes;
      if (by_bytes) byte_table.build(table, spec_.bits);
    }
    float* out = destination + (row - begin) * spec_.cols;
    if (by_bytes) {
      byte_table.decode(code_row(row), {out, spec_.cols});
    } else {
      codes.resize(spec_.codes_per_row());
      unpack_codes(code_row(row), spec_.bits, codes);
      if (dim == 1) {
        for (std::size_t j = 0; j < codes.size(); ++j) out[j] = table[codes[j]];
      } else {
        for (std::size_t j = 0; j < codes.size(); ++j) std::copy_n(table.data() + codes[j] * dim, dim, out + j * dim);
      }
    }
    if (scale_ != nullptr) {
      const float scale = float_at(*scale_, row);
      for (std::size_t j = 0; j < spec_.cols; ++j) out[j] *= scale;
    }
    if (outlier_values_ == nullptr) continue;
    for (auto i = static_cast<std::size_t>(outlier_rows_[row]); i < static_cast<std::size_t>(outlier_rows_[row + 1]);
         ++i)
      out[outlier_columns_[i]] += float_at(*outlier_values_, i);
  }
}

void QuantizedTensor::decode_window_rows(std::size_t begin, std::size_t end, float* destination) const {
  thread_local std::vector<float> table;
  thread_local std::vector<std::uint16_t> codes;
  constexpr std::size_t kRows = 64;  // of codes at a time
  load_palette(0, table);
  codes.resize(std::min(kRows, end - begin) * spec_.cols);
  for (std::size_t first = begin; first < end; first += kRows) {
    const std::size_t rows = std::min(kRows, end - first);
    unpack_window_block(spec_.windows(), codes_->bytes, first, 0, {codes.data(), rows, spec_.cols});
    for (std::size_t r = 0; r < rows; ++r) {
      const std::uint16_t* row = codes.data() + r * spec_.cols;
      float* out = destination + (first + r - begin) * spec_.cols;
      const float scale = scale_ != nullptr ? float_at(*scale_, first + r) : 1.0f;
      for (std::size_t j = 0; j < spec_.cols; ++j) out[j] = table[row[j]] * scale;
    }
  }
}

void QuantizedTensor::decode_block_rows(std::size_t begin, std::size_t end, float* destination) const {
  thread_local std::vector<float> scales;
  thread_local std::vector<std::uint8_t> codes;
  codes.resize(spec_.cols);
  const std::size_t blocks = spec_.blocks(), width = spec_.group_size == 0 ? spec_.cols : spec_.group_size;
  scales.resize(blocks);
  for (std::size_t row = begin; row < end; ++row) {
    float* out = destination + (row - begin) * spec_.cols;
    unpack_codes(code_row(row), spec_.bits, codes);
    convert_to_f32(DType::kF16, block_scale_->bytes.data() + row * blocks * 2, blocks, scales.data());
    for (std::size_t block = 0; block < blocks; ++block) {
      const int zero =
          block_zero_ != nullptr ? static_cast<int>(block_zero_->bytes[row * blocks + block]) : 1 << (spec_.bits - 1);
      const std::size_t stop = std::min(spec_.cols, (block + 1) * width);
      for (std::size_t j = block * width; j < stop; ++j) out[j] = static_cast<float>(codes[j] - zero) * scales[block];
    }
  }
}

void QuantizedTensor::decode_block_palette_rows(std::size_t begin, std::size_t end, float* destination) const {
  thread_local std::vector<float> block_scales, entries;
  thread_local std::vector<std::uint8_t> indices;
  load_palette(0, entries);
  indices.resize(spec_.cols);
  const std::size_t blocks = spec_.blocks(), width = spec_.group_size == 0 ? spec_.cols : spec_.group_size;
  const std::size_t bytes = dtype_size(block_scale_->dtype);
  block_scales.resize(blocks);
  for (std::size_t row = begin; row < end; ++row) {
    float* out = destination + (row - begin) * spec_.cols;
    unpack_codes(code_row(row), spec_.bits, indices);
    convert_to_f32(block_scale_->dtype, block_scale_->bytes.data() + row * blocks * bytes, blocks, block_scales.data());
    for (std::size_t block = 0; block < blocks; ++block) {
      const float scale = block_scales[block] * tensor_scale_;
      const std::size_t stop = std::min(spec_.cols, (block + 1) * width);
      for (std::size_t j = block * width; j < stop; ++j) out[j] = entries[indices[j]] * scale;
    }
  }
}

}  // namespace nibble::quant
