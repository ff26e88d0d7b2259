#pragma once

// Private to calib/stats: the names in a calibration file, shared by its writer and its reader.

#include <array>
#include <cstdint>
#include <string_view>

namespace nibble::calib::schema {

inline constexpr std::string_view kFormat = "nibble.calib";
// 2: the parts of fused tensors are layers of their own.
inline constexpr std::uint64_t kVersion = 2;
inline constexpr const char* kLayers = "layers";

struct DatasetText {
  const char* name;
  std::string_view meaning;
  std::string_view unit;
};

inline constexpr DatasetText kTokens = {"tokens", "rows of X, the layer's input, that were summed", "tokens"};
inline constexpr DatasetText kSamples = {"samples", "windows of text that were summed", "windows"};
inline constexpr DatasetText kSumX = {"sum_x", "(in) sum over tokens of x; the mean input is sum_x / tokens",
                                      "activation"};
inline constexpr DatasetText kSumX2 = {"sum_x2", "(in) sum over tokens of x^2", "activation^2"};
inline constexpr DatasetText kSumAbsX = {"sum_abs_x", "(in) sum over tokens of |x|", "activation"};
inline constexpr DatasetText kMinX = {"min_x", "(in) smallest x of all tokens", "activation"};
inline constexpr DatasetText kMaxX = {"max_x", "(in) largest x of all tokens", "activation"};
inline constexpr DatasetText kFisherSequence = {
    "fisher", "(out, in) sum over windows of the squared gradient of the window's mean next-token loss",
    "(nats per token / weight)^2"};
inline constexpr DatasetText kFisherPosition = {
    "fisher", "(out, in) sum over positions of dY^2 x^2, dY the gradient of the window's summed next-token loss",
    "(nats / weight)^2"};
inline constexpr DatasetText kSumXxt = {
    "sum_xxt", "(in, in) sum over tokens of x x^T; shared with layers of the same input", "activation^2"};
inline constexpr DatasetText kSumS = {
    "sum_s",
    "sum over tokens of s = mean over outputs of dY^2, in the metric of `guide`, dY the gradient of the loss that "
    "`flavour` names",
    "(loss / output)^2"};
inline constexpr DatasetText kSumS2 = {
    "sum_s2", "sum over tokens of s^2; sum_s^2 / sum_s2 tokens of equal weight would tell as much",
    "(loss / output)^4"};
inline constexpr DatasetText kSumSX = {"sum_s_x", "(in) sum over tokens of s x", "(loss / output)^2 activation"};
inline constexpr DatasetText kSumSXxt = {"sum_s_xxt", "(in, in) sum over tokens of s x x^T",
                                         "(loss / output)^2 activation^2"};

inline constexpr DatasetText kSumDydyt = {
    "sum_dydyt",
    "(out, out) sum over tokens of r dY dY^T, r = 1 or the size of x in the metric of `guide`, dY the gradient of the "
    "loss that `flavour` names",
    "(loss / output)^2"};

}  // namespace nibble::calib::schema
