#pragma once

#include <string>
#include <vector>

#include "model/architecture/architecture.h"

namespace nibble::model {

/// A norm over the residual stream (null: none stands there) and the matrices that read what it gives.
struct NormReaders {
  const NormSpec* norm = nullptr;
  std::vector<const Parameter*> readers;
};

/// Every place where the residual stream is read, in order of use; the head last.
std::vector<NormReaders> residual_readers(const Architecture& architecture);

/// Why the residual stream of this network cannot be rotated by changing its weights alone, block and setting named;
/// empty where it can. A norm after a sublayer, or over the embeddings, multiplies the stream itself by its gain,
/// channel by channel: that does not commute with a rotation.
std::string why_not_rotatable(const Architecture& architecture);

/// Whether some norm over the residual stream subtracts the mean: rotations must then keep the vector of ones.
bool subtracts_mean(const Architecture& architecture);

/// Whether a head of its own is needed where it was tied: the final norm's gain goes into it, and not into the
/// embedding.
bool must_untie(const Architecture& architecture);

}  // namespace nibble::model
