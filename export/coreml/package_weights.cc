#include "export/coreml/package_weights.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "export/coreml/constant_source.h"
#include "export/coreml/graph.h"
#include "export/coreml/names.h"
#include "export/coreml/package.h"
#include "export/coreml/verify.h"

namespace nibble::coreml {
namespace {

using model::Stored;

/// Rows of several constants below each other, or those of a whole one that the parts must repeat.
class JoinedRows final : public WeightSource {
 public:
  JoinedRows(std::string name, std::shared_ptr<const Package> package, std::unique_ptr<WeightSource> whole,
             std::vector<std::unique_ptr<WeightSource>> parts)
      : name_(std::move(name)), package_(std::move(package)), whole_(std::move(whole)), parts_(std::move(parts)) {
    const WeightSource& first = whole_ ? *whole_ : *parts_.front();
    cols_ = first.cols();
    std::size_t count = 0;
    for (const auto& part : parts_) {
      count += part->rows();
      NIBBLE_REQUIRE(part->cols() == cols_, FormatError, "{}: parts of different widths", name_);
    }
    rows_ = whole_ ? whole_->rows() : count;
    NIBBLE_REQUIRE(parts_.empty() || rows_ == count, FormatError, "{}: {} rows, and {} in its parts", name_, rows_,
                   count);
  }
  std::size_t rows() const override { return rows_; }
  std::size_t cols() const override { return cols_; }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    if (!whole_) return decode_parts(begin, end, destination);
    whole_->decode_rows(begin, end, destination);
    if (parts_.empty()) return;
    std::vector<float> again((end - begin) * cols_);
    decode_parts(begin, end, again.data());
    NIBBLE_REQUIRE(std::equal(again.begin(), again.end(), destination), FormatError,
                   "{}: rows {} to {} of the parts are not those of the whole", name_, begin, end);
  }
  void release() const override {
    if (whole_) whole_->release();
    for (const auto& part : parts_) part->release();
  }

 private:
  void decode_parts(std::size_t begin, std::size_t end, float* destination) const {
    std::size_t first = 0;
    for (const auto& part : parts_) {
      const std::size_t low = std::max(begin, first), high = std::min(end, first + part->rows());
      if (low < high) part->decode_rows(low - first, high - first, destination + (low - begin) * cols_);
      first += part->rows();
    }
  }

  std::string name_;
  std::shared_ptr<const Package> package_;
  std::unique_ptr<WeightSource> whole_;
  std::vector<std::unique_ptr<WeightSource>> parts_;
  std::size_t rows_ = 0, cols_ = 0;
};

class PackageWeights final : public model::WeightProvider {
 public:
  PackageWeights(const std::filesystem::path& directory, const model::Architecture& architecture)
      : package_(std::make_shared<const Package>(read_package(directory))) {
    verify_package(*package_);
    for (const auto& [name, function] : package_->model.functions)
      for (const Operation& operation : function.operations) add_constant(operation);
    for (const model::NormSpec* norm : model::norms(architecture))
      for (std::size_t g = 0; g < norm->group_gains.size(); ++g)
        group_gains_.push_back({norm->group_gains[g], gain_name(*norm), g});
  }

  bool contains(const std::string& tensor) const override { return has(tensor) || has(vector_rows_name(tensor, 0)); }

  std::vector<float> vector(const Stored& stored) const override {
    for (const GroupGain& gain : group_gains_)
      if (gain.stored == stored) {
        const std::vector<float> all = values(gain.name);
        const std::size_t width = stored.part.count;
        NIBBLE_REQUIRE((gain.group + 1) * width <= all.size(), FormatError, "{}: {} values, and group {} of {} wanted",
                       gain.name, all.size(), gain.group, width);
        const auto first = all.begin() + static_cast<std::ptrdiff_t>(gain.group * width);
        return {first, first + static_cast<std::ptrdiff_t>(width)};
      }
    const std::string name = vector_name(stored);
    if (!has(vector_rows_name(name, 0))) return values(name);
    std::vector<float> all;  // a head whose rows are in parts has its bias in parts
    while (has(vector_rows_name(name, all.size()))) {
      const std::vector<float> more = values(vector_rows_name(name, all.size()));
      NIBBLE_REQUIRE(!more.empty(), FormatError, "{}: a part without values", name);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

  std::shared_ptr<const WeightSource> matrix(const model::Parameter& parameter) const override {
    const std::string name = matrix_name(parameter);
    std::unique_ptr<WeightSource> whole;
    std::vector<std::unique_ptr<WeightSource>> parts;
    if (const auto found = constants_.find(identifier(name)); found != constants_.end())
      whole = make_constant_source(*found->second, package_->weights);
    for (std::size_t row = 0;;) {
      const auto found = constants_.find(identifier(rows_name(parameter, row)));
      if (found == constants_.end()) break;
      parts.push_back(make_constant_source(*found->second, package_->weights));
      row += parts.back()->rows();
    }
    NIBBLE_REQUIRE(whole || !parts.empty(), FormatError, "the package has no constant for {}", name);
    return std::make_shared<JoinedRows>(name, package_, std::move(whole), std::move(parts));
  }

  std::unique_ptr<LinearOp<float>> linear(const model::Parameter& parameter) const override {
    throw InvalidArgument(
        fmt::format("{}: a package's weights are for comparing, not for multiplying", parameter.module));
  }

 private:
  struct GroupGain {
    Stored stored;
    std::string name;
    std::size_t group;
  };

  bool has(const std::string& constant) const { return constants_.contains(identifier(constant)); }

  void add_constant(const Operation& operation) {
    const bool constant = operation.type == "const" || operation.type.starts_with("constexpr_");
    if (!constant || operation.outputs.front().type.tensor.type != DataType::kFloat16) return;
    const std::string& name = operation.outputs.front().name;
    const auto [found, added] = constants_.emplace(name, &operation);
    const Operation& other = *found->second;
    const bool same = added || (other.type == operation.type && other.inputs == operation.inputs &&
                                other.attributes == operation.attributes);
    NIBBLE_REQUIRE(same || operation.outputs.front().type.tensor.shape.size() != 2, FormatError,
                   "constant '{}' is not the same in all functions", name);
  }

  std::vector<float> values(const std::string& name) const {
    const auto found = constants_.find(identifier(name));
    NIBBLE_REQUIRE(found != constants_.end() && found->second->type == "const", FormatError,
                   "the package has no constant for {}", name);
    return constant_values(found->second->attributes.at("val"), package_->weights);
  }

  std::shared_ptr<const Package> package_;
  std::map<std::string, const Operation*> constants_;
  std::vector<GroupGain> group_gains_;
};

}  // namespace

std::unique_ptr<model::WeightProvider> open_package_weights(const std::filesystem::path& directory,
                                                            const model::Architecture& architecture) {
  return std::make_unique<PackageWeights>(directory, architecture);
}

}  // namespace nibble::coreml
