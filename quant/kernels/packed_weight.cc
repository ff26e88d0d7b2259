#include "quant/kernels/packed_weight.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/thread_pool.h"
#include "quant/format/codes.h"

namespace nibble::quant {
namespace {

// ORs one plane of four codes after the other into a row of a unit: bits [drop, drop + width) of each code, at `shift`.
void place_plane(const std::uint8_t* codes, std::size_t count, unsigned drop, unsigned width, unsigned shift,
                 std::uint8_t* destination) {
  const std::uint32_t mask = ((1u << width) - 1) * 0x01010101u;
  for (std::size_t i = 0; i < count; i += 4) {
    std::uint32_t four = 0, kept = 0;
    std::memcpy(&four, codes + i, 4);
    std::memcpy(&kept, destination + i, 4);
    kept |= (four >> drop & mask) << shift;
    std::memcpy(destination + i, &kept, 4);
  }
}

// Adds row `row` of a panel: `codes` holds padded_inputs() codes.
void place_row(const CodeLayout& layout, std::size_t cols, std::size_t row, const std::uint8_t* codes,
               std::uint8_t* panel) {
  const std::size_t step = layout.row_bytes();
  for (std::size_t input = 0; input < layout.padded_inputs(cols); input += step) {
    const auto low = layout.place(0, row, input);
    place_plane(codes + input, step, 0, layout.low_bits(), low.shift, panel + low.byte);
    if (layout.high_bits() == 0) continue;
    const auto high = layout.place(1, row, input);
    place_plane(codes + input, step, layout.low_bits(), layout.high_bits(), high.shift, panel + high.byte);
  }
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

// (rows, blocks of the file) to (panels, blocks of 32 inputs, 16).
template <class T>
HugeBuffer pack_per_block(const PackedWeight& packed, const TensorSpec& spec, const TensorPart& part) {
  const std::size_t panels = packed.layout.panels(packed.rows), blocks = packed.blocks();
  const std::size_t width = spec.group_size == 0 ? spec.cols : spec.group_size;
  HugeBuffer buffer(panels * blocks * kPanelRows * sizeof(T));
  parallel_for(panels, [&](std::size_t panel) {
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t stored = std::min(block * kBlockInputs / width, spec.blocks() - 1);
      for (std::size_t r = 0; r < kPanelRows; ++r) {
        const std::size_t row = panel * kPanelRows + r;
        const T value = row < spec.rows ? value_at<T>(part, row * spec.blocks() + stored) : T{0};
        std::memcpy(buffer.data() + ((panel * blocks + block) * kPanelRows + r) * sizeof(T), &value, sizeof(T));
      }
    }
  });
  return buffer;
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

// The tables of int8 mode.
void add_byte_tables(PackedWeight& packed) {
  const std::size_t entries = packed.entries();
  if (packed.layout.bits == 8 || packed.kind == PackedKind::kBlocks) return;
  std::vector<float> steps, all_lowest;
  for (std::size_t first = 0; first < packed.tables.size(); first += entries) {
    const float* table = packed.tables.data() + first;
    const float lowest = table[0], step = (table[entries - 1] - lowest) / 255.0f;  // ascending
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
  return spec.blocks() == 1 || spec.group_size % kBlockInputs == 0;
}

PackedWeight pack_weight(const QuantizedTensor& tensor) {
  const TensorSpec& spec = tensor.spec();
  NIBBLE_REQUIRE(can_pack(spec), InvalidArgument, "{}: no packed layout for this tensor", tensor.name());
  if (spec.windowed()) return pack_windowed_palette(tensor);
  PackedWeight packed;
  packed.rows = spec.rows;
  packed.cols = spec.cols;
  const bool shared = spec.coding == Coding::kBlocks || spec.palettes() == 1 || spec.group_size % kPanelRows == 0;
  packed.layout = {kept_bits(spec.bits), shared ? kPanelRows : 1};
  packed.kind = shared ? PackedKind::kSharedPalette : PackedKind::kRowPalette;
  if (spec.coding == Coding::kPalette) {
    pack_palettes(packed, tensor);
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
