#include "quant/kernels/packed_linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/error.h"
#include "core/isa.h"
#include "core/thread_pool.h"
#include "quant/kernels/activations.h"
#include "quant/kernels/packed_source.h"
#include "quant/kernels/token_groups.h"

namespace nibble::quant {
namespace {

// Codes that a thread takes at a time: enough to outweigh the hand-out, little enough to share out small layers.
constexpr std::size_t kTileBytes = 64u << 10;

class PackedLinear final : public LinearOp<float> {
 public:
  PackedLinear(PackedWeight weight, std::vector<float> bias)
      : weight_(std::make_shared<const PackedWeight>(std::move(weight))),
        bias_(bias),
        matrix_(std::make_shared<PackedSource>(weight_), std::move(bias)) {}

  std::size_t in_features() const override { return weight_->cols; }
  std::size_t out_features() const override { return weight_->rows; }
  std::string kernel_name() const override { return fmt::format("packed_exact_{}", isa_name(active_isa())); }

  void forward(MatrixView<const float> x, MatrixView<float> y) const override {
    if (x.rows() > kMostMatvecTokens || x.cols() != in_features() || y.cols() != out_features() || x.rows() != y.rows())
      return matrix_.forward(x, y);  // which says what is wrong with the shapes
    multiply_vectors(x, y);
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

constexpr std::array<std::string_view, 1> kComputeNames{"exact"};

}  // namespace

std::string_view compute_name(Compute compute) { return kComputeNames[static_cast<std::size_t>(compute)]; }

std::optional<Compute> compute_from_name(std::string_view name) {
  const auto found = std::find(kComputeNames.begin(), kComputeNames.end(), name);
  if (found == kComputeNames.end()) return std::nullopt;
  return static_cast<Compute>(found - kComputeNames.begin());
}

std::unique_ptr<LinearOp<float>> make_packed_linear(const QuantizedTensor& tensor, std::vector<float> bias, Compute) {
  return std::make_unique<PackedLinear>(pack_weight(tensor), std::move(bias));
}

std::unique_ptr<LinearOp<float>> make_stacked_linear(std::vector<std::unique_ptr<LinearOp<float>>> parts) {
  return std::make_unique<StackedLinear>(std::move(parts));
}

}  // namespace nibble::quant
