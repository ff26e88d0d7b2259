#pragma once

#include <set>
#include <string>
#include <string_view>

#include "model/architecture/architecture.h"

namespace nibble::model {

/// Names of tensors as an architecture has them, whatever prefix a file put in front of them or left out.
class TensorNames {
 public:
  explicit TensorNames(const Architecture& architecture);
  /// The architecture's name for the tensor that a file calls `stored`; `stored` itself where it is none of its.
  std::string canonical(std::string_view stored) const;

 private:
  std::string prefix_;
  bool lack_prefix_;
  std::set<std::string, std::less<>> known_;
};

/// What the modules of transformers call a tensor of the architecture: with the prefix of the whole network, where the
/// names here lack it, but for a head of its own, which lies beside that network. Files that have both a head and names
/// without prefix are none that transformers before version 5 opens.
std::string full_name(const Architecture& architecture, const std::string& tensor);

}  // namespace nibble::model
