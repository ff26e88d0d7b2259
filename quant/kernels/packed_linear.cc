#include "quant/kernels/packed_linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/error.h"
#include "core/isa.h"
#include "core/thread_pool.h"
#include "quant/kernels/activations.h"
#include "quant/kernels/int8_matvec.h"
#include "quant/kernels/packed_source.h"
#include "quant/kernels/token_groups.h"

namespace nibble::quant {
namespace {

// Codes that a thread takes at a time: enough to outweigh the hand-out, little enough to share out small layers.
constexpr std::size_t kTileBytes = 64u << 10;

class PackedLinear final : public LinearOp<float> {
 public:
  PackedLinear(PackedWeight weight, std::vector<float> bias, Compute compute)
      : weight_(std::make_shared<const PackedWeight>(std::move(weight))),
        bias_(bias),
        matrix_(std::make_shared<PackedSource>(weight_), std::move(bias)) {
    int8_ = compute == Compute::kInt8 ? active_int8_matvec() : nullptr;
    if (int8_ != nullptr && int8_kernel() == nullptr) int8_ = nullptr;
  }

  std::size_t in_features() const override { return weight_->cols; }
  std::size_t out_features() const override { return weight_->rows; }
  std::string kernel_name() const override {
    if (int8_ != nullptr) return "packed_int8_avx512_vnni";
    return fmt::format("packed_exact_{}", isa_name(active_isa()));
  }

  void forward(MatrixView<const float> x, MatrixView<float> y) const override {
    if (x.rows() > kMostMatvecTokens || x.cols() != in_features() || y.cols() != out_features() || x.rows() != y.rows())
      return matrix_.forward(x, y);  // which says what is wrong with the shapes
    if (int8_ == nullptr) return multiply_vectors(x, y);
    for (std::size_t t = 0; t < x.rows(); ++t) multiply_int8(x.row(t), y.row(t));
  }

  void backward_input(MatrixView<const float> dy, MatrixView<float> dx) const override {
    matrix_.backward_input(dy, dx);
  }

 private:
  void multiply_vectors(MatrixView<const float> x, MatrixView<float> y) const {
    const PackedWeight& w = *weight_;
    const CodeLayout& layout = w.layout;
    thread_local Activations activations;
    Activations& arranged = activations;  // the calling thread's, for all threads
    arrange_activations(x, layout.padded_inputs(w.cols), layout.panel_rows == 1, w.block_zeros.size() > 0, arranged);
    const std::size_t per_tile = std::max<std::size_t>(1, kTileBytes / layout.panel_bytes(w.cols));
    parallel_for_tiles(layout.panels(w.rows), per_tile, [&](std::size_t begin, std::size_t end) {
      thread_local std::vector<float> sums;
      const std::size_t rows = (end - begin) * layout.panel_rows;
      sums.resize(kTokenGroup * rows);
      for_token_groups(x.rows(), [&](std::size_t token, std::size_t tokens) {
        ExactMatvecArgs args = panel_args(begin, end);
        args.x = arranged.values.data() + token * arranged.stride;
        args.x_stride = arranged.stride;
        args.block_sums = arranged.block_sums.data() + (arranged.block_sums.empty() ? 0 : token * w.blocks());
        args.y = sums.data();
        args.y_stride = rows;
        select_exact_matvec(layout.bits, w.kind, tokens)(args);
        for (std::size_t t = 0; t < tokens; ++t)
          finish(begin * layout.panel_rows, rows, sums.data() + t * rows, x.row(token + t), y.row(token + t));
      });
    });
  }

  Int8Matvec int8_kernel() const {
    return int8_->by_width[width_index(weight_->layout.bits)][static_cast<std::size_t>(weight_->kind)];
  }

  // One vector, quantized by the calling thread for all.
  struct QuantizedVector {
    std::vector<float> padded, scales, lane_scales;
    std::vector<std::int8_t> values;
    std::vector<std::int32_t> sums;
    float total = 0.0f;  // of what the quantized vector stands for
  };

