#include "calib/collect/boundary_walk.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "tests/calib/collect/toy_calibration.h"
#include "tests/model/transformer/refusing_model.h"
#include "tests/support/compare.h"
#include "tests/support/layers.h"
#include "tests/support/throws.h"

namespace nibble::calib {
namespace {

constexpr StatisticSet kInputs{.activations = true, .hessian = true};

// A model that remembers where the passes through its blocks ended.
class Watched final : public test::RefusingModel {
 public:
  explicit Watched(const model::Model& model) : model_(model) {}
  mutable std::vector<std::vector<std::string>> ends;

  const model::Architecture& architecture() const override { return model_.architecture(); }
  void embed(const model::Batch& batch, MatrixView<float> x) const override { model_.embed(batch, x); }
  void forward_block(std::size_t block, const model::Batch& batch, MatrixView<float> x,
                     const model::ForwardOptions& options, const model::Hooks<float>* hooks) const override {
    ends.push_back(hooks->until);
    model_.forward_block(block, batch, x, options, hooks);
  }

 private:
  const model::Model& model_;
};

class BoundaryWalkTest : public testing::Test {
 protected:
  const ToyCalibration toy{"llama"};
  const Watched model{*toy.model};
  const std::unique_ptr<ResidualStore> store =
      make_memory_store({toy.tokens.size(), toy.architecture.hidden, 2 * kWindow});
  BoundaryWalk walk{toy.tokens, kWindow, 2, "boundary", *store};
  const std::vector<CollectedLayer> layers = collected_layers(toy.architecture, false);
};

TEST_F(BoundaryWalkTest, AnInputIsTheSameWhereThePassEndsAtIt) {
  walk.embed(model);
  std::vector<CollectedLayer> block;
  for (const CollectedLayer& layer : layers)
    if (layer.block == 0) block.push_back(layer);
  const auto whole = walk.run(model, 0, block, kInputs, BoundaryWalk::Go::kStay);
  for (const auto& ends : model.ends) EXPECT_TRUE(ends.empty());
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (!block[i].input_of.empty()) continue;
    model.ends.clear();
    const auto part = walk.run(model, 0, {&block[i], 1}, kInputs, BoundaryWalk::Go::kToInputs);
    EXPECT_EQ(model.ends, std::vector(3, std::vector<std::string>{block[i].module})) << "five windows, two at a time";
    EXPECT_EQ(part[0].tokens, whole[i].tokens);
    EXPECT_TRUE(test::same_bits(part[0].sum_x, whole[i].sum_x));
    EXPECT_TRUE(test::same_bits(part[0].sum_xxt.values(), whole[i].sum_xxt.values())) << block[i].module;
  }
}

TEST_F(BoundaryWalkTest, GoesAheadWithTheStreamLeftInPlaceUntilItLeaves) {
  walk.embed(model);
  walk.run(model, 0, {}, {}, BoundaryWalk::Go::kAhead);
  EXPECT_TRUE(walk.holds(0));
  EXPECT_TRUE(walk.holds(1));
  walk.leave(0);
  EXPECT_FALSE(walk.holds(0));
  EXPECT_TRUE(walk.holds(1));
}

TEST_F(BoundaryWalkTest, TellsTheInputOfALayerBatchByBatchAndSumsIt) {
  walk.embed(model);
  for (const CollectedLayer& layer : layers) {
    if (layer.block != 0 || !layer.input_of.empty()) continue;
    const auto expected = walk.run(model, 0, {&layer, 1}, kInputs, BoundaryWalk::Go::kToInputs);
    std::size_t batches = 0;
    const LayerStats sums = walk.run_to(
        model, 0, layer, kInputs, BoundaryWalk::With::kInput, [&](std::size_t batch, const LayerInput& input) {
          EXPECT_EQ(batch, batches++);
          EXPECT_EQ(input.stream.size(), 0u);
          EXPECT_TRUE(test::same_bits(
              input.x.values(), walk.input_of(model, 0, layer.module, batch, BoundaryWalk::With::kStream).x.values()));
        });
    EXPECT_EQ(batches, walk.batches());
    EXPECT_EQ(sums.tokens, expected[0].tokens);
    EXPECT_EQ(sums.samples, expected[0].samples);
    EXPECT_TRUE(test::same_bits(sums.sum_x, expected[0].sum_x));
    EXPECT_TRUE(test::same_bits(sums.sum_xxt.values(), expected[0].sum_xxt.values())) << layer.module;
  }
}

// The stream in front of the attention's output and of the MLP's last layer is what theirs is added to.
TEST(BoundaryWalk, TellsTheStreamThatALayerIsAddedTo) {
  for (const char* family : {"llama", "gpt2", "parallel with one norm",
                             "parallel with two norms"}) {  // one half after the other, and side by side
    const ToyCalibration toy{family};
    const auto store = make_memory_store({toy.tokens.size(), toy.architecture.hidden, 2 * kWindow});
    BoundaryWalk walk{toy.tokens, kWindow, 2, "boundary", *store};
    walk.embed(*toy.model);
    const model::BlockSpec& block = toy.architecture.blocks[0];
    const auto before = walk.input_of(*toy.model, 0, block.attention.q.module, 0, BoundaryWalk::With::kStream).stream;
    const auto attended = walk.input_of(*toy.model, 0, block.attention.o.module, 0, BoundaryWalk::With::kStream);
    EXPECT_TRUE(test::same_bits(attended.stream.values(), before.values())) << family;
    const auto last = walk.input_of(*toy.model, 0, block.mlp->down.module, 0, BoundaryWalk::With::kStream);
    // Beside what the attention's output makes of its input, in double.
    const auto w = test::values_of(toy.weights, toy.architecture, block.attention.o.module);
    const auto bias = model::bias_of(block.attention.o, toy.weights);
    const std::size_t in = block.attention.o.in;
    for (std::size_t t = 0; t < last.stream.rows(); ++t)
      for (std::size_t i = 0; i < last.stream.cols(); ++i) {
        double sum = static_cast<double>(attended.stream(t, i)), size = std::abs(sum);
        if (!bias.empty()) sum += static_cast<double>(bias[i]);
        for (std::size_t j = 0; j < in; ++j) {
          const double term = static_cast<double>(attended.x(t, j)) * static_cast<double>(w[i * in + j]);
          sum += term, size += std::abs(term);
        }
        // in + 2 roundings to float of sums that are no larger than `size`.
        EXPECT_TRUE(test::near(static_cast<double>(last.stream(t, i)), sum,
                               {.abs = 6e-8 * static_cast<double>(in + 2) * size + 1e-7}))
            << family << ", token " << t << ", " << i;
      }
  }
}

TEST_F(BoundaryWalkTest, EndsAtOneLayerThatIsNoExperts) {
  walk.embed(model);
  EXPECT_TRUE(test::throws_with<InvalidArgument>(
      [&] { walk.run(model, 0, std::span(layers).first(2), kInputs, BoundaryWalk::Go::kToInputs); }, layers[0].module));
}

}  // namespace
}  // namespace nibble::calib
