#include "model/gguf/gguf_network.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "model/gguf/gguf_rotary.h"

namespace nibble::model {
namespace {

// Families that llama.cpp has no code for. Of others that the table lacks nobody tried what it has.
constexpr std::string_view kNoCode[] = {"gpt_neo", "gptj", "opt"};

[[noreturn]] void refuse(const GgufArchitecture& names, std::string_view what) {
  throw InvalidArgument(fmt::format("GGUF: llama.cpp's '{}' does not compute {}", names.name, what));
}

bool has_window(const GgufArchitecture& names, std::size_t block) {
  return names.window_every != 0 && block % names.window_every + 1 != names.window_every;
}

// What of its code no key decides.
void require_windows(const Architecture& architecture, const GgufArchitecture& names) {
  if (names.window_every == 0) return;
  const bool any = std::any_of(architecture.blocks.begin(), architecture.blocks.end(),
                               [](const BlockSpec& block) { return block.attention.window != 0; });
  constexpr std::size_t kWindowedExaone = 64;  // blocks of the one published model with windows, which it knows it by
  if (names.name == "exaone4" && any != (architecture.blocks.size() == kWindowedExaone))
    refuse(names, fmt::format("windows in {} blocks: it has them in {} alone, and always", architecture.blocks.size(),
                              kWindowedExaone));
  const bool always = names.name == "gemma2" || names.name == "gpt-oss" || names.name == "cohere2";
  if (always && !any) refuse(names, "attention without a window in every block");
  for (std::size_t i = 0; any && i < architecture.blocks.size(); ++i)
    if ((architecture.blocks[i].attention.window != 0) != has_window(names, i))
      refuse(names, fmt::format("block {} {} a window of attention: of every {} blocks it is the last that has none", i,
                                architecture.blocks[i].attention.window != 0 ? "with" : "without", names.window_every));
}

void require_norms(const Architecture& architecture, const GgufArchitecture& names) {
  constexpr std::size_t kNormedCohere = 64;  // blocks of Command R+, which alone of its kind has norms of q and k
  const bool normed = architecture.blocks.front().attention.q_norm.has_value();
  if (names.name == "command-r" && normed != (architecture.blocks.size() >= kNormedCohere))
    refuse(names,
           fmt::format("{} norms of q and k in {} blocks: from {} on it has them, and below it has none",
                       normed ? "a network with" : "a network without", architecture.blocks.size(), kNormedCohere));
  for (const BlockSpec& block : architecture.blocks)
    if (names.name == "olmoe" && block.attention.k_norm && block.attention.k_norm->width != architecture.hidden)
      refuse(names, fmt::format("a norm over {} keys: it expects {}, as many as the width",
                                block.attention.k_norm->width, architecture.hidden));
}

void require_mixtures(const Architecture& architecture, const GgufArchitecture& names) {
  if (names.experts_demanded && !architecture.has_experts()) refuse(names, "a network without experts");
}

void require_heads(const Architecture& architecture, const GgufArchitecture& names) {
  const AttentionSpec& first = architecture.blocks.front().attention;
  if (names.name == "dots1" && first.kv_heads != first.heads)
    refuse(names, fmt::format("{} key-value heads beside {}: it expects as many", first.kv_heads, first.heads));
  if (!names.heads_fill_width) return;
  for (const BlockSpec& block : architecture.blocks)
    if (block.attention.q_width() != architecture.hidden)
      refuse(names, fmt::format("{} heads of {} beside a width of {}: it takes their product for the width",
                                block.attention.heads, block.attention.head_dim, architecture.hidden));
}

void require_ramp(const Architecture& architecture, const GgufArchitecture& names) {
  const RotarySpec* const rotary = gguf_rotary(architecture);
  if (rotary == nullptr || rotary->scaling.kind != RotaryScaling::Kind::kYarn) return;
  const RotaryScaling& scaling = rotary->scaling;
  const RotaryScaling usual;
  if (scaling.beta_fast != usual.beta_fast || scaling.beta_slow != usual.beta_slow)
    refuse(names, fmt::format("YaRN with beta_fast {} and beta_slow {}: it takes {} and {}, whatever a file says",
                              scaling.beta_fast, scaling.beta_slow, usual.beta_fast, usual.beta_slow));
}

/// "llama, granite": those that load so many lists of factors, of the ones that files are written for.
std::string architectures_with(std::size_t lists) {
  std::vector<std::string_view> list;
  for (const GgufArchitecture& row : gguf_architectures())
    if (gguf_takes_factors(row, lists) && find_gguf_architecture_of_family(row.model_type) == &row)
      list.push_back(row.name);
  return fmt::format("{}", fmt::join(list, ", "));
}

void require_factors(const Architecture& architecture, const GgufArchitecture& names) {
  const std::size_t lists = gguf_factor_lists(architecture);
  if (gguf_takes_factors(names, lists)) return;
  refuse(names, fmt::format("{} ('rope_type' llama3 or longrope); it does in {}",
                            lists == 1 ? "a factor for each rotary frequency"
                                       : "rotary factors that differ between short and long texts",
                            architectures_with(lists)));
}

}  // namespace

std::size_t gguf_context(const Architecture& architecture, const GgufArchitecture& names) {
  std::size_t context = architecture.max_positions;
  for (const BlockSpec& block : architecture.blocks) {
    const AttentionSpec& attention = block.attention;
    if (names.window_every == 0 && attention.window != 0) context = std::min(context, attention.window);
    if (attention.rotary && attention.rotary->scaling.kind == RotaryScaling::Kind::kDynamic)
      context = std::min(context, attention.rotary->scaling.original_context);
  }
  return context;
}

const GgufArchitecture& gguf_architecture_for(const Architecture& architecture) {
  const GgufArchitecture* const names = find_gguf_architecture_of_family(architecture.family);
  const bool no_code = std::ranges::find(kNoCode, architecture.family) != std::end(kNoCode);
  NIBBLE_REQUIRE(names != nullptr, InvalidArgument, "GGUF: {} model_type '{}'",
                 no_code ? "llama.cpp has no code for" : "files are not written of", architecture.family);
  require_factors(architecture, *names);
  require_windows(architecture, *names);
  require_norms(architecture, *names);
  require_mixtures(architecture, *names);
  require_heads(architecture, *names);
  require_ramp(architecture, *names);
  if (names->head == GgufArchitecture::Head::kTied && !architecture.head.tied)
    refuse(*names, "a head of its own: it takes the embedding");
  return *names;
}

std::vector<std::string> gguf_notes(const Architecture& architecture, const GgufArchitecture& names) {
  std::vector<std::string> notes;
  if (const std::size_t context = gguf_context(architecture, names); context != architecture.max_positions)
    notes.push_back(
        fmt::format("context_length is {}, not {}: so far llama.cpp's '{}', which has no window and no frequencies "
                    "that depend on the "
                    "length, computes what the network does",
                    context, architecture.max_positions, names.name));
  const RotarySpec* const rotary = gguf_rotary(architecture);
  if (rotary != nullptr && rotary->scaling.kind == RotaryScaling::Kind::kYarn && !rotary->scaling.truncate)
    notes.push_back(
        "llama.cpp rounds the bounds of YaRN's ramp and the network does not: their logits differ a little");
  if (rotary != nullptr && rotary->scaling.has_two_sets() &&
      architecture.max_positions > rotary->scaling.original_context)
    notes.push_back(
        fmt::format("llama.cpp turns by the long factors wherever its context (-c) is above {} positions, the network "
                    "where the text is: with -c {} short texts are the network's",
                    rotary->scaling.original_context, rotary->scaling.original_context));
  return notes;
}

}  // namespace nibble::model
