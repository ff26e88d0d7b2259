#include "model/architecture/parameter.h"

#include <array>

#include "core/text/choice.h"

namespace nibble::model {
namespace {

constexpr std::array<Choice<Role>, 22> kRoles = {{
    {"embedding", Role::kEmbedding},
    {"positions", Role::kPositions},
    {"embedding_norm", Role::kEmbeddingNorm},
    {"attention_norm", Role::kAttentionNorm},
    {"attention_post_norm", Role::kAttentionPostNorm},
    {"mlp_norm", Role::kMlpNorm},
    {"mlp_post_norm", Role::kMlpPostNorm},
    {"q_norm", Role::kQNorm},
    {"k_norm", Role::kKNorm},
    {"q", Role::kQ},
    {"k", Role::kK},
    {"v", Role::kV},
    {"o", Role::kO},
    {"sinks", Role::kSinks},
    {"router", Role::kRouter},
    {"router_correction", Role::kRouterCorrection},
    {"gate", Role::kGate},
    {"up", Role::kUp},
    {"down", Role::kDown},
    {"shared_expert_gate", Role::kSharedExpertGate},
    {"final_norm", Role::kFinalNorm},
    {"head", Role::kHead},
}};

}  // namespace

std::string_view role_name(Role role) { return name_of(role, kRoles); }

bool is_quantizable(Role role) {
  switch (role) {
    case Role::kQ:
    case Role::kK:
    case Role::kV:
    case Role::kO:
    case Role::kGate:
    case Role::kUp:
    case Role::kDown:
      return true;
    default:
      return false;
  }
}

std::vector<std::uint64_t> Stored::shape() const {
  std::vector<std::uint64_t> shape;
  if (slices > 0) shape.push_back(slices);
  if (is_vector()) {
    shape.push_back(rows);
  } else {
    shape.push_back(transposed ? cols : rows);
    shape.push_back(transposed ? rows : cols);
  }
  return shape;
}

Stored whole_matrix(std::string tensor, std::size_t rows, std::size_t cols, bool transposed) {
  return {.tensor = std::move(tensor),
          .rows = rows,
          .cols = cols,
          .transposed = transposed,
          .slices = 0,
          .slice = 0,
          .part = RowSet::contiguous(0, rows)};
}

Stored whole_vector(std::string tensor, std::size_t size) {
  return {.tensor = std::move(tensor),
          .rows = size,
          .cols = 0,
          .transposed = false,
          .slices = 0,
          .slice = 0,
          .part = RowSet::contiguous(0, size)};
}

}  // namespace nibble::model