  void quantize(std::span<const float> x, QuantizedVector& q) const {
    const std::size_t padded = weight_->layout.padded_inputs(weight_->cols), blocks = weight_->blocks();
    q.padded.assign(padded, 0.0f);
    std::copy(x.begin(), x.end(), q.padded.begin());
    q.values.resize(padded);
    q.scales.resize(blocks);
    q.sums.resize(blocks);
    int8_->quantize(q.padded.data(), padded, q.values.data(), q.scales.data(), q.sums.data());
    double total = 0.0;
    for (std::size_t b = 0; b < blocks; ++b) total += static_cast<double>(q.scales[b]) * static_cast<double>(q.sums[b]);
    q.total = static_cast<float>(total);
    if (weight_->layout.panel_rows != 1) return;
    q.lane_scales.resize(padded / 4);
    for (std::size_t lane = 0; lane < padded / 4; ++lane) q.lane_scales[lane] = q.scales[lane * 4 / kBlockInputs];
  }

  void multiply_int8(std::span<const float> x, std::span<float> y) const {
    const PackedWeight& w = *weight_;
    thread_local QuantizedVector quantized;
    QuantizedVector& q = quantized;
    quantize(x, q);
    const std::size_t panel_rows = w.layout.panel_rows;
    const std::size_t per_tile = std::max<std::size_t>(1, kTileBytes / w.layout.panel_bytes(w.cols));
    parallel_for_tiles(w.layout.panels(w.rows), per_tile, [&](std::size_t begin, std::size_t end) {
      thread_local std::vector<float> sums;
      sums.resize((end - begin) * panel_rows);
      Int8MatvecArgs args = int8_args(panel_args(begin, end), q);
      args.y = sums.data();
      int8_kernel()(args);
      if (w.kind != PackedKind::kBlocks) undo_byte_tables(begin * panel_rows, q.total, sums);
      finish(begin * panel_rows, sums.size(), sums.data(), x, y);
    });
  }

  // sum (step · byte + lowest) x = step · sum byte x + lowest · sum x.
  void undo_byte_tables(std::size_t first, float total, std::vector<float>& sums) const {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const std::size_t row = std::min(first + i, weight_->rows - 1);
      const std::size_t table = weight_->rows_per_table == 0 ? 0 : row / weight_->rows_per_table;
      sums[i] = weight_->table_step[table] * sums[i] + weight_->table_lowest[table] * total;
    }
  }

  Int8MatvecArgs int8_args(const ExactMatvecArgs& exact, const QuantizedVector& q) const {
    Int8MatvecArgs args{};
    args.codes = exact.codes;
    args.panels = exact.panels;
    args.units = exact.units;
    args.unit_bytes = exact.unit_bytes;
    args.tables = weight_->byte_tables.data();
    args.first_panel = exact.first_panel;
    args.panels_per_table = exact.panels_per_table;
    args.block_scales = exact.block_scales;
    args.block_zeros = exact.block_zeros;
    args.middle = static_cast<std::int32_t>(weight_->middle);
    args.x = q.values.data();
    args.x_scales = q.scales.data();
    args.lane_scales = q.lane_scales.data();
    args.x_sums = q.sums.data();
    args.blocks = exact.blocks;
    return args;
  }

  ExactMatvecArgs panel_args(std::size_t begin, std::size_t end) const {
    const PackedWeight& w = *weight_;
    ExactMatvecArgs args{};
    args.codes = w.codes.data() + begin * w.layout.panel_bytes(w.cols);
    args.panels = end - begin;
    args.units = w.layout.units(w.cols);
    args.unit_bytes = w.layout.unit_bytes();
    args.tables = w.tables.data();
    args.first_panel = begin;
    args.panels_per_table =
        w.rows_per_table == 0 ? std::numeric_limits<std::size_t>::max() : w.rows_per_table / w.layout.panel_rows;
    args.blocks = w.blocks();
    args.zero_of_table = w.middle;
    if (w.kind == PackedKind::kBlocks) {
      const std::size_t at = begin * w.blocks() * kPanelRows;
      args.block_scales = reinterpret_cast<const std::uint16_t*>(w.block_scales.data()) + at;
      args.block_zeros = w.block_zeros.size() == 0 ? nullptr : w.block_zeros.data() + at;
    }
    return args;
  }

