#include <gtest/gtest.h>

#include <ostream>

#include "model/checkpoint/tensor_checks.h"
#include "model/checkpoint/weights.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"

namespace nibble::model {
namespace {

// Sums over one matrix W (out, in), from the files by a few lines of Python without any tensor library.
struct Expected {
  const char* directory;
  std::size_t tensors;
  std::uint64_t bytes;
  const char* module;
  std::size_t out, in;
  bool conv1d;
  double squares;    ///< of w²
  double by_output;  ///< of w · row: tells rows from columns
  double by_input;   ///< of w · column
};

void PrintTo(const Expected& expected, std::ostream* stream) { *stream << expected.directory; }

class SharedModels : public testing::TestWithParam<Expected> {};

TEST_P(SharedModels, AreReadAsAPlainReaderReadsThem) {
  const Expected& expected = GetParam();
  NIBBLE_NEEDS_SHARED(expected.directory);
  const auto checkpoint = Checkpoint::open(test::shared_path(expected.directory));
  EXPECT_EQ(checkpoint->tensor_names().size(), expected.tensors);
  EXPECT_EQ(checkpoint->tensor_bytes(), expected.bytes);
  EXPECT_EQ(checkpoint->fingerprint(), Checkpoint::open(test::shared_path(expected.directory))->fingerprint());
  for (const std::string& name : checkpoint->tensor_names())
    EXPECT_EQ(first_non_finite(checkpoint->tensor(name)), std::nullopt) << name;

  Parameter parameter;
  parameter.module = parameter.weight_module = expected.module;
  parameter.out = expected.out, parameter.in = expected.in;
  parameter.weight = whole_matrix(std::string(expected.module) + ".weight", expected.out, expected.in, expected.conv1d);
  const auto source = make_float_provider(checkpoint)->matrix(parameter);
  std::vector<float> weight(expected.out * expected.in);
  source->decode_rows(0, expected.out, weight.data());
  double squares = 0.0, by_output = 0.0, by_input = 0.0;
  for (std::size_t r = 0; r < expected.out; ++r) {
    for (std::size_t c = 0; c < expected.in; ++c) {
      const double w = static_cast<double>(weight[r * expected.in + c]);
      squares += w * w;
      by_output += w * static_cast<double>(r);
      by_input += w * static_cast<double>(c);
    }
  }
  // Sums of up to 5e5 terms in another order: each rounding is below 1e-16 of a partial sum, which stays below 1e5.
  const test::Bound bound{.abs = 1e-6, .rel = 1e-11};
  EXPECT_TRUE(test::near(squares, expected.squares, bound));
  EXPECT_TRUE(test::near(by_output, expected.by_output, bound));
  EXPECT_TRUE(test::near(by_input, expected.by_input, bound));
}

INSTANTIATE_TEST_SUITE_P(
    , SharedModels,
    testing::Values(Expected{"models/gpt2-novels", 76, 27979776, "h.0.attn.c_attn", 1152, 384, true, 258.0729948397241,
                             270.4963835477829, 246.6100282073021},
                    Expected{"models/llama-novels", 57, 31467264, "model.layers.5.mlp.down_proj", 384, 1024, false,
                             532.8636192034423, -2928.3134958148003, -2332.0150184631348},
                    Expected{"models/stories260k", 47, 1040128, "model.layers.0.mlp.down_proj", 64, 172, false,
                             169.92886225358458, 95.78539570516887, -421.3877411613198},
                    Expected{"demo/gpt2-demo", 52, 2176512, "h.1.mlp.c_fc", 512, 128, true, 175.95289892101087,
                             -822.9487659335136, -7541.321353316307}),
    [](const auto& tested) {
      std::string name;
      for (const char c : std::string(tested.param.directory)) name += std::isalnum(c) != 0 ? c : '_';
      return name;
    });

}  // namespace
}  // namespace nibble::model
