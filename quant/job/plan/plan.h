#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weights.h"
#include "quant/job/plan/scaled_source.h"
#include "quant/recipe/recipe.h"

namespace nibble::quant {

struct InputMap;

/// Where a weight stands in reports: its module name, its place in the order of the checkpoint, and whether it is one
/// of the blocks' linear layers, which bits_per_weight is about.
struct WeightIdentity {
  std::string name;  ///< of the layer; a fused tensor that stays whole goes by its own
  std::size_t order = 0;
  bool block_linear = false;
};

/// A weight that is read as a matrix (out, in) and stored in another form.
struct QuantizeItem {
  WeightIdentity identity;
  std::shared_ptr<const WeightSource> source;
  TensorSettings settings;
  model::Parameter layer;
  /// What storing it takes outside of it, beyond what the float model stored: a bias that its layer had not, or that is
  /// wider than it was; a norm before it that became float32.
  std::uint64_t added_bits = 0;
  bool rare_expert = false;       ///< its settings are without statistics (rare_experts.h)
  InputScales input_scales = {};  ///< that `source` is multiplied with already, or null (input_scaling.h)
  /// (out): by how much the mean outputs of the float model are above those of `source` on the mean of the inputs that
  /// the layer gets behind quantized ones, for a bias that is shifted to make up for; empty where nothing has drifted.
  std::vector<double> output_drift = {};
  /// By which guided Hessians of the float model's inputs are carried to those it gets behind quantized layers, or
  /// null.
  std::shared_ptr<const InputMap> input_map = {};
  std::uint64_t weights() const { return static_cast<std::uint64_t>(source->rows()) * source->cols(); }
};

/// A tensor that keeps its name, shape and orientation: as it is, or rounded to float16. One that is stored as narrow
/// floats is decoded, to bfloat16 where it is not rounded to float16; one that its checkpoint encodes, to float16.
struct CopyItem {
  model::TensorView tensor;  ///< of a narrow one, without data, what comes out
  /// Not empty for a narrow or encoded one: its matrices (out, in), slice by slice.
  std::vector<std::shared_ptr<const WeightSource>> decoded = {};
  bool transposed = false;  ///< which are stored (in, out)
  std::string name = {};    ///< in the output: the architecture's
  bool round_to_f16 = false;
  InputScales divisor = {};  ///< null, or what the values of a norm are divided by; then stored as float32
  double offset = 0.0;       ///< what the norm adds to the stored values before it multiplies by them
  std::optional<WeightIdentity> reported = {};  ///< a weight for which the recipe says float16
};

/// The bias of a layer that is shifted: what it was, or 0, plus what each of its weights adds (WeightParts). A bias
/// that was float32 or float16 stays that; bfloat16, too coarse for the sum, becomes float32; a new one is float16.
struct BiasItem {
  std::string name;  ///< full name in the output
  std::vector<std::uint64_t> shape;
  std::size_t size = 0;  ///< values
  DType dtype = DType::kF16;
  std::optional<model::TensorView> original;
  std::vector<std::size_t> weights;  ///< those of Plan::items that add to it
};

/// What a recipe means for a checkpoint, tensor by tensor.
struct Plan {
  std::vector<QuantizeItem> items;
  std::vector<BiasItem> biases;
  std::vector<CopyItem> copies;
  std::vector<std::string> unused_rules;  ///< patterns that apply to no tensor
  std::uint64_t parameters = 0;
};

/// Linear layers of the blocks follow the recipe; embeddings, positions and an untied head do where a rule names them;
/// so do routers and gates of shared experts; of the others, those that a rule gives `format: float16` are rounded and
/// the rest is copied, also where a rule asks for codes. Mask buffers, the scales of narrow floats and of activations,
/// and the unused head of a model whose head is its embedding, are left out.
/// Throws FormatError (missing tensors, wrong shapes), InvalidArgument (settings that this version cannot carry out).
Plan make_plan(const std::shared_ptr<const model::Checkpoint>& checkpoint, const model::Architecture& architecture,
               const Recipe& recipe);

}  // namespace nibble::quant
