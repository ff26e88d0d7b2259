#include "export/integer_grid.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "quant/format/codes.h"

namespace nibble::exporting {
namespace {

const quant::QuantizedTensor& tensor_of(const RowOrigin& origin) { return origin.part->coded->tensor(); }

}  // namespace

IntegerGrid::IntegerGrid(std::vector<RowOrigin> rows) : rows_(std::move(rows)) {
  const ExportPart* first = nullptr;
  for (const RowOrigin& row : rows_) {
    if (row.part == nullptr || row.part == first) continue;
    NIBBLE_REQUIRE(row.part->coded && row.part->storage.blocks(), InvalidArgument,
                   "'{}' has no integer codes: it is stored as {}", row.part->parameter->module,
                   row.part->storage.text());
    NIBBLE_REQUIRE(first == nullptr || first->storage.same_codes(row.part->storage), InvalidArgument,
                   "'{}' and '{}' stand in one tensor, but are stored as {} and {}", first->parameter->module,
                   row.part->parameter->module, first->storage.text(), row.part->storage.text());
    if (first == nullptr) first = row.part;
  }
  NIBBLE_REQUIRE(first != nullptr, InvalidArgument, "a tensor of {} rows that nobody owns", rows_.size());
  spec_ = first->coded->tensor().spec();
  block_ = spec_.group_size == 0 ? spec_.cols : spec_.group_size;
}

void IntegerGrid::copy_stream(std::size_t row, std::span<std::byte> stream) const {
  const RowOrigin& origin = rows_[row];
  if (origin.part == nullptr) {
    const std::vector<std::uint8_t> codes(cols(), static_cast<std::uint8_t>(middle()));
    std::fill(stream.begin(), stream.end(), std::byte{0});
    return quant::pack_codes(codes, bits(), stream.first(spec_.row_bytes()));
  }
  const std::span<const std::byte> stored = tensor_of(origin).code_row(origin.row);
  NIBBLE_REQUIRE(stream.size() >= stored.size(), InvalidArgument, "{} bytes for a row of {}", stream.size(),
                 stored.size());
  std::memcpy(stream.data(), stored.data(), stored.size());
  std::memset(stream.data() + stored.size(), 0, stream.size() - stored.size());
}

void IntegerGrid::codes(std::size_t row, std::span<std::uint8_t> codes) const {
  const RowOrigin& origin = rows_[row];
  if (origin.part == nullptr) {
    std::fill(codes.begin(), codes.end(), static_cast<std::uint8_t>(middle()));
  } else {
    quant::unpack_codes(tensor_of(origin).code_row(origin.row), bits(), codes);
  }
}

template <class Action>
void IntegerGrid::for_groups(std::size_t group, std::size_t count, const Action& action) const {
  NIBBLE_REQUIRE(group > 0 && (block_ >= cols() || block_ % group == 0), InvalidArgument,
                 "blocks of {} inputs do not consist of groups of {}", block_, group);
  NIBBLE_REQUIRE(count == (cols() + group - 1) / group, InvalidArgument, "{} groups of {} in rows of {}", count, group,
                 cols());
  for (std::size_t i = 0; i < count; ++i) action(i, i * group / block_);
}

void IntegerGrid::scales(std::size_t row, std::size_t group, std::span<std::uint16_t> scales) const {
  const RowOrigin& origin = rows_[row];
  if (origin.part == nullptr) return std::fill(scales.begin(), scales.end(), std::uint16_t{0});
  const std::byte* stored =
      tensor_of(origin).find("block_scale")->bytes.data() + origin.row * spec_.blocks() * sizeof(std::uint16_t);
  for_groups(group, scales.size(), [&](std::size_t i, std::size_t block) {
    std::memcpy(&scales[i], stored + block * sizeof(std::uint16_t), sizeof(std::uint16_t));
  });
}

void IntegerGrid::zeros(std::size_t row, std::size_t group, std::span<std::uint8_t> zeros) const {
  const RowOrigin& origin = rows_[row];
  const quant::TensorPart* stored = origin.part == nullptr ? nullptr : tensor_of(origin).find("block_zero");
  if (stored == nullptr) return std::fill(zeros.begin(), zeros.end(), static_cast<std::uint8_t>(middle()));
  const std::byte* first = stored->bytes.data() + origin.row * spec_.blocks();
  for_groups(group, zeros.size(),
             [&](std::size_t i, std::size_t block) { zeros[i] = std::to_integer<std::uint8_t>(first[block]); });
}

}  // namespace nibble::exporting
