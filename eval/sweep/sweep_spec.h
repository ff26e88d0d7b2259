#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calib/stats/run_settings.h"
#include "datasets/document_reader.h"
#include "datasets/eval_windows.h"
#include "eval/quality/perplexity.h"
#include "eval/sweep/record.h"
#include "model/transformer/cache/cache_options.h"
#include "quant/kernels/linear/compute.h"
#include "quant/recipe/recipe.h"

namespace nibble::eval {

struct SweepModel {
  std::string name;  ///< the directory's, unless given
  std::filesystem::path path;
};

/// Which windows of its text a calibration has.
struct CalibrationDraw {
  std::uint64_t samples = 0;  ///< how many; 0: 128, with tokens all
  std::uint64_t seed = 0;     ///< of what is sampled
};

/// What quantizers are calibrated on: as the options of `nibble calibrate`.
struct SweepCalibration {
  std::vector<std::filesystem::path> text;  ///< sampled; or
  std::filesystem::path tokens;             ///< consecutive windows of token ids
  std::string field{datasets::kDefaultField};
  std::vector<std::uint64_t> samples = {0}, seeds = {0};  ///< a cell for each of `samples` with each of `seeds`
  std::uint64_t length = 0;                               ///< 0: 512, or the model's context
  calib::FisherFlavour flavour = calib::FisherFlavour::kSequence;
  calib::Labels labels = calib::Labels::kData;
  std::optional<calib::Guide> guide = {};  ///< none: calib::default_guide()
  bool centre_own = false;
  bool bos = false;  ///< windows begin with the tokenizer's BOS
  /// Collected beside what a recipe needs, to measure errors with.
  calib::StatisticSet collect = {.activations = true, .fisher = true};

  std::size_t draws() const { return samples.size() * seeds.size(); }
  CalibrationDraw draw(std::size_t index) const { return {samples[index / seeds.size()], seeds[index % seeds.size()]}; }
};

/// How fast models of cells decode: as the options of `nibble speed`.
struct SweepSpeed {
  std::vector<std::size_t> contexts = {};  ///< positions of the cache; empty: what prompt and generate need
  std::optional<std::size_t> prompt = {};  ///< empty: 512, or what a context leaves
  std::size_t generate = 128;              ///< tokens after the first
  std::size_t warm_up = 1, repeat = 5;     ///< runs that do not count, and that do
  std::uint64_t seed = 0;                  ///< of the prompt's tokens
  model::CacheKind cache = model::CacheKind::kState;
  model::CacheType cache_type = model::CacheType::kF32;
  quant::Compute compute = quant::Compute::kExact;
};

/// What cells are measured on: as the options of `nibble perplexity`, or `speed` and none of them.
struct SweepEvaluation {
  std::string name;
  /// Files of one of the two kinds. Several: windows are cut from each alone, and averaged over together.
  std::vector<std::filesystem::path> text, tokens;
  std::string use;  ///< what the text is for: "calibration", "validation", "test", or empty
  bool hf_join = false;
  std::uint64_t max_tokens = 0;  ///< of each file; 0: all
  datasets::Protocol protocol = datasets::Protocol::kSliding;
  std::uint64_t context = 0;  ///< 0: the model's
  std::uint64_t stride = 0;   ///< 0: half the context (sliding)
  Average average = Average::kWindows;
  bool bos = false;         ///< windows begin with the tokenizer's BOS; those of `half` do anyway
  bool divergence = false;  ///< from the float model too
  std::optional<SweepSpeed> speed;
};

/// A recipe, a checkpoint that was quantized before, or neither: the float model.
struct SweepRecipe {
  std::string name;
  std::optional<quant::Recipe> recipe;
  std::filesystem::path checkpoint;  ///< "{model}" in it stands for the model's name
  bool is_named = false;             ///< the file gives it its name: no other stands for it where both say the same
};

/// One cell: places in the lists of SweepSpec, and which of SweepCalibration's draws.
struct SweepCell {
  std::size_t model = 0, recipe = 0, evaluation = 0, draw = 0;
};

/// A sweep as a file describes it (docs/sweep.md): models × recipes × evaluations, without what is excluded.
struct SweepSpec {
  std::filesystem::path file;  ///< where it was read from, absolute; empty: from no file that could be read again
  std::vector<SweepModel> models;
  std::optional<SweepCalibration> calibration;
  std::vector<SweepEvaluation> evaluations;
  std::vector<SweepRecipe> recipes;
  std::vector<SweepCell> cells;  ///< by model, recipe, evaluation
};

/// The most cells of one sweep.
constexpr std::size_t kMaxCells = 100'000;

}  // namespace nibble::eval
