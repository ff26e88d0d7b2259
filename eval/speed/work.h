#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "model/checkpoint/checkpoint.h"

namespace nibble::eval {

/// Bytes of stored weights, by what reads them. Lists the checkpoint's tensors once, when it is made: mixtures have ten
/// thousands.
class WeightBytes {
 public:
  /// `checkpoint` stays where it is.
  explicit WeightBytes(const model::Checkpoint& checkpoint);

  /// What one generated token has to read: all tensors of the network but positions, and but the embedding unless it
  /// serves as the head too (of both only one row is read), and of a mixture its active share.
  std::uint64_t per_token() const;
  /// The part of them that is the head's.
  std::uint64_t head() const;

 private:
  /// Of a module's weight, whatever parts a format stores it in.
  std::uint64_t of_module(const std::string& module) const;

  const model::Checkpoint& checkpoint_;
  std::map<std::string, std::uint64_t, std::less<>> bytes_;  // what the network reads, by its names in the architecture
};

}  // namespace nibble::eval
