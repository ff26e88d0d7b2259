#include "quant/kernels/packing/packed_weight.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "quant/format/codes.h"

namespace nibble::quant {
namespace {

// ORs one plane of `kCount` codes into a row of a unit: bits [drop, drop + width) of each code, at `shift`.
template <std::size_t kCount>
void place_plane(const std::uint8_t* codes, unsigned drop, unsigned width, unsigned shift, std::uint8_t* destination) {
  const std::uint32_t mask = ((1u << width) - 1) * 0x01010101u;
  for (std::size_t i = 0; i < kCount; i += 4) {
    std::uint32_t four = 0, kept = 0;
    std::memcpy(&four, codes + i, 4);
    std::memcpy(&kept, destination + i, 4);
    kept |= (four >> drop & mask) << shift;
    std::memcpy(destination + i, &kept, 4);
  }
}

// Adds one plane of row `row` of a panel. All units have a field at the same place, which is asked for once: the
// divisions of asking for every four codes took nine tenths of the time.
template <std::size_t kStep>
void place_plane_of_row(const CodeLayout& layout, std::size_t units, std::size_t row, unsigned plane,
                        const std::uint8_t* codes, std::uint8_t* panel) {
  const unsigned drop = plane == 0 ? 0 : layout.low_bits(), width = plane == 0 ? layout.low_bits() : layout.high_bits();
  const std::size_t fields = layout.fields(), unit_bytes = layout.unit_bytes();
  for (std::size_t field = 0; field < fields; ++field) {
    const CodeLayout::Place place = layout.place(plane, row, field * kStep);
    for (std::size_t unit = 0; unit < units; ++unit)
      place_plane<kStep>(codes + (unit * fields + field) * kStep, drop, width, place.shift,
                         panel + unit * unit_bytes + place.byte);
  }
}

// Adds row `row` of a panel: `codes` holds padded_inputs() codes.
void place_row(const CodeLayout& layout, std::size_t cols, std::size_t row, const std::uint8_t* codes,
               std::uint8_t* panel) {
  const auto place = layout.row_bytes() == kVectorBytes ? place_plane_of_row<kVectorBytes>
                                                        : place_plane_of_row<kVectorBytes / kPanelRows>;
  for (unsigned plane = 0; plane < (layout.high_bits() == 0 ? 1u : 2u); ++plane)
    place(layout, layout.units(cols), row, plane, codes, panel);
}

void pack_codes_into(PackedWeight& packed, const QuantizedTensor& tensor) {
  const CodeLayout& layout = packed.layout;
  const std::size_t panel_bytes = layout.panel_bytes(packed.cols), padded = layout.padded_inputs(packed.cols);
  packed.codes = HugeBuffer(layout.panels(packed.rows) * panel_bytes);
  const std::size_t panels_per_tile = std::max<std::size_t>(1, kPanelRows / layout.panel_rows);
  parallel_for_tiles(layout.panels(packed.rows), panels_per_tile, [&](std::size_t begin, std::size_t end) {
    std::vector<std::uint8_t> codes(padded);
    for (std::size_t panel = begin; panel < end; ++panel) {
      std::uint8_t* destination = packed.codes.data() + panel * panel_bytes;
      std::memset(destination, 0, panel_bytes);
      const std::size_t first = panel * layout.panel_rows, last = std::min(packed.rows, first + layout.panel_rows);
      for (std::size_t row = first; row < last; ++row) {
        unpack_codes(tensor.code_row(row), tensor.spec().bits, {codes.data(), packed.cols});
        place_row(layout, packed.cols, row - first, codes.data(), destination);
      }
    }
  });
}

template <class T>
T value_at(const TensorPart& part, std::size_t index) {
  T value;
  std::memcpy(&value, part.bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

// (rows, blocks of the file) to (panels, blocks of the kernels, 16): value(row, block of the file).
template <class T, class Value>
HugeBuffer pack_values(const PackedWeight& packed, const TensorSpec& spec, const Value& stored_value) {
  const std::size_t length = inputs_per_block(packed.kind);
  const std::size_t panels = packed.layout.panels(packed.rows), blocks = packed.blocks();
  const std::size_t width = spec.group_size == 0 ? spec.cols : spec.group_size;
  HugeBuffer buffer(panels * blocks * kPanelRows * sizeof(T));
  parallel_for(panels, [&](std::size_t panel) {
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t stored = std::min(block * length / width, spec.blocks() - 1);
      for (std::size_t r = 0; r < kPanelRows; ++r) {
        const std::size_t row = panel * kPanelRows + r;
        const T value = row < spec.rows ? stored_value(row, stored) : T{0};
        std::memcpy(buffer.data() + ((panel * blocks + block) * kPanelRows + r) * sizeof(T), &value, sizeof(T));
      }
    }
  });
  return buffer;
}

template <class T>
HugeBuffer pack_per_block(const PackedWeight& packed, const TensorSpec& spec, const TensorPart& part) {
  return pack_values<T>(
      packed, spec, [&](std::size_t row, std::size_t block) { return value_at<T>(part, row * spec.blocks() + block); });
}

std::vector<float> to_floats(const TensorPart& part) {
  std::vector<float> values(part.bytes.size() / dtype_size(part.dtype));
  convert_to_f32(part.dtype, part.bytes.data(), values.size(), values.data());
  return values;
}

// code - middle for every code: what integers on a grid mean.
std::vector<float> integer_table(unsigned bits, unsigned middle) {
  std::vector<float> table(std::size_t{1} << bits);
  for (std::size_t code = 0; code < table.size(); ++code)
    table[code] = static_cast<float>(code) - static_cast<float>(middle);
  return table;
}

// Block palettes in int8 mode: integers from -127 to 127, held above kMiddleByte.
constexpr unsigned kMiddleByte = 128;

void add_signed_bytes(PackedWeight& packed) {
  float largest = 0.0f;
  for (const float entry : packed.tables) largest = std::max(largest, std::abs(entry));
  // What is integers, or halves of such (E2M1), stays what it is.
  const auto whole = [&](float unit) {
    return largest <= 127.0f * unit && std::all_of(packed.tables.begin(), packed.tables.end(), [&](float entry) {
             return std::nearbyint(entry / unit) * unit == entry;
           });
  };
  const float step = whole(1.0f) ? 1.0f : whole(0.5f) ? 0.5f : largest > 0.0f ? largest / 127.0f : 1.0f;
  for (std::size_t i = 0; i < packed.byte_entries(); ++i) {
    const float integer = std::nearbyint(packed.tables[i % packed.entries()] / step);
    packed.byte_tables.push_back(static_cast<std::uint8_t>(static_cast<int>(integer) + int{kMiddleByte}));
  }
  for (std::size_t row = 0; row < packed.rows; ++row)
    packed.byte_step.push_back(step * (packed.row_scale.empty() ? 1.0f : packed.row_scale[row]));
}

// The tables of int8 mode.
void add_byte_tables(PackedWeight& packed) {
  const std::size_t entries = packed.entries();
  if (packed.layout.bits == 8 || packed.kind == PackedKind::kBlocks) return;
  if (packed.block_palette()) return add_signed_bytes(packed);
  std::vector<float> steps, all_lowest;
  for (std::size_t first = 0; first < packed.tables.size(); first += entries) {
    const float* table = packed.tables.data() + first;
    // Ascending. A grid's integers are bytes as they are; seven steps, of 3 bits, would not divide 255.
    const bool integers = packed.middle != 0;
    const float lowest = table[0], range = table[entries - 1] - lowest, step = integers ? 1.0f : range / 255.0f;
    if (range > kWidestRangeInBytes) return packed.byte_tables.clear();
    for (std::size_t i = 0; i < packed.byte_entries(); ++i) {
      const float place = step > 0.0f ? std::min(255.0f, (table[i % entries] - lowest) / step + 0.5f) : 0.0f;
      packed.byte_tables.push_back(static_cast<std::uint8_t>(place));
    }
    steps.push_back(step);
    all_lowest.push_back(lowest);
  }
  for (std::size_t row = 0; row < packed.rows; ++row) {
    const std::size_t table = packed.rows_per_table == 0 ? 0 : row / packed.rows_per_table;
    const float scale = packed.row_scale.empty() ? 1.0f : packed.row_scale[row];
    packed.byte_step.push_back(scale * steps[table]);
    packed.byte_lowest.push_back(scale * all_lowest[table]);
  }
}

void pack_palettes(PackedWeight& packed, const QuantizedTensor& tensor) {
  const TensorSpec& spec = tensor.spec();
  std::vector<float> table;
  for (std::size_t group = 0; group < spec.palettes(); ++group) {
    tensor.load_palette(group, table);
    table.resize(packed.entries(), table.back());  // codes kept wider than they are stored never name the others
    packed.tables.insert(packed.tables.end(), table.begin(), table.end());
  }
  packed.rows_per_table = spec.palettes() == 1 ? 0 : spec.group_size;
  if (const TensorPart* scale = tensor.find("scale")) packed.row_scale = to_floats(*scale);
  if (const TensorPart* values = tensor.find("outlier_values")) {
    packed.outlier_rows = tensor.outlier_rows();
    packed.outlier_columns = tensor.outlier_columns();
    packed.outlier_values = to_floats(*values);
  }
}

PackedWeight pack_windowed_palette(const QuantizedTensor& tensor) {
  std::vector<float> palette, row_scale;
  tensor.load_palette(0, palette);
  if (const TensorPart* scale = tensor.find("scale")) row_scale = to_floats(*scale);
  const TensorPart* integers = tensor.find("palette_scale");
  return pack_windows(tensor.spec().windows(), tensor.find("codes")->bytes, palette, std::move(row_scale),
                      integers == nullptr ? 0.0f : to_floats(*integers).front());
}

constexpr int kLargestHalfExponent = 15, kLeastHalfExponent = -24;  // of float16, as powers of two

// (rows): the largest E8M0 code of each.
std::vector<std::uint8_t> largest_codes(const QuantizedTensor& tensor) {
  const std::size_t blocks = tensor.spec().blocks();
  const auto codes = tensor.find("block_scale")->bytes;
  std::vector<std::uint8_t> largest(tensor.rows());
  for (std::size_t i = 0; i < codes.size(); ++i)
    largest[i / blocks] = std::max(largest[i / blocks], static_cast<std::uint8_t>(codes[i]));
  return largest;
}

// Scales as float16, and what all those of a row are multiplied with.
void pack_scales(PackedWeight& packed, const QuantizedTensor& tensor) {
  const TensorSpec& spec = tensor.spec();
  const TensorPart& part = *tensor.find("block_scale");
  if (spec.scale_type == ScaleType::kFloat16) {
    packed.block_scales = pack_per_block<std::uint16_t>(packed, spec, part);
    return;
  }
  const auto code_at = [&](std::size_t row, std::size_t block) {
    return value_at<std::uint8_t>(part, row * spec.blocks() + block);
  };
  if (spec.scale_type == ScaleType::kE4M3) {
    packed.row_scale.assign(spec.rows, tensor.tensor_scale());
    packed.block_scales = pack_values<std::uint16_t>(packed, spec, [&](std::size_t row, std::size_t block) {
      return f32_to_f16(f8_e4m3_to_f32(code_at(row, block)));
    });
    return;
  }
  const std::vector<std::uint8_t> largest = largest_codes(tensor);
  for (const std::uint8_t code : largest)
    packed.row_scale.push_back(std::scalbn(1.0f, int{code} - 127 - kLargestHalfExponent));
  packed.block_scales = pack_values<std::uint16_t>(packed, spec, [&](std::size_t row, std::size_t block) {
    return f32_to_f16(std::scalbn(1.0f, int{code_at(row, block)} - int{largest[row]} + kLargestHalfExponent));
  });
}

void pack_block_palette(PackedWeight& packed, const QuantizedTensor& tensor) {
  tensor.load_palette(0, packed.tables);
  packed.tables.resize(packed.entries());  // 3 bits are kept as 4 where blocks are of 16
  packed.middle = kMiddleByte;
  pack_scales(packed, tensor);
}

// One scale per row and no zero point: the grid is a palette that all rows share.
bool is_scaled_grid(const QuantizedTensor& tensor) {
  const TensorSpec& spec = tensor.spec();
  return spec.coding == Coding::kBlocks && spec.blocks() == 1 && spec.bits <= 4 && tensor.find("block_zero") == nullptr;
}

}  // namespace

std::uint64_t PackedWeight::bytes(bool in_bytes) const {
  const std::uint64_t palettes = in_bytes
                                     ? byte_entries_read() + sizeof(float) * (byte_step.size() + byte_lowest.size())
                                     : sizeof(float) * (tables.size() + row_scale.size());
  return codes.size() + block_scales.size() + block_zeros.size() + palettes + sizeof(float) * outlier_values.size() +
         sizeof(std::int32_t) * (outlier_rows.size() + outlier_columns.size());
}

bool can_pack(const TensorSpec& spec) {
  if (spec.coding == Coding::kPalette)
    return spec.windowed() ? WindowLayout::holds(spec.bits, spec.window_bits) : spec.cluster_dim == 1;
  const std::size_t length = spec.coding == Coding::kBlockPalette ? kBlockInputs / 2 : kBlockInputs;
  return spec.blocks() == 1 || spec.group_size % length == 0;
}

bool can_pack(const QuantizedTensor& tensor) {
  const TensorSpec& spec = tensor.spec();
  if (!can_pack(spec)) return false;
  if (spec.coding != Coding::kBlockPalette || spec.scale_type != ScaleType::kE8M0) return true;
  const std::vector<std::uint8_t> largest = largest_codes(tensor);
  const auto codes = tensor.find("block_scale")->bytes;
  std::vector<float> row(spec.cols);
  std::size_t decoded = spec.rows;  // none
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::size_t r = i / spec.blocks(), first = i % spec.blocks() * spec.group_size;
    if (largest[r] - static_cast<int>(codes[i]) <= kLargestHalfExponent - kLeastHalfExponent) continue;
    // The scale of a block of zeros, which is as small as scales get, may become anything.
    if (r != decoded) tensor.decode_rows(r, r + 1, row.data());
    decoded = r;
    const auto block = std::span(row).subspan(first).first(std::min<std::size_t>(spec.group_size, spec.cols - first));
    if (std::ranges::any_of(block, [](float value) { return value != 0.0f; })) return false;
  }
  return true;
}

PackedWeight pack_weight(const QuantizedTensor& tensor) {
  const TensorSpec& spec = tensor.spec();
  NIBBLE_REQUIRE(can_pack(tensor), InvalidArgument, "{}: no packed layout for this tensor", tensor.name());
  if (spec.windowed()) return pack_windowed_palette(tensor);
  PackedWeight packed;
  packed.rows = spec.rows;
  packed.cols = spec.cols;
  const bool shared = spec.coding != Coding::kPalette || spec.palettes() == 1 || spec.group_size % kPanelRows == 0;
  packed.layout = {kept_bits(spec.bits), shared ? kPanelRows : 1};
  packed.kind = shared ? PackedKind::kSharedPalette : PackedKind::kRowPalette;
  if (spec.coding == Coding::kPalette) {
    pack_palettes(packed, tensor);
  } else if (spec.coding == Coding::kBlockPalette) {
    const bool halves = spec.blocks() > 1 && spec.group_size % kBlockInputs != 0;
    packed.kind = halves ? PackedKind::kHalfBlockPalette : PackedKind::kBlockPalette;
    if (halves && spec.bits == 3) packed.layout.bits = 4;  // a unit of 3 bits is of 32 inputs
    pack_block_palette(packed, tensor);
  } else {
    packed.middle = 1u << (spec.bits - 1);
    if (packed.layout.bits <= 4) packed.tables = integer_table(packed.layout.bits, packed.middle);
    if (is_scaled_grid(tensor)) {
      packed.row_scale = to_floats(*tensor.find("block_scale"));
    } else {
      packed.kind = PackedKind::kBlocks;
      packed.block_scales = pack_per_block<std::uint16_t>(packed, spec, *tensor.find("block_scale"));
      if (const TensorPart* zero = tensor.find("block_zero"))
        packed.block_zeros = pack_per_block<std::uint8_t>(packed, spec, *zero);
    }
  }
  add_byte_tables(packed);
  pack_codes_into(packed, tensor);
  return packed;
}

}  // namespace nibble::quant
