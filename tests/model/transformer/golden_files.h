#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "model/transformer/transformer.h"

namespace nibble::test {

/// A safetensors file of expected values.
class GoldenTensors {
 public:
  explicit GoldenTensors(const std::filesystem::path& file);
  ~GoldenTensors();
  bool contains(const std::string& name) const;
  Matrix<float> matrix(const std::string& name) const;            ///< F32; a vector is one row
  std::vector<std::uint32_t> ids(const std::string& name) const;  ///< I32 or I64, flattened
  std::vector<double> doubles(const std::string& name) const;     ///< F64
  std::vector<std::string> names() const;

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/// A model with golden values: those of the repository's own demo models lie in tests/data and always run.
struct GoldenModel {
  const char* name;
  bool in_repository;
  bool large;  ///< Under ASan the others run, which go through the same code.

  std::filesystem::path model_directory() const;
  std::filesystem::path golden(const char* file) const;
  /// Why its tests cannot run, or nothing.
  std::optional<std::string> reason_to_skip() const;
};

std::ostream& operator<<(std::ostream& stream, const GoldenModel& model);
/// The name of a test instance.
inline std::string golden_test_name(const testing::TestParamInfo<GoldenModel>& instance) {
  std::string name = instance.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

inline constexpr GoldenModel kGoldenModels[] = {{"gpt2-demo", true, false},
                                                {"llama-demo", true, false},
                                                {"gpt2-novels", false, true},
                                                {"llama-novels", false, true},
                                                {"stories260k", false, false}};

/// Keeps the mapped checkpoint and the network over it together.
struct LoadedModel {
  std::shared_ptr<const model::Checkpoint> checkpoint;
  model::Architecture architecture;
  std::unique_ptr<model::Model> model;
};
LoadedModel load(const std::filesystem::path& directory);

}  // namespace nibble::test