  // y = scale · sum + outliers + bias for the rows of a tile that exist.
  void finish(std::size_t first, std::size_t rows, const float* sums, std::span<const float> x,
              std::span<float> y) const {
    const PackedWeight& w = *weight_;
    for (std::size_t row = first; row < std::min(w.rows, first + rows); ++row) {
      float value = sums[row - first];
      if (!w.row_scale.empty()) value *= w.row_scale[row];
      if (!w.outlier_rows.empty()) value += outliers(row, x);
      if (!bias_.empty()) value += bias_[row];
      y[row] = value;
    }
  }

  float outliers(std::size_t row, std::span<const float> x) const {
    const PackedWeight& w = *weight_;
    float sum = 0.0f;
    for (auto i = static_cast<std::size_t>(w.outlier_rows[row]); i < static_cast<std::size_t>(w.outlier_rows[row + 1]);
         ++i)
      sum += w.outlier_values[i] * x[static_cast<std::size_t>(w.outlier_columns[i])];
    return sum;
  }

  std::shared_ptr<const PackedWeight> weight_;
  std::vector<float> bias_;
  DecodingLinear matrix_;
  const Int8MatvecTable* int8_ = nullptr;
};

class StackedLinear final : public LinearOp<float> {
 public:
  explicit StackedLinear(std::vector<std::unique_ptr<LinearOp<float>>> parts) : parts_(std::move(parts)) {
    NIBBLE_REQUIRE(!parts_.empty(), InvalidArgument, "stacked linear: no parts");
    for (const auto& part : parts_) {
      NIBBLE_REQUIRE(part->in_features() == in_features(), InvalidArgument, "stacked linear: parts of {} and {} inputs",
                     in_features(), part->in_features());
      out_ += part->out_features();
    }
  }

  std::size_t in_features() const override { return parts_.front()->in_features(); }
  std::size_t out_features() const override { return out_; }
  std::string kernel_name() const override { return parts_.front()->kernel_name(); }

  void forward(MatrixView<const float> x, MatrixView<float> y) const override {
    check_outputs(y.cols());
    for_parts([&](const LinearOp<float>& part, std::size_t first) {
      part.forward(x, y.cols_slice(first, part.out_features()));
    });
  }

  void backward_input(MatrixView<const float> dy, MatrixView<float> dx) const override {
    check_outputs(dy.cols());
    Matrix<float> share(dx.rows(), dx.cols());
    for_parts([&](const LinearOp<float>& part, std::size_t first) {
      part.backward_input(dy.cols_slice(first, part.out_features()), first == 0 ? dx : share.view());
      for (std::size_t t = 0; first != 0 && t < dx.rows(); ++t)
        for (std::size_t j = 0; j < dx.cols(); ++j) dx(t, j) += share(t, j);
    });
  }

  void release() const override {
    for (const auto& part : parts_) part->release();
  }

 private:
  void check_outputs(std::size_t outputs) const {
    NIBBLE_REQUIRE(outputs == out_, InvalidArgument, "stacked linear: expected {} outputs, got {}", out_, outputs);
  }

  template <class Action>
  void for_parts(const Action& action) const {
    std::size_t first = 0;
    for (const auto& part : parts_) {
      action(*part, first);
      first += part->out_features();
    }
  }

  std::vector<std::unique_ptr<LinearOp<float>>> parts_;
  std::size_t out_ = 0;
};

constexpr std::array<std::string_view, 2> kComputeNames{"exact", "int8"};

}  // namespace

std::string_view compute_name(Compute compute) { return kComputeNames[static_cast<std::size_t>(compute)]; }

std::optional<Compute> compute_from_name(std::string_view name) {
  const auto found = std::find(kComputeNames.begin(), kComputeNames.end(), name);
  if (found == kComputeNames.end()) return std::nullopt;
  return static_cast<Compute>(found - kComputeNames.begin());
}

std::unique_ptr<LinearOp<float>> make_packed_linear(const QuantizedTensor& tensor, std::vector<float> bias,
                                                    Compute compute) {
  return std::make_unique<PackedLinear>(pack_weight(tensor), std::move(bias), compute);
}

std::unique_ptr<LinearOp<float>> make_stacked_linear(std::vector<std::unique_ptr<LinearOp<float>>> parts) {
  return std::make_unique<StackedLinear>(std::move(parts));
}

}  // namespace nibble::quant
