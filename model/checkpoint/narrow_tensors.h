#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/matrix/linear_op.h"
#include "model/architecture/parameter.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/narrow_config.h"

namespace nibble::model {

/// A matrix, or a stack of them, stored as narrow floats with scales beside them: value = code · scale. Or encoded by
/// its checkpoint (EncodedTensor), which then decodes it.
///
/// MXFP4  stands in for a tensor T (out, in) that is not there:
///          T_blocks (slices, out, in / 32, 16) U8   32 codes E2M1 of a row, the lower half of a byte first
///          T_scales (slices, out, in / 32) U8       2^(s - 127); 255 is NaN
///        Always rows of outputs, also where the architecture stores T as (in, out); without a stack no `slices`.
/// FP8    T itself is F8_E4M3 or F8_E5M2, in the shape that T has; T_scale_inv or T_scale (both are multiplied by) is
///          one number                                 for all of it; for a stack (slices), one each
///          (rows) or (rows, 1)                        one for each stored row
///          (ceil(rows / a), ceil(columns / b))        one for each block (a, b): NarrowConfig::scale_block
///        of F32, F16, BF16 or F8_E8M0, for a stack with `slices` in front.
/// Source  OCP MX 1.0 and OFP8 1.0; the configurations of compressed-tensors and of checkpoints published so.
struct NarrowTensor {
  enum class Kind { kMxfp4, kFp8, kEncoded };
  Kind kind = Kind::kFp8;
  std::string tensor;        ///< T as the checkpoint names it, there or not
  TensorView codes, scales;  ///< not of an encoded one
  const EncodedTensor* encoded = nullptr;

  std::uint64_t weights() const;  ///< values that it stands for
  std::uint64_t bytes() const;
  double bits_per_weight() const;
  std::string storage() const;  ///< for people: "mxfp4", "fp8 e4m3", "Q4_K"
};

/// What part of such a tensor a stored tensor is.
struct NarrowPart {
  enum class Kind { kCodes, kScales, kActivationScale };  ///< the last scales inputs or caches: nothing here reads it
  Kind kind = Kind::kCodes;
  std::string tensor;  ///< NarrowTensor::tensor
};

/// Bytes that the stored tensor takes in its files, encoded or not.
std::uint64_t stored_bytes(const Checkpoint& checkpoint, const std::string& stored);

/// The narrow tensors of one checkpoint. Refers to it: it must live longer. Threads: const calls may run concurrently.
class NarrowTensors {
 public:
  /// Throws FormatError as parse_narrow_config().
  explicit NarrowTensors(const Checkpoint& checkpoint);

  /// The tensor that the architecture, or the checkpoint, calls `tensor`, if it is stored so. Throws FormatError where
  /// its scales are missing. Shapes are looked at by source().
  std::optional<NarrowTensor> find(const std::string& tensor) const;
  /// Empty for a stored tensor that is what it says.
  std::optional<NarrowPart> part_of(const std::string& stored) const;
  /// Where all of `narrow` lies, by its own shape: rows and columns as they are stored, or as the rows of MXFP4 are.
  /// Throws FormatError for a shape that no matrix has.
  Stored place_of(const NarrowTensor& narrow) const;
  /// The whole matrix `place` (its `part` is not looked at), decoded row by row. `owner` is the checkpoint, kept alive.
  /// Throws FormatError: dtypes or shapes that are not those above, with what was expected.
  std::shared_ptr<const WeightSource> source(std::shared_ptr<const Checkpoint> owner, const NarrowTensor& narrow,
                                             const Stored& place) const;

 private:
  const Checkpoint& checkpoint_;
  bool own_ = false;  // 8-bit floats in them are what those who wrote them know, not weights
  NarrowConfig config_;
};

}  // namespace nibble::model
