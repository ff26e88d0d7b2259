#include <gtest/gtest.h>

#include "calib/collect/collector.h"
#include "eval/quality/perplexity.h"
#include "model/checkpoint/weights.h"
#include "quant/job/quantize_model.h"
#include "quant/store/load_model.h"
#include "tests/export/export_support.h"
#include "tests/support/compare.h"
#include "tests/support/fake_family.h"
#include "tests/support/files.h"

// A family that no folder of the library knows goes the whole way: calibrate, quantize, perplexity, export and back.

namespace nibble::test {
namespace {

constexpr std::size_t kWindow = 24, kWindows = 12;

struct Quilt {
  Quilt() {
    register_quilt();
    write_random_checkpoint(dir / "model", quilt_config(), 3);
    for (std::size_t i = 0; i < kWindow * kWindows; ++i)
      tokens.push_back(static_cast<TokenId>((i * 37 + i * i * 11) % 320));
  }
  double perplexity(const std::filesystem::path& model, const quant::LoadOptions& options = {}) const {
    const quant::LoadedModel loaded = quant::load_model(model, options);
    return eval::perplexity(*loaded.transformer, tokens, {.protocol = datasets::Protocol::kBlocks, .context = kWindow})
        .perplexity;
  }
  TempDir dir;
  std::vector<TokenId> tokens;
};

TEST(AFamilyOfACaller, GoesTheWholeWay) {
  const Quilt quilt;
  const auto checkpoint = model::Checkpoint::open(quilt.dir / "model");
  const auto network = model::make_model(checkpoint->architecture(), *model::make_float_provider(checkpoint));
  calib::calibrate({.model = *network,
                    .tokens = quilt.tokens,
                    .settings = {.model_hash = checkpoint->fingerprint(),
                                 .window_tokens = kWindow,
                                 .seeds = {1},
                                 .collected = {.activations = true,
                                               .fisher = true,
                                               .hessian = true,
                                               .guided_hessian = true,
                                               .output_hessian = true}},
                    .output = quilt.dir / "calib.h5"});
  for (const char* preset : {"whole-tensor", "scalar-one-shot", "int4-block", "gptq"}) {
    SCOPED_TRACE(preset);
    const quant::QuantizeResult result = quant::quantize_model({.model = quilt.dir / "model",
                                                                .output = quilt.dir / "q",
                                                                .recipe = quant::Recipe::preset(preset),
                                                                .calibration = {quilt.dir / "calib.h5"},
                                                                .overwrite = true,
                                                                .progress = {}});
    EXPECT_EQ(result.tensors.size(), 3u * 7u) << "q, k, v, o, gate, up and down of three blocks";
    const double reference = quilt.perplexity(quilt.dir / "q");
    EXPECT_TRUE(near(quilt.perplexity(quilt.dir / "q", {.packed = true}), reference, {.rel = 1e-5}));
    test::export_dequantized(quilt.dir / "q", quilt.dir / "f", true);
    // Rounded to float16, 2^-11 per weight.
    EXPECT_TRUE(near(quilt.perplexity(quilt.dir / "f"), reference, {.rel = 0.02}));
    const auto exported = model::Checkpoint::open(quilt.dir / "f");  // biases that shifting added aside
    for (const std::string& name : checkpoint->tensor_names())
      EXPECT_EQ(exported->tensor(name).shape, checkpoint->tensor(name).shape) << name;
  }
}

}  // namespace
}  // namespace nibble::test
