// Kernels read and write just their arrays: each of them ends at a page that nobody may touch.
#include <gtest/gtest.h>

#include <memory>

#include "quant/kernels/exact/float_matvec.h"
#include "quant/kernels/linear/packed_products.h"
#include "quant/kernels/linear/token_groups.h"
#include "tests/quant/kernels/example_tensors.h"
#include "tests/support/compare.h"
#include "tests/support/guarded.h"

namespace nibble::quant {
namespace {

using test::describe;
using test::Guarded;
using test::random_tensor;
using test::TensorWish;

std::vector<TensorWish> wishes() {
  std::vector<TensorWish> all;
  for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{1, 1}, {17, 33}, {19, 515}}) {
    for (const unsigned bits : {1u, 2u, 3u, 4u, 6u, 8u}) {
      for (const std::size_t group : {std::size_t{0}, std::size_t{1}})
        all.push_back({{Coding::kPalette, rows, cols, bits, group, 1}});
      if (bits == 1) continue;
      for (const bool zeros : {false, true}) all.push_back({{Coding::kBlocks, rows, cols, bits, 32, 1}, false, zeros});
    }
    for (const TensorWish& wish : test::block_palette_wishes(rows, cols, false)) all.push_back(wish);
  }
  return all;
}

std::vector<float> random_vector(std::size_t size, Random& random) {
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

template <class T>
std::unique_ptr<Guarded<T>> guarded(const T* values, std::size_t count) {
  return std::make_unique<Guarded<T>>(std::span<const T>(values, values == nullptr ? 0 : count));
}

// What a packed weight holds, each array at the end of its pages.
struct GuardedWeight {
  explicit GuardedWeight(const PackedWeight& w)
      : codes(guarded(w.codes.data(), w.codes.size())),
        zeros(guarded(w.block_zeros.data(), w.block_zeros.size())),
        byte_tables(guarded(w.byte_tables.data(), w.byte_tables.size())),
        scales(guarded(reinterpret_cast<const std::uint16_t*>(w.block_scales.data()), w.block_scales.size() / 2)),
        tables(guarded(w.tables.data(), w.tables.size())) {}

  template <class Args>
  void put_into(Args& args) const {
    args.codes = codes->data();
    if (args.block_scales != nullptr) args.block_scales = scales->data();
    if (args.block_zeros != nullptr) args.block_zeros = zeros->data();
  }
  std::unique_ptr<Guarded<std::uint8_t>> codes, zeros, byte_tables;
  std::unique_ptr<Guarded<std::uint16_t>> scales;
  std::unique_ptr<Guarded<float>> tables;
};

TEST(PageEnds, ExactKernelsStayWithinTheirArrays) {
  Random random(1);
  for (const TensorWish& wish : wishes()) {
    SCOPED_TRACE(describe(wish));
    const PackedWeight w = pack_weight(random_tensor(wish, random));
    const GuardedWeight weight(w);
    const std::size_t panels = w.layout.panels(w.rows), rows = panels * w.layout.panel_rows;
    for (const std::size_t tokens : {std::size_t{1}, kTokenGroup}) {
      const std::size_t stride = w.layout.padded_inputs(w.cols);
      const auto x = random_vector(tokens * stride, random), sums = random_vector(tokens * w.blocks(), random);
      std::vector<float> expected(tokens * rows);
      ExactMatvecArgs args = panel_args(w, 0, panels);
      args.x = x.data();
      args.x_stride = stride;
      args.block_sums = sums.data();
      args.y = expected.data();
      args.y_stride = rows;
      select_exact_matvec(w.layout.bits, w.kind, tokens)(args);
      Guarded<float> guarded_x{std::span(x)}, guarded_sums{std::span(sums)}, y(tokens * rows);
      weight.put_into(args);
      args.tables = weight.tables->data();
      args.x = guarded_x.data();
      args.block_sums = guarded_sums.data();
      args.y = y.data();
      select_exact_matvec(w.layout.bits, w.kind, tokens)(args);
      EXPECT_TRUE(test::same_bits(y.values(), expected));
    }
  }
}

TEST(PageEnds, Int8KernelsStayWithinTheirArrays) {
  Random random(2);
  const Int8MatvecTable& kernels = active_int8_matvec();
  for (const TensorWish& wish : wishes()) {
    SCOPED_TRACE(describe(wish));
    const PackedWeight w = pack_weight(random_tensor(wish, random));
    const Int8MatvecKernel kernel = int8_kernel(w, kernels);
    if (kernel.run == nullptr) continue;
    const GuardedWeight weight(w);
    const std::size_t panels = w.layout.panels(w.rows), rows = panels * w.layout.panel_rows;
    QuantizedActivations q;
    quantize_activations(
        random_vector(w.cols, random), w.layout.padded_inputs(w.cols), kernels.quantize,
        {.block = inputs_per_block(w.kind), .lane_scales = w.layout.panel_rows == 1, .apart = kernel.takes_apart}, q);
    std::vector<float> expected(rows);
    Int8MatvecArgs args = int8_args(w, 0, panels, q);
    args.y = expected.data();
    kernel.run(args);
    Guarded<std::int8_t> x{std::span<const std::int8_t>(q.values)};
    Guarded<std::int8_t> magnitudes{std::span<const std::int8_t>(q.magnitudes)};
    Guarded<std::int8_t> negative{std::span<const std::int8_t>(q.negative)};
    Guarded<float> scales{std::span<const float>(q.scales)}, lanes{std::span<const float>(q.lane_scales)}, y(rows);
    Guarded<std::int32_t> sums{std::span<const std::int32_t>(q.sums)}, less{std::span<const std::int32_t>(q.less)};
    weight.put_into(args);
    args.tables = weight.byte_tables->data();
    args.x = x.data();
    args.x_magnitudes = magnitudes.data();
    args.x_negative = negative.data();
    args.x_scales = scales.data();
    args.lane_scales = lanes.data();
    args.x_sums = sums.data();
    args.x_less = less.data();
    args.y = y.data();
    kernel.run(args);
    EXPECT_TRUE(test::same_bits(y.values(), expected));
  }
}

TEST(PageEnds, FloatKernelsStayWithinTheirArrays) {
  Random random(3);
  for (const FloatType type : {FloatType::kF16, FloatType::kBF16, FloatType::kF32}) {
    for (const std::size_t cols : {1u, 16u, 67u, 131u}) {
      for (const std::size_t tokens : {std::size_t{1}, kTokenGroup}) {
        const std::size_t rows = 3, stride = (cols + 15) / 16 * 16, bytes = type == FloatType::kF32 ? 4 : 2;
        auto x = random_vector(tokens * stride, random);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % stride < cols ? x[i] : 0.0f;
        const std::vector<unsigned char> weight(rows * cols * bytes, 0x3c);  // a number a little above 0 in every type
        Guarded<unsigned char> guarded_weight{std::span(weight)};
        Guarded<float> guarded_x{std::span<const float>(x)}, y(tokens * rows);
        std::vector<float> expected(tokens * rows);
        FloatMatvecArgs args{weight.data(), rows, cols, x.data(), stride, expected.data(), rows};
        select_float_matvec(type, tokens)(args);
        args.weight = guarded_weight.data();
        args.x = guarded_x.data();
        args.y = y.data();
        select_float_matvec(type, tokens)(args);
        EXPECT_TRUE(test::same_bits(y.values(), expected));
      }
    }
  }
}

}  // namespace
}  // namespace nibble::quant
