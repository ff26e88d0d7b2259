#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/architecture.h"

namespace nibble::exporting {

/// What a program calls names that begin with `from`.
struct Rename {
  std::string_view from, to;
};

/// A family that a program runs, and what it calls its tensors.
struct KnownFamily {
  enum class Head { kEither, kTied, kOwn };  ///< what heads its implementation has: tied to the embedding or not

  std::string_view family;
  Head head = Head::kEither;
  std::span<const Rename> renames = {};
  /// Where experts stand one stack for gate, up and down: a name with {} for the block. Empty: as in the family's
  /// files.
  std::string_view experts = {};
  /// Where gate, up and down of its MLPs stand each by itself, though the family's files join some: likewise.
  std::string_view mlp = {};
  /// What else its implementation takes for granted: why it does not run this network, empty where it does.
  std::string (*objection)(const model::Architecture& architecture) = nullptr;
};

/// A family that it does not run, and why.
struct UnknownFamily {
  std::string_view family, why;
};

/// What a user has to know of a family that it runs: an export says so.
struct FamilyNote {
  std::string_view family, note;
};

/// The families of one program, as data: loaded there and their logits compared, unless a comment beside them says
/// otherwise.
struct ProgramFamilies {
  std::string_view program;  ///< with the version that was tried: "mlx-lm 0.32"
  std::span<const KnownFamily> known;
  std::span<const UnknownFamily> unknown;
  /// What KnownFamily::objection says of one family, of all of them.
  std::string (*objection)(const model::Architecture& architecture) = nullptr;
  std::span<const FamilyNote> notes = {};
};

/// The key of GPTQ's configuration that says whether the head is quantized.
inline constexpr std::string_view kGptqHeadKey = "lm_head";

/// What vLLM calls the one matrix that it makes of a module of this role and its neighbours; empty where it makes none.
std::string_view vllm_fused_name(model::Role role);

extern const ProgramFamilies kMlxFamilies, kCompressedTensorsFamilies, kGptqFamilies, kAwqFamilies;

/// What there is to know of a family in `program`, with the program's name before it.
std::vector<std::string> family_notes(const ProgramFamilies& program, const model::Architecture& architecture);

/// Throws InvalidArgument for a family that `program` does not run, or not with these settings.
void require_known_family(const ProgramFamilies& program, const model::Architecture& architecture);

/// The name of a tensor of the family's files in the output: with the prefix of the whole network, and renamed.
std::string output_name(const ProgramFamilies& program, const model::Architecture& architecture,
                        const std::string& tensor);
/// The module of the output that holds a matrix: output_name() less ".weight", the stack of its expert's like, or its
/// own.
std::string output_module(const ProgramFamilies& program, const model::Architecture& architecture,
                          const model::Parameter& parameter);
/// Whether that module is a stack with one slice for each expert, made of the matrices of one role.
bool is_expert_stack(const ProgramFamilies& program, const model::Architecture& architecture,
                     const model::Parameter& parameter);
/// Whether that module holds this matrix alone, whatever the family's files join it with.
bool is_taken_apart(const ProgramFamilies& program, const model::Architecture& architecture,
                    const model::Parameter& parameter);

}  // namespace nibble::exporting
