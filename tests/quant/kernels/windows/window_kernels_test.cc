#include "quant/kernels/windows/window_kernels.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/machine/isa.h"
#include "core/random.h"
#include "quant/kernels/packing/window_packing.h"
#include "tests/support/compare.h"
#include "tests/support/guarded.h"
#include "tests/support/throws.h"

namespace nibble::quant {
namespace {

using test::Guarded;

template <class T>
std::unique_ptr<Guarded<T>> guarded(const T* values, std::size_t count) {
  return std::make_unique<Guarded<T>>(std::span<const T>(values, count));
}

// Random streams, and what their windows mean, bit by bit. What kernels read ends at a page that nobody may touch.
struct Windows {
  std::size_t rows, cols;
  WindowLayout layout;
  std::vector<std::byte> streams;
  std::vector<float> entries;
  std::vector<std::uint8_t> planes, bytes;
  std::unique_ptr<Guarded<std::uint8_t>> packed, guarded_planes, guarded_bytes;
  std::unique_ptr<Guarded<float>> guarded_entries;

  Windows(std::size_t of_rows, std::size_t of_cols, unsigned step, unsigned bits, Random& random)
      : rows(of_rows), cols(of_cols), layout{step, bits}, streams(cols * column_bytes()) {
    for (auto& byte : streams) byte = static_cast<std::byte>(random.below(256));
    for (std::size_t i = 0; i < layout.entries(); ++i) entries.push_back(static_cast<float>(random.normal()));
    if (bits <= 8) {
      for (std::size_t p = 0; p < 4; ++p)
        for (std::size_t i = 0; i < 256; ++i)
          planes.push_back(static_cast<std::uint8_t>(bits_of(entries[i % layout.entries()]) >> 8 * p));
      for (std::size_t i = 0; i < 256; ++i)
        bytes.push_back(i < layout.entries() ? static_cast<std::uint8_t>(random.below(256))
                                             : bytes[i % layout.entries()]);
    }
    const HugeBuffer codes = pack_window_streams(layout, rows, cols, streams, column_bytes());
    packed = guarded(codes.data(), codes.size());
    guarded_entries = guarded(entries.data(), entries.size());
    guarded_planes = guarded(planes.data(), planes.size());
    guarded_bytes = guarded(bytes.data(), bytes.size());
  }
  static std::uint32_t bits_of(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
  }
  std::size_t column_bytes() const { return ((rows - 1) * layout.step + layout.bits + 7) / 8; }
  std::size_t code(std::size_t row, std::size_t col) const {
    std::size_t value = 0;
    for (std::size_t b = 0; b < layout.bits; ++b) {
      const std::size_t bit = row * layout.step + b;
      value |= (std::to_integer<std::size_t>(streams[col * column_bytes() + bit / 8]) >> bit % 8 & 1) << b;
    }
    return value;
  }
  std::size_t padded() const { return layout.padded_inputs(cols); }
  std::size_t all_rows() const { return layout.panels(rows) * kWindowRows; }
  WindowTables tables() const {
    return {guarded_entries->data(), planes.empty() ? nullptr : guarded_planes->data(),
            bytes.empty() ? nullptr : guarded_bytes->data()};
  }
  std::string describe() const {
    return fmt::format("({}, {}) windows of {} bits, {} apart", rows, cols, layout.bits, layout.step);
  }
};

// Every window and sizes around panels of 128 rows, chunks of 16, groups of 64 inputs, halves and units.
template <class Action>
void for_each_windows(unsigned most_bits, Random& random, const Action& action) {
  const std::pair<std::size_t, std::size_t> shapes[] = {{1, 1}, {17, 33}, {128, 64}, {129, 5}, {300, 131}};
  for (unsigned step = 1; step <= 4; ++step)
    for (unsigned bits = std::max(4u, step + 1); bits <= most_bits; ++bits) {
      if (!WindowLayout::holds(step, bits)) continue;
      for (const auto& [rows, cols] : shapes) {
        const Windows windows(rows, cols, step, bits, random);
        SCOPED_TRACE(windows.describe());
        action(windows);
      }
    }
}

TEST(WindowKernels, PlacesArePermutations) {
  std::vector<int> floats(kWindowRows), bytes(kWindowRows);
  for (std::size_t row = 0; row < kWindowRows; ++row) {
    ++floats.at(float_place(row));
    ++bytes.at(byte_place(row));
  }
  EXPECT_EQ(floats, std::vector<int>(kWindowRows, 1));
  EXPECT_EQ(bytes, std::vector<int>(kWindowRows, 1));
}

TEST(WindowKernels, DecodeJustTheEntriesOfEveryWindow) {
  Random random(1);
  for_each_windows(10, random, [&](const Windows& windows) {
    const WindowKernels& kernels = select_window_kernels(windows.layout);
    std::vector<float> actual, expected;
    for (std::size_t panel = 0; panel < windows.layout.panels(windows.rows); ++panel) {
      for (std::size_t half = 0; half < windows.padded() / kHalfInputs; ++half) {
        alignas(64) float w[kHalfInputs * kWindowRows];
        kernels.decode(windows.layout, windows.tables(),
                       windows.packed->data() + panel * windows.layout.panel_bytes(windows.cols), half, w);
        for (std::size_t j = 0; j < kHalfInputs && half * kHalfInputs + j < windows.cols; ++j)
          for (std::size_t r = 0; r < kWindowRows && panel * kWindowRows + r < windows.rows; ++r) {
            actual.push_back(w[j * kWindowRows + float_place(r)]);
            expected.push_back(windows.entries[windows.code(panel * kWindowRows + r, half * kHalfInputs + j)]);
          }
      }
    }
    ASSERT_TRUE(test::same_bits(actual, expected));
  });
}

TEST(WindowKernels, SumsOfManyTokensAreWithinTheBoundOfTheirContract) {
  Random random(2);
  for_each_windows(10, random, [&](const Windows& windows) {
    constexpr std::size_t kTokens = 6;  // four together, and two
    const std::size_t padded = windows.padded(), all_rows = windows.all_rows();
    std::vector<float> x(kTokens * padded);
    for (std::size_t t = 0; t < kTokens; ++t)
      for (std::size_t j = 0; j < windows.cols; ++j) x[t * padded + j] = static_cast<float>(random.normal());
    const auto guarded_x = guarded(x.data(), x.size());
    Guarded<float> y(kTokens * all_rows);
    select_window_kernels(windows.layout)
        .matvec({windows.packed->data(), windows.layout.panels(windows.rows), windows.layout.panel_bytes(windows.cols),
                 padded / kHalfInputs, windows.layout, windows.tables(), guarded_x->data(), padded, kTokens, y.data(),
                 all_rows});
    for (std::size_t t = 0; t < kTokens; ++t) {
      for (std::size_t r = 0; r < windows.rows; ++r) {
        double sum = 0.0, magnitude = 0.0;
        for (std::size_t j = 0; j < windows.cols; ++j) {
          const double product =
              static_cast<double>(windows.entries[windows.code(r, j)]) * static_cast<double>(x[t * padded + j]);
          sum += product;
          magnitude += std::abs(product);
        }
        const float actual = y.values()[t * all_rows + r / kWindowRows * kWindowRows + float_place(r % kWindowRows)];
        // Twice eps: the scalar kernels round products apart.
        ASSERT_TRUE(test::near(static_cast<double>(actual), sum,
                               {.abs = 2 * (static_cast<double>(padded) + 1) * 0x1p-24 * magnitude}))
            << "row " << r << ", token " << t;
      }
    }
  });
}

TEST(WindowKernels, SumsOfBytesAreJustTheIntegersTimesTheirScales) {
  Random random(3);
  for_each_windows(8, random, [&](const Windows& windows) {
    const std::size_t padded = windows.padded(), halves = padded / kHalfInputs;
    std::vector<std::int8_t> x(padded);
    std::vector<std::int32_t> x_sums(halves);
    std::vector<float> x_scales(halves);
    for (std::size_t j = 0; j < windows.cols; ++j) {
      x[j] = static_cast<std::int8_t>(static_cast<int>(random.below(255)) - 127);
      x_sums[j / kHalfInputs] += x[j];
    }
    for (auto& scale : x_scales) scale = random.below(2) == 0 ? 1.0f : 0.5f;  // sums below 2^23 halves: exact
    const auto guarded_x = guarded(x.data(), x.size());
    const auto scales = guarded(x_scales.data(), x_scales.size());
    const auto sums = guarded(x_sums.data(), x_sums.size());
    Guarded<float> y(windows.all_rows());
    select_window_int8_kernels(windows.layout)
        ->matvec({windows.packed->data(), windows.layout.panels(windows.rows), windows.layout.panel_bytes(windows.cols),
                  halves, windows.layout, windows.tables(), guarded_x->data(), scales->data(), sums->data(), y.data()});
    for (std::size_t r = 0; r < windows.rows; ++r) {
      double sum = 0.0;
      for (std::size_t j = 0; j < windows.cols; ++j)
        sum += static_cast<double>(x_scales[j / kHalfInputs]) * windows.bytes[windows.code(r, j)] * x[j];
      ASSERT_TRUE(test::near(
          static_cast<double>(y.values()[r / kWindowRows * kWindowRows + byte_place(r % kWindowRows)]), sum, {}))
          << "row " << r;
    }
  });
}

TEST(WindowKernels, WindowsOfMoreThan8BitsHaveNoProductsOfBytes) {
  EXPECT_EQ(select_window_int8_kernels({2, 9}), nullptr);
  EXPECT_NE(select_window_int8_kernels({2, 8}), nullptr);
}

TEST(WindowPacking, RefusesWhatDoesNotFit) {
  const std::vector<std::byte> streams(64);
  const auto refuses = [&](WindowLayout layout, std::size_t rows, std::size_t cols, std::size_t column_bytes,
                           const char* what) {
    return test::throws_with<InvalidArgument>([&] { pack_window_streams(layout, rows, cols, streams, column_bytes); },
                                              what);
  };
  EXPECT_TRUE(refuses({1, 10}, 8, 1, 64, "no packed layout"));  // nine bits of the next panel
  EXPECT_TRUE(refuses({5, 8}, 8, 1, 64, "no packed layout"));
  EXPECT_TRUE(refuses({4, 4}, 8, 1, 64, "no packed layout"));
  EXPECT_TRUE(refuses({2, 8}, 30, 8, 8, "too few"));  // 66 bits
  EXPECT_TRUE(refuses({2, 8}, 29, 9, 8, "too few"));
  EXPECT_TRUE(refuses({2, 8}, 29, 1, 0, "too few"));
}

}  // namespace
}  // namespace nibble::quant
