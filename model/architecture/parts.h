#pragma once

#include <string>

#include "model/architecture/architecture.h"

// What files of families/ put architectures together from.
namespace nibble::model {

/// A linear layer with a tensor of its own: `module`.weight (out, in), `module`.bias (out).
Parameter linear(Role role, std::size_t block, const std::string& module, std::size_t out, std::size_t in,
                 bool biased = false);

/// A tensor of a file that holds several linear layers over the same input, one's rows among another's.
struct Fused {
  std::string module;
  std::size_t rows = 0, in = 0;  ///< of all of them together
  bool biased = false;
  bool transposed = false;  ///< stored (in, rows)
};
/// The layer of the rows `part`: module "MODULE.NAME".
Parameter part_of(const Fused& fused, Role role, std::size_t block, const std::string& name, RowSet part);

/// `module`.weight, and `module`.bias where `with_bias`.
NormSpec norm(NormSpec::Kind kind, Role role, std::size_t block, const std::string& module, std::size_t width,
              double epsilon, bool with_bias = false, double gain_offset = 0.0);

/// Fills in what follows from how the blocks are put together: which linear layers share an input, which norm feeds
/// them, which write to the residual stream. Every family's parser is followed by it.
void connect(Architecture& architecture);

/// Embedding `module`.weight, and a head: tied to it, or `head_module`.weight.
void set_embedding_and_head(Architecture& architecture, const std::string& module, bool tied,
                            const std::string& head_module = "lm_head", bool head_biased = false);

}  // namespace nibble::model
