#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"

// What files of families/ put architectures together from.
namespace nibble::model {

/// A linear layer with a tensor of its own: `module`.weight (out, in), `module`.bias (out).
Parameter linear(Role role, std::size_t block, const std::string& module, std::size_t out, std::size_t in,
                 bool biased = false);

/// A tensor of a file that holds several linear layers over the same input, one's rows among another's, or one of a
/// stack of such matrices.
struct Fused {
  std::string module;
  std::size_t rows = 0, in = 0;  ///< of all of them together
  bool biased = false;
  bool transposed = false;             ///< stored (in, rows)
  std::string weight = {}, bias = {};  ///< tensors, where they are not `module`.weight and `module`.bias
  std::size_t slices = 0, slice = 0;   ///< > 0: the tensors are stacks of so many matrices and biases
};
/// The layer of the rows `part`: module "MODULE.NAME", or "MODULE" where `name` is empty.
Parameter part_of(const Fused& fused, Role role, std::size_t block, const std::string& name, RowSet part);

/// `module`.weight, and `module`.bias where `with_bias`.
NormSpec norm(NormSpec::Kind kind, Role role, std::size_t block, const std::string& module, std::size_t width,
              double epsilon, bool with_bias = false, double gain_offset = 0.0);

/// The same without parameters.
NormSpec plain_norm(NormSpec::Kind kind, Role role, std::size_t block, std::size_t width, double epsilon);

/// q, k and v of a fused matrix whose rows go by key-value head: the queries of its group, its key, its value. Heads,
/// kv_heads and head_dim of `attention` are set already.
void set_grouped_qkv(AttentionSpec& attention, const Fused& fused, std::size_t block);

/// Slopes of ALiBi (Press et al. 2022): 2^(-8 i / n) for i = 1 … n of the largest power of two n <= heads, then every
/// other one of 2 n heads.
std::vector<double> alibi_slopes(std::size_t heads);

/// A mixture over `count` experts that `expert` makes; marks their parameters as theirs. The router has no bias.
ExpertsSpec mixture(std::size_t block, const std::string& router, std::size_t hidden, std::size_t count,
                    std::size_t active, const std::function<MlpSpec(std::size_t expert)>& expert);
/// `mlp` as the one beside a mixture that every token goes through; marks its parameters.
MlpSpec shared_expert(MlpSpec mlp);

/// Fills in what follows from how the blocks are put together: which linear layers share an input, which norm feeds
/// them, which write to the residual stream. Every family's parser is followed by it.
void connect(Architecture& architecture);

/// Embedding `module`.weight, and a head: tied to it, or `head_tensors`.weight; its bias is `head_tensors`.bias.
void set_embedding_and_head(Architecture& architecture, const std::string& module, bool tied, bool head_biased = false,
                            const std::string& head_tensors = "lm_head");

}  // namespace nibble::model
