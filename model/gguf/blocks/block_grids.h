#pragma once

#include <array>
#include <cstdint>

namespace nibble::model::decode {

// The codebooks of the IQ1, IQ2 and IQ3 types: constants of the format. An entry packs the codes of neighbouring
// weights, the first lowest.

// 8 codes of 2 bits: 0, 1, 2 mean 8, 25, 43.
extern const std::array<std::uint16_t, 256> kIq2XxsGrid;
extern const std::array<std::uint16_t, 512> kIq2XsGrid;
extern const std::array<std::uint16_t, 1024> kIq2SGrid;
// 4 codes of 4 bits: k means 4 + 8 k, the last (7) 62.
extern const std::array<std::uint16_t, 256> kIq3XxsGrid;
// 4 codes of 4 bits: k means 1 + 2 k.
extern const std::array<std::uint16_t, 512> kIq3SGrid;
// 8 codes of 2 bits: 0, 1, 2 mean -1, 0, 1.
extern const std::array<std::uint16_t, 2048> kIq1Grid;

}  // namespace nibble::model::decode
