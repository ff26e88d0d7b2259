#pragma once

#include "quant/kernels/int8/int8_matmul.h"
#include "quant/kernels/simd/code_vectors.h"

// The kernels of int8_matmul.h over a vector type V (see int8_matvec_simd.h), which also offers
//            kTilePanels, kTileTokens    how many sums fit into registers
//            store_bytes(p, v)           64 bytes
//            transpose(rows)             16 Bytes: lane l of vector v changes places with lane v of vector l
//            BlockProduct<Product, kBelow16>   a block's products, maybe of bytes below 16: Sums, begin(start), eight
//                                        times dot(s, bytes, x) as Product, and end(s, start), which gives V's Sums
//
// A V whose processor multiplies matrices of bytes offers, for tiles of one panel,
//            PairSums                    of two tokens: begin_pair(a, b), first_of_pair(s), second_of_pair(s)
//            pair_fours(p)               128 bytes, two fours of 16 rows, as load_eights(p) wants them
//            eight_inputs(p, q)          four inputs of two tokens at p, the next four at q
//            dot_pair(s, weights, inputs)
//
// One that multiplies tiles of tokens and rows at a time offers, instead of kinds of sums,
//            Tiles<kBlock>               while one lasts, multiply<kSigned>(x, bytes, blocks, sums): many blocks' sums
//            load_sums(p)                of a token with 16 rows
//            subtract(bytes, fours, p)   a byte for each of 16 rows
// and wants Int8TileShape::blocks. There kTilePanels is how many panels go by for a tile of tokens.
//
// 512 inputs of the panels are unpacked into bytes (panels, 128, 16, 4), so that they stay in the nearest caches while
// all tokens go by: 16 KB in the first where sums of a block are integers in registers; where tiles of tokens are
// multiplied, 32 KB in the second, and these sums lie in memory, too. Those of all blocks are floats in args.sums.
namespace nibble::quant::int8_matmul {

using code_vectors::Int;
using code_vectors::Unit;
using code_vectors::unroll;

constexpr std::size_t kStepInputs = 512;  // whole units of every layout

template <class V>
constexpr bool kPairsOfTokens = requires {
  typename V::PairSums;
};

template <class V>
constexpr bool kTilesOfTokens = requires {
  typename V::template Tiles<kBlockInputs>;
};

/// A step's worth of weights, which of the blocks it is, and what makes products of sums.
template <class V, std::size_t kBlock = kBlockInputs>
struct Step {
  static constexpr std::size_t kBlockLength = kBlock, kStepBlocks = kStepInputs / kBlock;
  static constexpr std::size_t kPanels = static_cast<std::size_t>(V::kTilePanels);
  std::size_t first_block, blocks;
  alignas(64) std::uint8_t weights[kPanels][kStepInputs * kPanelRows];
  alignas(64) float scales[kPanels][kStepBlocks * kPanelRows];
  alignas(64) std::uint8_t zeros[kPanels][kStepBlocks * kPanelRows];
  alignas(64) float byte_step[kPanels][kPanelRows];
  alignas(64) float byte_lowest[kPanels][kPanelRows];
};

// A tile's sums to products, while other tiles are on their way: alone, every line of y would be waited for.
template <class V, bool kScaled, class StepType>
[[gnu::always_inline]] inline void finish_tile(const StepType& step, const Int8MatmulArgs& args, std::size_t panels,
                                               std::size_t tile, const float* sums) {
  constexpr std::size_t kTokens = V::kTileTokens;
  for (std::size_t t = 0; t < kTokens && tile * kTokens + t < args.x.tokens; ++t) {
    const std::size_t token = tile * kTokens + t;
    for (std::size_t panel = 0; panel < panels; ++panel, sums += kPanelRows) {
      auto products = V::load(sums);
      if constexpr (!kScaled) {
        products = V::mul(V::load(step.byte_step[panel]), products);
        products = V::add(products, V::mul(V::load(step.byte_lowest[panel]), V::set(args.x.totals[token])));
      }
      const std::size_t first = panel * kPanelRows, rows = args.rows - first;
      float* y = args.y + token * args.y_stride + first;
      if (rows >= kPanelRows) {
        V::store(y, products);
      } else {
        float all[kPanelRows];
        V::store(all, products);
        for (std::size_t r = 0; r < rows; ++r) y[r] = all[r];
      }
    }
  }
}

// sums += step of kPanels panels times all tokens.
template <class V, class Product, bool kScaled, bool kZeros, int kPanels, class StepType>
void multiply(const StepType& step, const Int8MatmulArgs& args) {
  constexpr std::size_t kBlock = StepType::kBlockLength;
  constexpr int kFoursPerBlock = static_cast<int>(kBlock / 4);
  constexpr int kTokens = V::kTileTokens;
  constexpr std::size_t kTileFloats = std::size_t{kPanels} * kTokens * kPanelRows;
  for (std::size_t tile = 0; tile < args.x.tiles; ++tile) {
    const std::size_t first = tile * args.x.blocks + step.first_block;
    const std::int8_t* x = args.x.values + first * kBlock * kTokens;
    float* totals = args.sums + tile * kTileFloats;
    for (std::size_t block = 0; block < step.blocks; ++block) {
      const std::size_t at = (first + block) * kTokens;
      const auto start = [&](auto t, auto p) {
        const auto sums = V::set_sums(args.x.starts[at + t.index]);
        if constexpr (!kZeros) return sums;
        return V::less_products(sums, V::small_integers(step.zeros[p.index] + block * kPanelRows),
                                args.x.sums[at + t.index]);
      };
      const auto add_to_totals = [&](auto t, auto p, const auto& sums) {
        auto scale = V::set(args.x.scales[at + t.index]);
        if constexpr (kScaled) scale = V::mul(scale, V::load(step.scales[p.index] + block * kPanelRows));
        float* total = totals + (t.index * kPanels + p.index) * kPanelRows;
        V::store(total, V::fma(V::floats(sums()), scale, V::load(total)));
      };
      const std::size_t from = block * kBlock * kPanelRows;
      if constexpr (kPairsOfTokens<V>) {
        constexpr int kPairs = kTokens / 2;
        static_assert(kPanels == 1 && kTokens % 2 == 0);
        typename V::PairSums sums[std::size_t{kPairs}];
        unroll<kPairs>([&](auto pair) {
          sums[pair.index] =
              V::begin_pair(start(Int<2 * pair.value>{}, Int<0>{}), start(Int<2 * pair.value + 1>{}, Int<0>{}));
        });
        unroll<kFoursPerBlock / 2>([&](auto eight) {
          const auto weights = V::load_eights(step.weights[0] + from + eight.index * 2 * kVectorBytes);
          const std::int8_t* inputs = x + eight.index * 2 * kTokens * 4;
          unroll<kPairs>([&](auto pair) {
            sums[pair.index] =
                V::dot_pair(sums[pair.index], weights,
                            V::eight_inputs(inputs + pair.index * 8, inputs + kTokens * 4 + pair.index * 8));
          });
        });
        x += kBlock * kTokens;
        unroll<kPairs>([&](auto pair) {
          add_to_totals(Int<2 * pair.value>{}, Int<0>{}, [&] { return V::first_of_pair(sums[pair.index]); });
          add_to_totals(Int<2 * pair.value + 1>{}, Int<0>{}, [&] { return V::second_of_pair(sums[pair.index]); });
        });
      } else {
        typename Product::Sums sums[std::size_t{kTokens}][std::size_t{kPanels}];
        unroll<kTokens>(
            [&](auto t) { unroll<kPanels>([&](auto p) { sums[t.index][p.index] = Product::begin(start(t, p)); }); });
        unroll<kFoursPerBlock>([&](auto four) {
          typename V::Bytes weights[std::size_t{kPanels}];
          unroll<kPanels>([&](auto p) {
            weights[p.index] = V::load_bytes(step.weights[p.index] + from + four.index * kVectorBytes);
          });
          unroll<kTokens>([&](auto t) {
            const auto inputs = V::four_inputs(x + (four.index * kTokens + t.index) * 4);
            unroll<kPanels>([&](auto p) {
              sums[t.index][p.index] = Product::dot(sums[t.index][p.index], weights[p.index], inputs);
            });
          });
        });
        x += kBlock * kTokens;
        unroll<kPanels>([&](auto p) {
          unroll<kTokens>(
              [&](auto t) { add_to_totals(t, p, [&] { return Product::end(sums[t.index][p.index], start(t, p)); }); });
        });
      }
    }
    if (step.first_block + step.blocks == args.x.blocks) finish_tile<V, kScaled>(step, args, kPanels, tile, totals);
  }
}

// The same where a processor multiplies a block of 16 tokens and 16 rows at a time. Some blocks' sums come through the
// first-level cache; those of all blocks stay in registers meanwhile.
// Signed bytes are weights less their zero points (less_zero_points()) and palettes' are as they are; kZeros: what is
// left to be subtracted is, from sums.
template <class V, bool kSigned, bool kScaled, bool kZeros, class StepType>
void multiply_tiles(const StepType& step, const Int8MatmulArgs& args) {
  constexpr std::size_t kBlock = StepType::kBlockLength, kBlocksAtATime = 16;
  constexpr int kTokens = V::kTileTokens;
  constexpr std::size_t kOperand = kBlock * kPanelRows, kSums = kTokens * kPanelRows;
  static_assert(kTokens == kPanelRows);
  const typename V::template Tiles<kBlock> tiles;
  alignas(64) std::int32_t products[kBlocksAtATime * kSums];
  for (std::size_t tile = 0; tile < args.x.tiles; ++tile) {
    const std::size_t first = tile * args.x.blocks + step.first_block;
    float* tile_totals = args.sums + tile * args.panels * kSums;
    for (std::size_t panel = 0; panel < args.panels; ++panel) {
      const auto total = [&](auto t) { return tile_totals + (t.index * args.panels + panel) * kPanelRows; };
      decltype(V::set(0.0f)) totals[std::size_t{kTokens}];
      unroll<kTokens>([&](auto t) { totals[t.index] = V::load(total(t)); });
      for (std::size_t from = 0; from < step.blocks; from += kBlocksAtATime) {
        const std::size_t count = step.blocks - from < kBlocksAtATime ? step.blocks - from : kBlocksAtATime;
        tiles.template multiply<kSigned>(args.x.values + (first + from) * kOperand,
                                         step.weights[panel] + from * kOperand, count, products);
        for (std::size_t block = 0; block < count; ++block) {
          const std::size_t at = (first + from + block) * kTokens, of_rows = (from + block) * kPanelRows;
          unroll<kTokens>([&](auto t) {
            auto sums = V::load_sums(products + block * kSums + t.index * kPanelRows);
            if constexpr (kZeros) {
              sums = V::add_sums(sums, V::set_sums(args.x.starts[at + t.index]));
              sums = V::less_products(sums, V::small_integers(step.zeros[panel] + of_rows), args.x.sums[at + t.index]);
            }
            auto scale = V::set(args.x.scales[at + t.index]);
            if constexpr (kScaled) scale = V::mul(scale, V::load(step.scales[panel] + of_rows));
            totals[t.index] = V::fma(V::floats(sums), scale, totals[t.index]);
          });
        }
      }
      unroll<kTokens>([&](auto t) { V::store(total(t), totals[t.index]); });
    }
    if (step.first_block + step.blocks == args.x.blocks)
      finish_tile<V, kScaled>(step, args, args.panels, tile, tile_totals);
  }
}

template <class V, class Product, bool kScaled, bool kZeros, class StepType>
void multiply_panels(const StepType& step, const Int8MatmulArgs& args) {
  if (args.panels == 1) return multiply<V, Product, kScaled, kZeros, 1>(step, args);
  if constexpr (V::kTilePanels > 1) multiply<V, Product, kScaled, kZeros, V::kTilePanels>(step, args);
}

// Blocks' weights become signed bytes less their zero points once, for all tokens; 8 bits and a zero point do not fit.
template <class V, int kBits>  // V: of one instruction set, as all of this file
bool fits_less_zero_points(const Int8MatmulArgs& args) {
  return kBits < 8 || args.block_zeros == nullptr;
}
template <class V, class StepType>
void less_zero_points(const Int8MatmulArgs& args, std::size_t panel, StepType& step) {
  constexpr std::size_t kFours = StepType::kBlockLength / 4;
  for (std::size_t block = 0; block < step.blocks; ++block) {
    std::uint8_t less[kPanelRows];
    for (std::size_t row = 0; row < kPanelRows; ++row) {
      const int zero = args.block_zeros == nullptr ? 0 : step.zeros[panel][block * kPanelRows + row];
      less[row] = static_cast<std::uint8_t>(zero - args.x.start);
    }
    V::subtract(step.weights[panel] + block * kFours * kVectorBytes, kFours, less);
  }
}

// Runs multiply after unpack(panel, step) of each panel, for every step.
template <class V, class Product, bool kScaled, int kBits, std::size_t kBlock = kBlockInputs, class Unpack>
[[gnu::always_inline]] inline void for_each_step(const Int8MatmulArgs& args, const Unpack& unpack) {
  Step<V, kBlock> step;
  constexpr std::size_t kStepBlocks = Step<V, kBlock>::kStepBlocks;
  if constexpr (!kScaled) {
    for (std::size_t row = 0; row < args.panels * kPanelRows; ++row) {
      const bool real = row < args.rows;
      step.byte_step[row / kPanelRows][row % kPanelRows] = real ? args.byte_step[row] : 0.0f;
      step.byte_lowest[row / kPanelRows][row % kPanelRows] = real ? args.byte_lowest[row] : 0.0f;
    }
  }
  for (std::size_t first = 0; first < args.x.blocks; first += kStepBlocks) {
    step.first_block = first;
    step.blocks = args.x.blocks - first < kStepBlocks ? args.x.blocks - first : kStepBlocks;
    for (std::size_t panel = 0; panel < args.panels; ++panel) unpack(panel, step);
    if constexpr (kPairsOfTokens<V>)
      for (std::size_t i = 0; i < step.blocks * kBlock * kPanelRows; i += 2 * kVectorBytes)
        V::pair_fours(step.weights[0] + i);
    if constexpr (kTilesOfTokens<V>) {
      if (!kScaled)
        multiply_tiles<V, false, kScaled, false>(step, args);
      else if (fits_less_zero_points<V, kBits>(args))
        multiply_tiles<V, true, kScaled, false>(step, args);
      else
        multiply_tiles<V, false, kScaled, true>(step, args);
    } else if (kScaled && args.block_zeros != nullptr)  // NOLINT(bugprone-branch-clone): the same only where !kScaled
      multiply_panels<V, Product, kScaled, kScaled>(step, args);
    else
      multiply_panels<V, Product, kScaled, false>(step, args);
  }
}

// Asks for the codes of the next step while those of this one are unpacked: few tokens wait for memory, not for sums.
template <class V, int kBits, std::size_t kRows>
[[gnu::always_inline]] inline Ahead<V> ahead_of(const Int8MatmulArgs& args, std::size_t panels) {
  return Ahead<V>(args.codes, panels * args.units * args.unit_bytes, kStepInputs * kRows * kBits / 8);
}

// A panel's codes as bytes, R = 16: fields already lie as the products need them.
template <class V, int kBits, class Weights, class StepType>
[[gnu::always_inline]] inline void unpack_panel(const Weights& weights, const Int8MatmulArgs& args,
                                                const Ahead<V>& ahead, std::size_t panel, StepType& step) {
  constexpr std::size_t kUnitsPerBlock = StepType::kBlockLength / CodeLayout{kBits, kPanelRows}.unit_inputs();
  const std::uint8_t* codes = args.codes + (panel * args.units + step.first_block * kUnitsPerBlock) * args.unit_bytes;
  std::uint8_t* destination = step.weights[panel];
  for (std::size_t unit = 0; unit < step.blocks * kUnitsPerBlock; ++unit, codes += args.unit_bytes) {
    const Unit<V, kBits> loaded(codes, ahead);
    unroll<Unit<V, kBits>::kFields>([&](auto f) {
      V::store_bytes(destination, weights.bytes(loaded.template field<f.value>()));
      destination += kVectorBytes;
    });
  }
}

template <class V, int kBits>
[[gnu::always_inline]] inline typename V::template Entries<kBits> entries_of(const Int8MatmulArgs& args,
                                                                             std::size_t panel) {
  constexpr std::size_t kEntries = kBits <= 4 ? 16 : 64;
  return
      typename V::template Entries<kBits>(args.tables + (args.first_panel + panel) / args.panels_per_table * kEntries);
}

template <class V, int kBits>
void shared_palettes(const Int8MatmulArgs& args) {
  using Weights = typename V::template Entries<kBits>;
  const auto ahead = ahead_of<V, kBits, kPanelRows>(args, args.panels);
  for_each_step<V, typename V::template BlockProduct<typename Weights::Product, false>, false, kBits>(
      args, [&](std::size_t panel, Step<V>& step) {
        unpack_panel<V, kBits>(entries_of<V, kBits>(args, panel), args, ahead, panel, step);
      });
}

// 16 rows of their own, 64 inputs a field: a lane has four inputs of a row and should have them of all rows.
template <class V, int kBits>
void single_rows(const Int8MatmulArgs& args) {
  using Weights = typename V::template Entries<kBits>;
  constexpr std::size_t kInputs = CodeLayout{kBits, 1}.unit_inputs();
  const std::size_t rows = args.panels * kPanelRows;
  const auto ahead = ahead_of<V, kBits, 1>(args, rows < args.rows ? rows : args.rows);
  for_each_step<V, typename V::template BlockProduct<typename Weights::Product, false>, false, kBits>(
      args, [&](std::size_t panel, Step<V>& step) {
        const std::size_t first_unit = step.first_block * kBlockInputs / kInputs;
        std::uint8_t* destination = step.weights[panel];
        for (std::size_t unit = 0; unit < step.blocks * kBlockInputs / kInputs; ++unit) {
          unroll<Unit<V, kBits>::kFields>([&](auto f) {
            typename V::Bytes fours[kPanelRows];
            for (std::size_t r = 0; r < kPanelRows; ++r) {
              const std::size_t wanted = panel * kPanelRows + r, row = wanted < args.rows ? wanted : args.rows - 1;
              const Unit<V, kBits> loaded(args.codes + (row * args.units + first_unit + unit) * args.unit_bytes, ahead);
              fours[r] = entries_of<V, kBits>(args, row).bytes(loaded.template field<f.value>());
            }
            V::transpose(fours);
            for (std::size_t four = 0; four < kPanelRows; ++four, destination += kVectorBytes)
              V::store_bytes(destination, fours[four]);
          });
        }
      });
}

// Bytes with a scale, and maybe a zero point, for each row and kBlock inputs.
template <class V, int kBits, std::size_t kBlock, bool kBelow16, class Weights>
[[gnu::always_inline]] inline void scaled_blocks(const Int8MatmulArgs& args, const Weights& weights) {
  const auto ahead = ahead_of<V, kBits, kPanelRows>(args, args.panels);
  for_each_step<V, typename V::template BlockProduct<typename Weights::Product, kBelow16>, true, kBits, kBlock>(
      args, [&](std::size_t panel, Step<V, kBlock>& step) {
        unpack_panel<V, kBits>(weights, args, ahead, panel, step);
        const std::size_t from = (panel * args.x.blocks + step.first_block) * kPanelRows;
        for (std::size_t i = 0; i < step.blocks * kPanelRows; i += kPanelRows)
          V::store(step.scales[panel] + i, V::load_half(args.block_scales + from + i));
        for (std::size_t i = 0; args.block_zeros != nullptr && i < step.blocks * kPanelRows; ++i)
          step.zeros[panel][i] = args.block_zeros[from + i];
        if constexpr (kTilesOfTokens<V>)
          if (fits_less_zero_points<V, kBits>(args)) less_zero_points<V>(args, panel, step);
      });
}

template <class V, int kBits>
void blocks(const Int8MatmulArgs& args) {
  scaled_blocks<V, kBits, kBlockInputs, kBits <= 4>(args, typename V::template Codes<kBits>{});
}

template <class V, int kBits, std::size_t kBlock>
void block_palettes(const Int8MatmulArgs& args) {
  scaled_blocks<V, kBits, kBlock, false>(args, typename V::template Entries<kBits>(args.tables));
}

template <class V>
void windows(const Int8MatmulArgs& args) {
  constexpr int kWindowBits = 8;  // of the bytes
  const Int8MatmulWindows& w = *args.windows;
  for_each_step<V, typename V::template BlockProduct<typename V::AnyBytes, false>, false, kWindowBits>(
      args, [&](std::size_t panel, Step<V>& step) {
        const std::size_t vector = w.first + panel;
        w.unpack(w.layout, w.tables, w.codes + vector / 8 * w.panel_bytes, vector % 8, step.first_block, step.blocks,
                 step.weights[panel]);
      });
}

template <class V, int kBits>
constexpr int kLessOfEntries = V::template Entries<kBits>::Product::kLess;
template <class V, int kBits>
constexpr int kLessOfCodes = V::template Codes<kBits>::Product::kLess;

#define NIBBLE_WIDTH(bits, ...) \
  { shared_palettes<V, bits>, single_rows<V, bits>, blocks<V, bits>, __VA_ARGS__ }
#define NIBBLE_BLOCK_PALETTES(bits) block_palettes<V, bits, kBlockInputs>, block_palettes<V, bits, kBlockInputs / 2>
#define NIBBLE_LESS(bits)                                                                             \
  {                                                                                                   \
    kLessOfEntries<V, bits>, kLessOfEntries<V, bits>, kLessOfCodes<V, bits>, kLessOfEntries<V, bits>, \
        kLessOfEntries<V, bits>                                                                       \
  }
template <class V>
constexpr Int8MatmulTable table(const char* name = nullptr) {
  return {{NIBBLE_WIDTH(1, nullptr, nullptr),
           NIBBLE_WIDTH(2, NIBBLE_BLOCK_PALETTES(2)),
           NIBBLE_WIDTH(3, block_palettes<V, 3, kBlockInputs>, nullptr),
           NIBBLE_WIDTH(4, NIBBLE_BLOCK_PALETTES(4)),
           NIBBLE_WIDTH(6, nullptr, nullptr),
           {nullptr, nullptr, blocks<V, 8>, nullptr, nullptr}},
          windows<V>,
          {NIBBLE_LESS(1),
           NIBBLE_LESS(2),
           NIBBLE_LESS(3),
           NIBBLE_LESS(4),
           NIBBLE_LESS(6),
           {0, 0, kLessOfCodes<V, 8>, 0, 0}},
          static_cast<std::size_t>(V::kTilePanels),
          {static_cast<std::size_t>(V::kTileTokens), kTilesOfTokens<V>},
          name};
}
#undef NIBBLE_BLOCK_PALETTES
#undef NIBBLE_WIDTH
#undef NIBBLE_LESS

}  // namespace nibble::quant::int8_matmul
