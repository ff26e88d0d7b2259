#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "export/coreml/blob_writer.h"
#include "export/coreml/rounding.h"
#include "export/coreml/weight_constant.h"

namespace nibble::coreml {

/// The constants of a package that lie in weight.bin: each once, however many functions use it.
class ConstantPool {
 public:
  /// The constant of that key, made on first use.
  const Constant& get(const std::string& key, const std::function<Constant()>& make);
  /// float16 values, rounded; equal ones of the same label are one blob. Throws NumericalError for values beyond
  /// float16's range.
  const Constant& halves(const std::vector<std::uint64_t>& shape, std::span<const float> values,
                         const std::string& label);

  BlobPlan& blobs() { return plan_; }
  /// What writing rounds; complete when the file is written.
  const std::shared_ptr<Rounding>& rounding() const { return rounding_; }

 private:
  BlobPlan plan_;
  std::map<std::string, Constant> constants_;
  std::shared_ptr<Rounding> rounding_ = std::make_shared<Rounding>();
};

}  // namespace nibble::coreml
