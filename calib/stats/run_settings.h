#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calib/stats/statistic_set.h"

namespace nibble::calib {

/// What is squared and summed into `fisher`. G = dYᵀ X is the gradient of a window's loss L with respect to W.
enum class FisherFlavour {
  kSequence,  ///< sum over windows of G∘G, L the window's *mean* next-token loss (SqueezeLLM, whole-tensor method)
  kPosition,  ///< sum over positions of (dY∘dY)ᵀ (X∘X), L the window's *summed* loss
};

/// Which next tokens the loss is taken against.
enum class Labels {
  kData,     ///< those of the text: the empirical Fisher
  kSampled,  ///< drawn from the model's own distribution with the run's seed: the true Fisher
};

/// What tokens weigh in the guided Hessian Σ s x xᵀ and in the output Hessian Σ r g gᵀ, g (out) the gradient of the
/// loss at the layer's output.
enum class Guide {
  kPlain,  ///< s = |g|² / out (GuidedQuant, arXiv:2505.07004), r = 1
  /// s = |g|², r = |x - mean|² in the metric of what the run's first windows give (calib/collect/token_metric.h);
  /// layers of the blocks: the head's s is plain.
  kWhitened,
};

std::string_view to_text(FisherFlavour flavour);            ///< "sequence", "position"
FisherFlavour parse_fisher_flavour(std::string_view text);  ///< throws InvalidArgument with the nearest name
std::string_view to_text(Labels labels);                    ///< "data", "sampled"
Labels parse_labels(std::string_view text);                 ///< throws InvalidArgument with the nearest name
std::string_view to_text(Guide guide);                      ///< "plain", "whitened"
Guide parse_guide(std::string_view text);                   ///< throws InvalidArgument with the nearest name

/// The guide of a run that names none: whitened where it concerns what is collected, plain where nothing is guided.
Guide default_guide(const StatisticSet& collected);

/// What to say to who repeats or extends a run of a plain guide without naming it, the default of earlier versions: "",
/// or "; --guide plain goes on with it" where `before` is plain and `now` is not.
std::string_view hint_of_plain_guide(Guide before, Guide now);

/// How windows are taken of text or of token ids; with kBehindBos after it, each begins with the tokenizer's BOS.
inline constexpr std::string_view kRandomSlices = "random slices", kConsecutiveWindows = "consecutive windows",
                                  kBehindBos = " behind the BOS";

inline constexpr const char* kCentreNone = "none";
inline constexpr const char* kCentreOwn = "own means";  ///< the mean inputs of the run's own windows

/// Everything that decides the contents of a calibration file: its root attributes. Two runs of one program with equal
/// settings give the same bytes on the same machine.
struct RunSettings {
  std::string model_hash = {};      ///< Checkpoint::fingerprint()
  std::string tokenizer_hash = {};  ///< Tokenizer::fingerprint(), or "none" when the windows came as token ids
  std::string text_hash = {};       ///< of the texts or token files read
  std::string windows_hash = {};    ///< of the token windows themselves
  std::string sampling = {};        ///< how the windows were taken: one of the names above
  std::uint64_t windows = 0;
  std::uint64_t window_tokens = 0;
  std::vector<std::uint64_t> seeds = {};  ///< one per merged run
  FisherFlavour flavour = FisherFlavour::kSequence;
  Labels labels = Labels::kData;
  std::string centre = kCentreNone;  ///< or kCentreOwn, or the hash of the means that gradients were centred with
  Guide guide = Guide::kPlain;       ///< of guided and output Hessians; without these, plain
  bool head = false;                 ///< whether the head is among the layers
  StatisticSet collected = {};
  std::string kernels = {};  ///< matrix library, version, instruction set
  /// program_identity() of what made the file, of several joined by kBesideProgram; empty where that is not said, as in
  /// files of earlier versions. Files of other programs are none of other settings: describe() leaves it out.
  std::string program = {};
};

inline constexpr std::string_view kBesideProgram = " + ";

/// Whether windows begin with the tokenizer's BOS.
inline bool is_behind_bos(const RunSettings& settings) { return settings.sampling.ends_with(kBehindBos); }

/// The settings as (name, value) texts, in the order of the file's root attributes.
std::vector<std::pair<std::string, std::string>> describe(const RunSettings& settings);

/// "name: 'a' against 'b'" for every setting that differs, joined by "; "; empty when nothing does.
std::string differences(const RunSettings& a, const RunSettings& b);
/// The same, leaving out what may differ between parts of one piece of work: text, windows, seeds and kernels.
std::string differences_for_merging(const RunSettings& a, const RunSettings& b);

}  // namespace nibble::calib
