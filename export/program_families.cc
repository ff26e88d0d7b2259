#include "export/program_families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "export/mlx_network.h"
#include "model/architecture/tensor_names.h"

namespace nibble::exporting {
namespace {

using model::Architecture;
using model::Parameter;
using model::Role;
using Head = KnownFamily::Head;

// Some implementations have an MLP of four times the width, whatever the configuration says.
std::string four_times_the_width(const Architecture& architecture) {
  for (const model::BlockSpec& block : architecture.blocks)
    if (block.intermediate() != 4 * architecture.hidden)
      return fmt::format("its implementation has MLPs of 4 times the width, {}, and this one's have {}",
                         4 * architecture.hidden, block.intermediate());
  return {};
}

std::string no_dense_block(const Architecture& architecture) {
  for (std::size_t i = 0; i < architecture.blocks.size(); ++i)
    if (!architecture.blocks[i].experts)
      return fmt::format("its implementation has experts in every block, and block {} has none", i);
  return {};
}

std::string dense_blocks_alone(const Architecture& architecture) {
  return architecture.has_experts() ? ""
                                    : "its implementation has experts behind the first blocks, and no block has any";
}

constexpr Rename kMlxGpt2[] = {{"transformer.", "model."}};
constexpr Rename kMlxGptj[] = {{"transformer.", "model."}};
constexpr Rename kMlxGptNeox[] = {
    {"gpt_neox.layers.", "model.h."}, {"gpt_neox.", "model."}, {"embed_out.", "model.embed_out."}};
constexpr std::string_view kMlxMlpExperts = "model.layers.{}.mlp.switch_mlp.";
constexpr std::string_view kMlxSparseExperts = "model.layers.{}.block_sparse_moe.switch_mlp.";

constexpr KnownFamily kMlxKnown[] = {
    {.family = "cohere", .head = Head::kTied},
    {.family = "cohere2", .head = Head::kTied},
    {.family = "dots1", .experts = "model.layers.{}.mlp.experts.", .objection = dense_blocks_alone},
    {.family = "ernie4_5"},
    {.family = "exaone4"},
    {.family = "gemma", .head = Head::kTied},
    {.family = "gemma2", .head = Head::kTied},
    {.family = "gemma3_text"},
    {.family = "glm4", .head = Head::kOwn},
    {.family = "glm4_moe", .head = Head::kOwn, .experts = kMlxMlpExperts, .objection = dense_blocks_alone},
    {.family = "gpt2", .head = Head::kTied, .renames = kMlxGpt2, .objection = four_times_the_width},
    {.family = "gpt_neox", .head = Head::kOwn, .renames = kMlxGptNeox, .objection = four_times_the_width},
    {.family = "gpt_oss", .head = Head::kOwn, .experts = "model.layers.{}.mlp.experts."},
    {.family = "gptj", .head = Head::kOwn, .renames = kMlxGptj, .objection = four_times_the_width},
    {.family = "granite"},
    {.family = "granitemoe", .experts = kMlxSparseExperts},
    {.family = "granitemoehybrid", .mlp = "model.layers.{}.mlp."},
    {.family = "helium"},
    {.family = "hunyuan_v1_dense"},
    {.family = "internlm3"},
    {.family = "iquestcoder"},
    {.family = "llama"},
    {.family = "minimax_m2", .experts = kMlxSparseExperts},
    {.family = "ministral"},
    {.family = "ministral3"},
    {.family = "mistral"},
    {.family = "mixtral", .experts = kMlxSparseExperts},
    {.family = "nemotron"},
    {.family = "olmo2"},
    {.family = "olmo3"},
    {.family = "olmoe", .experts = kMlxMlpExperts},
    {.family = "phi", .head = Head::kOwn},
    {.family = "phi3"},
    {.family = "qwen2"},
    {.family = "qwen2_moe", .head = Head::kOwn, .experts = kMlxMlpExperts, .objection = no_dense_block},
    {.family = "qwen3"},
    {.family = "qwen3_moe", .experts = kMlxMlpExperts},
    // A tied head is multiplied with what the embedding stores, codes or not.
    {.family = "seed_oss", .head = Head::kOwn},
    {.family = "smollm3"},
    {.family = "stablelm", .head = Head::kOwn},
    {.family = "starcoder2"},
};

constexpr std::string_view kNoImplementation = "it has no implementation of the family";
constexpr UnknownFamily kMlxUnknown[] = {
    {"arcee", kNoImplementation},
    {"bloom", kNoImplementation},
    {"cwm", kNoImplementation},
    {"ernie4_5_moe", "its implementation leaves the correction of routers out, and chooses other experts"},
    {"falcon", kNoImplementation},
    {"glm", "its implementation turns whole heads, and the family's models half of each"},
    {"gpt_neo", kNoImplementation},
    {"hyperclovax", kNoImplementation},
    {"olmo", "its implementation is for the original OLMo files and their package"},
    {"opt", kNoImplementation},
    {"vaultgemma", kNoImplementation},
};

constexpr std::string_view kStackedExperts =
    "transformers keeps the experts as stacks of floats, which are no linear layers to it";
constexpr KnownFamily kLinearLayers[] = {
    {.family = "arcee"},
    {.family = "bloom"},
    {.family = "cohere"},
    {.family = "cohere2"},
    {.family = "cwm"},
    {.family = "ernie4_5"},
    {.family = "exaone4"},
    {.family = "gemma"},
    {.family = "gemma2"},
    {.family = "gemma3_text"},
    {.family = "glm"},
    {.family = "glm4"},
    {.family = "gpt_neo"},
    {.family = "gpt_neox"},
    {.family = "gptj"},
    {.family = "granite"},
    {.family = "granitemoehybrid"},
    {.family = "helium"},
    {.family = "hunyuan_v1_dense"},
    {.family = "hyperclovax"},
    {.family = "internlm3"},
    {.family = "iquestcoder"},
    {.family = "llama"},
    {.family = "ministral"},
    {.family = "ministral3"},
    {.family = "mistral"},
    {.family = "nemotron"},
    {.family = "olmo"},
    {.family = "olmo2"},
    {.family = "olmo3"},
    {.family = "opt"},
    {.family = "phi"},
    {.family = "phi3"},
    {.family = "qwen2"},
    {.family = "qwen3"},
    {.family = "seed_oss"},
    {.family = "smollm3"},
    {.family = "stablelm"},
    {.family = "starcoder2"},
    {.family = "vaultgemma"},
};
constexpr std::string_view kWantsFloats = "transformers sets its o_proj up by a weight that a packed layer lacks";
constexpr UnknownFamily kNoLinearLayers[] = {
    {"dots1", kStackedExperts},
    {"ernie4_5_moe", kStackedExperts},
    {"falcon", "its projections are a Linear of their own, which looks for the weights that were packed"},
    {"gpt2", "its projections are Conv1D modules, and compressed-tensors quantizes only Linear ones"},
    {"glm4_moe", kStackedExperts},
    {"gpt_oss", kStackedExperts},
    {"granitemoe", kStackedExperts},
    {"mellum", kStackedExperts},
    {"minimax_m2", kStackedExperts},
    {"mixtral", kStackedExperts},
    {"nanochat", kWantsFloats},
    {"olmoe", kStackedExperts},
    {"qwen2_moe", kStackedExperts},
    {"qwen3_moe", kStackedExperts},
};

// Loaded and compared with gptqmodel or transformers: arcee, cohere, cohere2, cwm, ernie4_5, gemma, gemma2,
// gemma3_text, glm, glm4, gpt2, gpt_neo, gptj, granitemoehybrid, hunyuan_v1_dense, hyperclovax, internlm3, iquestcoder,
// llama, ministral, ministral3, mistral, olmo, opt, phi, phi3, qwen2, seed_oss, vaultgemma; as AWQ arcee, bloom,
// cohere2, cwm, ernie4_5, glm, gpt2, granitemoehybrid, hunyuan_v1_dense, hyperclovax, internlm3, iquestcoder, llama,
// ministral, ministral3, mistral, phi3, qwen2, seed_oss, vaultgemma; those with a note below in transformers. The
// others have the same linear layers and stand in its list of families, but nobody compared their logits yet.
constexpr KnownFamily kGptqKnown[] = {
    {.family = "arcee"},       {.family = "bloom"},
    {.family = "cohere"},      {.family = "cohere2"},
    {.family = "cwm"},         {.family = "ernie4_5"},
    {.family = "exaone4"},     {.family = "falcon"},
    {.family = "gemma"},       {.family = "gemma2"},
    {.family = "gemma3_text"}, {.family = "glm"},
    {.family = "glm4"},        {.family = "gpt2"},
    {.family = "gpt_neo"},     {.family = "gptj"},
    {.family = "granite"},     {.family = "granitemoehybrid"},
    {.family = "helium"},      {.family = "hunyuan_v1_dense"},
    {.family = "hyperclovax"}, {.family = "internlm3"},
    {.family = "iquestcoder"}, {.family = "llama"},
    {.family = "ministral"},   {.family = "ministral3"},
    {.family = "mistral"},     {.family = "nemotron"},
    {.family = "olmo"},        {.family = "olmo2"},
    {.family = "olmo3"},       {.family = "opt"},
    {.family = "phi"},         {.family = "phi3"},
    {.family = "qwen2"},       {.family = "qwen3"},
    {.family = "seed_oss"},    {.family = "smollm3"},
    {.family = "stablelm"},    {.family = "starcoder2"},
    {.family = "vaultgemma"},
};
constexpr UnknownFamily kGptqUnknown[] = {
    {"dots1", kStackedExperts},
    {"ernie4_5_moe", kStackedExperts},
    {"gpt_neox", "its weights are read as they are, but the logits there are not numbers"},
    {"glm4_moe", kStackedExperts},
    {"gpt_oss", kStackedExperts},
    {"granitemoe", kStackedExperts},
    {"mellum", kStackedExperts},
    {"minimax_m2", kStackedExperts},
    {"mixtral", kStackedExperts},
    {"nanochat", kWantsFloats},
    {"olmoe", kStackedExperts},
    {"qwen2_moe", kStackedExperts},
    {"qwen3_moe", kStackedExperts},
};

constexpr std::string_view kGateAndUpApart =
    "does not load this family (it looks for gate and up apart); transformers does";
constexpr std::string_view kNotInItsList = "does not load this family, which its list lacks; transformers does";
constexpr FamilyNote kHybridNote{"granitemoehybrid",
                                 "does not load this family (it looks for state-space layers); transformers does"};
constexpr FamilyNote kGptqNotes[] = {
    {"glm", kGateAndUpApart},
    {"glm4", kGateAndUpApart},
    kHybridNote,
};
constexpr FamilyNote kAwqNotes[] = {
    {"arcee", kNotInItsList},
    {"cwm", kNotInItsList},
    {"glm",
     "loads this family without gate and up and computes something else, and does not say so; load it with "
     "transformers"},
    kHybridNote,
    {"helium", kNotInItsList},
    {"hyperclovax", kNotInItsList},
    {"internlm3", kNotInItsList},
    {"iquestcoder", kNotInItsList},
    {"ministral", kNotInItsList},
    {"vaultgemma", kNotInItsList},
};

const KnownFamily* find_known(const ProgramFamilies& program, std::string_view family) {
  const auto found = std::find_if(program.known.begin(), program.known.end(),
                                  [&](const KnownFamily& known) { return known.family == family; });
  return found == program.known.end() ? nullptr : &*found;
}

std::string_view projection_of(Role role) {
  return role == Role::kGate ? "gate_proj" : role == Role::kUp ? "up_proj" : "down_proj";
}

}  // namespace

constinit const ProgramFamilies kMlxFamilies{"mlx-lm 0.32", kMlxKnown, kMlxUnknown, mlx_objection};
constinit const ProgramFamilies kCompressedTensorsFamilies{"compressed-tensors 0.20 with transformers 5.23",
                                                           kLinearLayers, kNoLinearLayers};
constinit const ProgramFamilies kGptqFamilies{"gptqmodel 7.7", kGptqKnown, kGptqUnknown, nullptr, kGptqNotes};
constinit const ProgramFamilies kAwqFamilies{"gptqmodel 7.7", kGptqKnown, kGptqUnknown, nullptr, kAwqNotes};

std::vector<std::string> family_notes(const ProgramFamilies& program, const Architecture& architecture) {
  std::vector<std::string> notes;
  for (const FamilyNote& of : program.notes)
    if (of.family == architecture.family) notes.push_back(fmt::format("{} {}", program.program, of.note));
  return notes;
}

std::string_view vllm_fused_name(model::Role role) {
  switch (role) {
    case model::Role::kQ:
    case model::Role::kK:
    case model::Role::kV:
      return "qkv_proj";
    case model::Role::kGate:
    case model::Role::kUp:
      return "gate_up_proj";
    default:
      return {};
  }
}

void require_known_family(const ProgramFamilies& program, const Architecture& architecture) {
  const std::string& family = architecture.family;
  const KnownFamily* known = find_known(program, family);
  if (known == nullptr) {
    const auto unknown = std::find_if(program.unknown.begin(), program.unknown.end(),
                                      [&](const UnknownFamily& u) { return u.family == family; });
    throw InvalidArgument(fmt::format("{} does not run models of family {}: {}", program.program, family,
                                      unknown == program.unknown.end() ? "nobody tried it there" : unknown->why));
  }
  const bool tied = architecture.head.tied;
  NIBBLE_REQUIRE(known->head == Head::kEither || tied == (known->head == Head::kTied), InvalidArgument,
                 "{} runs models of family {} only with a head {}, and this one's {}", program.program, family,
                 tied ? "of its own" : "tied to the embedding", tied ? "is tied" : "is its own");
  for (const auto objection : {known->objection, program.objection}) {
    const std::string why = objection == nullptr ? "" : objection(architecture);
    NIBBLE_REQUIRE(why.empty(), InvalidArgument, "{} does not run this model of family {}: {}", program.program, family,
                   why);
  }
}

std::string output_name(const ProgramFamilies& program, const Architecture& architecture, const std::string& tensor) {
  std::string name = model::full_name(architecture, tensor);
  const KnownFamily* known = find_known(program, architecture.family);
  if (known != nullptr)
    for (const Rename& rename : known->renames)
      if (name.starts_with(rename.from)) return std::string(rename.to) + name.substr(rename.from.size());
  return name;
}

bool is_expert_stack(const ProgramFamilies& program, const Architecture& architecture, const Parameter& parameter) {
  const KnownFamily* known = find_known(program, architecture.family);
  return known != nullptr && !known->experts.empty() && parameter.expert.has_value();
}

bool is_taken_apart(const ProgramFamilies& program, const Architecture& architecture, const Parameter& parameter) {
  const KnownFamily* known = find_known(program, architecture.family);
  const bool in_mlp = parameter.role == Role::kGate || parameter.role == Role::kUp || parameter.role == Role::kDown;
  return known != nullptr && !known->mlp.empty() && in_mlp && !parameter.expert.has_value();
}

std::string output_module(const ProgramFamilies& program, const Architecture& architecture,
                          const Parameter& parameter) {
  const KnownFamily* known = find_known(program, architecture.family);
  if (is_expert_stack(program, architecture, parameter))
    return fmt::format(fmt::runtime(known->experts), parameter.block) + std::string(projection_of(parameter.role));
  if (is_taken_apart(program, architecture, parameter))
    return fmt::format(fmt::runtime(known->mlp), parameter.block) + std::string(projection_of(parameter.role));
  std::string name = output_name(program, architecture, parameter.weight.tensor);
  constexpr std::string_view kWeight = ".weight";
  if (name.ends_with(kWeight)) name.resize(name.size() - kWeight.size());
  return name;
}

}  // namespace nibble::exporting
