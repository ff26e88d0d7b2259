#pragma once

#include <memory>

#include "model/architecture/architecture.h"
#include "model/checkpoint/weights.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_names.h"
#include "model/gguf/gguf_source.h"

namespace nibble::model {

/// Where the weight of a parameter lies in a file.
struct GgufExtent {
  const GgufTensor* tensor = nullptr;
  GgufRows rows;  ///< with their count
};

/// A provider that also tells where things lie.
class GgufWeightProvider : public WeightProvider {
 public:
  /// Throws FormatError: absent, or of another shape than the architecture says.
  virtual GgufExtent extent(const Parameter& parameter) const = 0;
};

/// The tensors of a GGUF file as the parameters of `architecture`, found by role, block and expert: whatever names,
/// fusions and orders of rows the architecture gives them for a checkpoint of its family, what comes out is what that
/// checkpoint holds. So q and k that the converter moved are moved back, fused tensors are cut, stacked experts are
/// taken apart, and gains with 1 added lose it again (exactly, for stored gains from 0.5; below, rounded to float).
///
/// Throws FormatError where `general.architecture` is not known; asking for a tensor throws it where the tensor is
/// absent, of another shape, or of a type that is not decoded. contains() and vector() take names of `architecture`, as
/// for any checkpoint. A head that is tied has the embedding's weight. Const calls may run concurrently.
std::unique_ptr<GgufWeightProvider> make_gguf_provider(std::shared_ptr<const GgufFile> file,
                                                       const Architecture& architecture);

/// The tensor of `file` that holds `parameter` and how; empty if none does.
struct GgufPlace {
  const GgufTensor* tensor = nullptr;
  GgufCandidate candidate;
};
std::optional<GgufPlace> find_gguf_place(const GgufFile& file, const GgufArchitecture& architecture,
                                         const GgufParameter& parameter);

/// `general.architecture` of `file`, from the table. Throws FormatError where it is absent or unknown.
const GgufArchitecture& gguf_architecture_of(const GgufFile& file);

}  // namespace nibble::model
