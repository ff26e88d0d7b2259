#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/matrix/dtype.h"
#include "export/storage.h"
#include "model/architecture/architecture.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weights.h"
#include "quant/store/model_weights.h"

namespace nibble::exporting {

/// A matrix of the network as an exporter meets it.
struct ExportPart {
  const model::Parameter* parameter = nullptr;
  std::shared_ptr<const WeightSource> values;                 ///< (out, in), decoded row by row
  std::shared_ptr<const quant::MappedQuantizedWeight> coded;  ///< null for floats; `values` decodes it
  Storage storage;
  DType dtype = DType::kF32;  ///< of floats: the type that holds every value as it is (F32, F16 or BF16)
};

/// A tensor as a float checkpoint of the family has it, and what lies in it: matrices (several where the family fuses
/// or stacks them) or vectors.
struct ExportTensor {
  std::string name;                      ///< the architecture's
  std::vector<std::uint64_t> shape;      ///< in the family's file
  std::vector<const ExportPart*> parts;  ///< of ExportModel::parts()
  std::vector<model::Stored> vectors;    ///< of norms, biases, sinks: pieces of one tensor; empty for matrices
  bool wide = false;   ///< float32, whatever the others are: a router's correction, which tells close scores apart
  bool zeros = false;  ///< a bias that neither checkpoint nor configuration has, but that a kind of layer now needs
};

/// The type of a tensor's values in a file of `dtype`.
inline DType dtype_in(const ExportTensor& tensor, DType dtype) { return tensor.wide ? DType::kF32 : dtype; }

/// An open checkpoint, float or quantized, in the terms of its architecture: what every exporter reads.
/// Threads: const calls may run concurrently.
class ExportModel {
 public:
  /// Throws FormatError.
  explicit ExportModel(const std::filesystem::path& path);
  /// Floats of another making: what `weights` gives for `architecture`, which it must not outlive; `checkpoint` is
  /// where they come from.
  ExportModel(std::shared_ptr<const model::Checkpoint> checkpoint, const model::Architecture& architecture,
              std::unique_ptr<model::WeightProvider> weights);

  const std::shared_ptr<const model::Checkpoint>& checkpoint() const { return checkpoint_; }
  const model::Architecture& architecture() const { return *architecture_; }
  const model::WeightProvider& weights() const { return *weights_; }
  const std::vector<ExportTensor>& tensors() const { return tensors_; }  ///< in name order
  /// The matrices, each alone, in the order of use (model::matrices()).
  const std::vector<ExportPart>& parts() const { return parts_; }
  /// Keys of config.json that say which layers have biases, as they are to be now that shifting may have added some.
  const std::map<std::string, bool>& bias_flags() const { return bias_flags_; }

  /// The values of `tensor`, which has vectors: all of it, in the file's order.
  std::vector<float> vector_values(const ExportTensor& tensor) const;

 private:
  void add_tensors();
  void add_matrices();
  void add_vectors();
  void add_missing_biases();

  std::shared_ptr<const model::Checkpoint> checkpoint_;
  const model::Architecture* architecture_;
  std::unique_ptr<model::WeightProvider> weights_;
  std::vector<ExportPart> parts_;
  std::vector<ExportTensor> tensors_;
  std::map<std::string, bool> bias_flags_;
};

/// Whether the configuration, or a key of its family (bias_flags), announces a bias of `layer`: programs that read the
/// float checkpoint do not look for another.
bool announces_bias(const model::Architecture& architecture, const model::Parameter& layer);
/// Linear layers with a bias (as a rule one that shifting gave them) that is not announced.
std::vector<const model::Parameter*> unannounced_biases(const ExportModel& model);

/// Where row `row` of slice `slice` of `tensor`, which has parts, comes from: `part` null for rows that nobody owns.
struct RowOrigin {
  const ExportPart* part = nullptr;
  std::size_t row = 0;
};
/// For each row (out) of the tensor, of slice `slice` where it is a stack.
std::vector<RowOrigin> row_origins(const ExportTensor& tensor, std::size_t slice = 0);

}  // namespace nibble::exporting
