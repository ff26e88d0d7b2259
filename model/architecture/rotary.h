#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nibble::model {

/// How the frequencies of a rotary embedding are changed to reach further than a model was first trained for.
struct RotaryScaling {
  enum class Kind {
    kNone,
    kLinear,    ///< all frequencies / factor
    kDynamic,   ///< "NTK": a base that grows once a sequence is longer than original_context
    kLlama3,    ///< long wavelengths / factor, short ones kept, a blend between
    kYarn,      ///< a ramp between both by rotations over original_context; scores scaled (Peng et al. 2023)
    kLongRope,  ///< a factor per frequency, one set for short and one for long sequences; scores scaled
  };
  Kind kind = Kind::kNone;
  double factor = 1.0;
  double low_frequency_factor = 1.0, high_frequency_factor = 4.0;  // llama3
  std::size_t original_context = 0;
  double beta_fast = 32.0, beta_slow = 1.0;         // yarn
  bool truncate = true;                             // yarn: bounds of the ramp are whole numbers
  std::vector<double> short_factors, long_factors;  // longrope, dims / 2 each
  double magnitude = 1.0;  ///< sines and cosines are multiplied by it (yarn's and longrope's attention factor)
  bool operator==(const RotaryScaling&) const = default;

  /// Whether frequencies change once, where a text grows beyond the original context.
  bool has_two_sets() const { return kind == Kind::kLongRope && short_factors != long_factors; }
};

/// Rotary position embedding: pair i of the first `dims` elements of every head turns by position · frequency[i].
struct RotarySpec {
  std::size_t dims = 0;      ///< even, at most head_dim; the elements behind stay
  bool interleaved = false;  ///< pairs are (2i, 2i + 1); otherwise (i, i + dims/2)
  bool backwards = false;    ///< by minus the angle
  double base = 10000.0;
  RotaryScaling scaling;
  bool operator==(const RotarySpec&) const = default;
};

/// Angles per position, in radians, of the dims / 2 pairs, for a sequence that reaches `length` positions (which
/// matters for kDynamic and kLongRope alone): base^(-2i / dims), scaled as said, below 0 where they turn backwards.
std::vector<double> rotary_frequencies(const RotarySpec& spec, std::size_t length);

/// Whether a sequence of `length` has the frequencies of one of `other`.
bool same_frequencies(const RotarySpec& spec, std::size_t length, std::size_t other);

}  // namespace nibble::model
