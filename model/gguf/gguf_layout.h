#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/gguf/gguf_names.h"

namespace nibble::model {

/// All rows of a parameter (out, in), as they follow in a tensor of a file.
struct GgufLayoutMatrix {
  const Parameter* parameter = nullptr;
  std::size_t interleaved_heads = 0;  ///< > 0: so many heads, each in the order of gguf_source.h
};

/// Values of a norm, a bias or sinks.
struct GgufLayoutVector {
  Stored stored;
  std::size_t interleaved_heads = 0;
  double plus = 0.0;  ///< added to each
  bool bias = false;  ///< zeros stand for it where the network has none
};

/// A tensor of a file and what stands in it, one after the other: matrices, or vectors, or numbers of the network's.
struct GgufLayoutTensor {
  std::string name;
  std::vector<std::uint64_t> shape;  ///< row-major
  std::vector<GgufLayoutMatrix> matrices = {};
  std::vector<GgufLayoutVector> vectors = {};
  std::vector<float> values = {};
  bool wide = false;  ///< matrices that llama.cpp's converter leaves in F32 whatever the others are: routers
};

/// Where the converter of llama.cpp puts what the network has: every tensor that a file of it holds, in the order of
/// use. `has_bias` says for which matrices a bias is to be there; one tensor's are there together, or none is. Pointers
/// into `architecture`.
std::vector<GgufLayoutTensor> gguf_layout(const Architecture& architecture, const GgufArchitecture& names,
                                          const std::function<bool(const Parameter&)>& has_bias);

/// The tensor that `parameter`'s weight stands in.
std::string gguf_weight_name(const GgufArchitecture& names, const Parameter& parameter);

}  // namespace nibble::model
