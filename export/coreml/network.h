#pragma once

#include <cstddef>

#include "export/coreml/constant_pool.h"
#include "export/coreml/layers.h"
#include "model/architecture/architecture.h"

namespace nibble::coreml {

/// The Neural Engine takes no axis of so many elements or more. Under its layout a head is multiplied in parts below
/// that; layers of the blocks are not cut.
inline constexpr std::size_t kAneAxis = 16384;

struct NetworkForm {
  Layout layout = Layout::kGpu;
  std::size_t positions = 0;  ///< that a text may have: tables of positions, and on the GPU the caches, have so many
  std::size_t tokens = 0;     ///< Neural Engine: of a call
  std::size_t past = 0;       ///< Neural Engine: positions that a call sees before its own
};

/// A function of the program, and how it is described.
struct Network {
  Function function;
  Interface interface;
};

/// Throws InvalidArgument naming block and setting for networks that no operations are written for here: mixtures of
/// experts, attention sinks, blocks whose caches differ (GPU).
void require_supported(const model::Architecture& architecture, Layout layout);

/// The largest number of positions that makes sense: those learned, or those that the model was made for; fewer where
/// frequencies would change with the length of a text.
std::size_t position_limit(const model::Architecture& architecture);

/// The function that gives the logits (1, tokens, vocabulary) of new tokens. Its constants go to `pool`, which other
/// functions may share. Throws InvalidArgument as require_supported(), FormatError for weights that are missing.
Network build_network(const model::Architecture& architecture, const NetworkWeights& weights, const NetworkForm& form,
                      ConstantPool& pool);

}  // namespace nibble::coreml
