#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/recipe/settings.h"

namespace nibble::quant {

/// The recipe's `budget` section: bits per tensor chosen so that all linears together stay under a mean.
struct Budget {
  double bits_per_weight = 0.0;  ///< 0 = not said yet
  std::vector<unsigned> bits{2, 3, 4, 6};
  std::vector<Granularity> granularity{Granularity::kTensor, Granularity::kChannel};
  std::vector<unsigned> window_bits;  ///< 0: codes that do not overlap; empty: as the recipe says
  LossEstimate estimate = LossEstimate::kAuto;
  std::uint64_t probe_windows = 0;  ///< of the job's text, on which estimates are corrected: budget_probe.h; 0 = none
};

/// What tuning minimises: see tuning.h.
enum class TuningLoss : std::uint8_t { kKl, kNextToken };

/// The recipe's `tuning` section: palettes, scales, biases and, if asked for, codes trained end to end.
struct Tuning {
  std::uint64_t epochs = 4;  ///< 0 = none
  double learning_rate = 0.001;
  std::uint64_t batch_windows = 4;
  TuningLoss loss = TuningLoss::kKl;
  double code_travel = 1.0;  ///< with `codes`: how far one can come in all, 1 from a code to the next
  bool palettes = true, scales = true, biases = true, codes = false;
  std::uint64_t windows = 0;   ///< the text's first, which tuning has beside `held_out`; 0: all of them
  std::uint64_t held_out = 0;  ///< windows at the text's end that tell when to stop; 0: every eighth of `windows`
};

/// What decides the result of a quantization (docs/recipe.md): `defaults` for all tensors, `layers`, a list of rules of
/// which the first that matches a tensor's name overrides the defaults (nothing of them, if it is a pattern alone), and
/// optional sections `budget` and `tuning`. YAML, so JSON too.
///
/// A key that is unknown is an error which suggests the nearest one. A key given together with others that leave it
/// without meaning is an error which says why, unless it asks for its default; a default that loses its meaning under a
/// rule (`scaling` where the rule says `format: float16`, `group_size` where it says another format or granularity) is
/// dropped there.
///
/// Rules match with PCRE2, anywhere in the name (search, not full match; use ^ and $ for more), under match limits.
/// Names are the checkpoint's own with `.weight`; GPT-2's c_attn is `h.0.attn.c_attn.q.weight`, `.k.`, `.v.`.
///
/// Threads: const calls may run concurrently. Throws InvalidArgument naming section, key, value and what is expected.
class Recipe {
 public:
  /// The default of `nibble quantize`: preset "palette", which needs no calibration.
  Recipe();
  ~Recipe();
  Recipe(const Recipe&);
  Recipe& operator=(const Recipe&);
  Recipe(Recipe&&) noexcept;
  Recipe& operator=(Recipe&&) noexcept;

  /// `what` names the source in messages. Anchors, aliases, tags and several documents are refused.
  static Recipe parse(std::string_view yaml, std::string_view what);
  /// Throws FormatError when the file cannot be read or is larger than 256 KiB.
  static Recipe load(const std::filesystem::path& file);

  /// Those of preset_names(). "palette" (4-bit k-means, one palette per tensor), "int4-block", "nf4" and its like and
  /// the ones named after a format of `nibble export` need no calibration; "gptq-4bit", "whole-tensor" (the published
  /// method step for step), "squeezellm", "gptq", and "scalar-one-shot", "windowed-one-shot" and "best-one-shot" do;
  /// "scalar", "windowed", "best", their "-mixed" and their "-tuned", and all that end in "-solved" take text as well.
  static Recipe preset(std::string_view name);
  static std::span<const std::string_view> preset_names();
  /// The preset's YAML, with comments, as parse() takes it.
  static std::string_view preset_text(std::string_view name);

  /// Sets a key of `defaults` ("bits", "3"), as `--set bits=3` does; a rule that names the key keeps its own value.
  /// Also keys of other sections ("tuning.epochs", "budget.bits" with "2,3,4"), which come to be where there are none.
  /// Whether the keys make sense together is checked by validate() after the last one.
  void apply_set(std::string_view key, std::string_view value);
  /// The same from "key=value".
  void apply_set(std::string_view assignment);

  /// What apply_set() takes beside the keys of `defaults`: "budget.bits_per_weight", "tuning.epochs", ….
  static std::span<const std::string_view> section_keys();
  /// Whether such a key takes a list, given as "a,b".
  static bool takes_list(std::string_view key);

  /// Checks every combination of `defaults` and rules. parse() has called it.
  void validate() const;

  /// What applies to a tensor. `name` with ".weight".
  TensorSettings settings(std::string_view name) const;
  /// The first rule that matches, if any: norms, biases, positions and embeddings stay float unless a rule names them.
  std::optional<std::size_t> matching_rule(std::string_view name) const;
  /// Whether that rule gives `key` a value of its own.
  bool rule_names(std::string_view name, std::string_view key) const;
  /// The patterns of the rules, in order.
  std::vector<std::string> rules() const;
  const std::optional<Budget>& budget() const;
  /// Empty without, and with 0 epochs.
  std::optional<Tuning> tuning() const;

  /// YAML of the whole recipe with every default that means something filled in: parses to an equal recipe, and equal
  /// recipes give equal text.
  std::string canonical_text() const;
  /// The same as JSON, as it is stored in config.json.
  nlohmann::ordered_json canonical_json() const;

 private:
  struct State;
  explicit Recipe(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace nibble::quant
