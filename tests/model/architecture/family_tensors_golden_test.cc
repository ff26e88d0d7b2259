#include <gtest/gtest.h>

#include <map>
#include <set>

#include "model/architecture/tensor_names.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/tensor_text.h"
#include "tests/support/golden_families.h"

// The files are what the transformers library wrote: an architecture must speak of every tensor in them and of no
// other.

namespace nibble::test {
namespace {

using Shapes = std::map<std::string, std::string>;

model::Architecture architecture_of(const std::string& family) {
  return model::Checkpoint::open(golden_family(family))->architecture();
}

Shapes shapes_told(const model::Architecture& architecture) {
  Shapes shapes;
  for (const model::FileTensor& tensor : model::file_tensors(architecture))
    shapes[model::full_name(architecture, tensor.name)] = model::shape_text(tensor.shape);
  return shapes;
}

Shapes shapes_stored(const std::string& family) {
  const auto checkpoint = model::Checkpoint::open(golden_family(family));
  Shapes shapes;
  for (const std::string& name : checkpoint->tensor_names())
    shapes[name] = model::shape_text(checkpoint->tensor(name).shape);
  return shapes;
}

class FamilyTensors : public testing::TestWithParam<const char*> {};

TEST_P(FamilyTensors, AreThoseOfTheFile) {
  NIBBLE_NEEDS_FAMILY(GetParam());
  EXPECT_EQ(shapes_told(architecture_of(GetParam())), shapes_stored(GetParam()));
}

// Every row of every fused tensor belongs to exactly one layer.
TEST_P(FamilyTensors, ArePartedWithoutGapsAndOverlaps) {
  NIBBLE_NEEDS_FAMILY(GetParam());
  const model::Architecture architecture = architecture_of(GetParam());
  std::map<std::pair<std::string, std::size_t>, std::vector<int>> rows;
  const auto count = [&](const model::Stored& stored) {
    std::vector<int>& seen = rows[{stored.tensor, stored.slice}];
    seen.resize(stored.rows);
    for (std::size_t i = 0; i < stored.part.count; ++i) ++seen.at(stored.part.row(i));
  };
  for (const model::Parameter* p : model::matrices(architecture)) {
    count(p->weight);
    if (p->biased) count(p->bias);
  }
  for (const auto& [tensor, seen] : rows)
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1)) << tensor.first << ' ' << tensor.second;
}

TEST_P(FamilyTensors, HaveNamesOfTheirOwnAsModules) {
  NIBBLE_NEEDS_FAMILY(GetParam());
  const model::Architecture architecture = architecture_of(GetParam());
  std::set<std::string> modules;
  for (const model::Parameter* p : model::matrices(architecture)) {
    EXPECT_TRUE(modules.insert(p->module).second) << p->module;
    EXPECT_EQ(p->weight.part.count, p->out) << p->module;
    EXPECT_EQ(p->weight.cols, p->in) << p->module;
    EXPECT_EQ(p->bias.part.count, p->out) << p->module;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyTensors, testing::ValuesIn(kGoldenFamilies), family_test_name);

}  // namespace
}  // namespace nibble::test
