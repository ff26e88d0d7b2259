#include "eval/inspect/model_graph.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "core/text/json.h"
#include "eval/inspect/graph_text.h"
#include "quant/job/quantize_model.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/fake_family.h"
#include "tests/support/files.h"

namespace nibble::eval {
namespace {

using test::TempDir;

ModelGraph graph_of_model(const std::filesystem::path& directory) {
  const auto checkpoint = model::Checkpoint::open(directory);
  return graph_of(checkpoint, quant::open_quantized_weights(checkpoint));
}

const GraphNode& titled(const GraphSection& section, const std::string& title) {
  const auto found = std::find_if(section.nodes.begin(), section.nodes.end(),
                                  [&](const GraphNode& node) { return node.title == title; });
  EXPECT_NE(found, section.nodes.end()) << title;
  return *found;
}

TEST(ModelGraph, DrawsBlocksThatAreAlikeOnceAndOthersApart) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  const ModelGraph graph = graph_of_model(dir / "model");
  ASSERT_EQ(graph.sections.size(), 3u);
  EXPECT_EQ(graph.sections[1].name, "blocks 0 to 1");
  EXPECT_EQ(graph.sections[1].blocks, (std::vector<std::size_t>{0, 1}));
  quant::quantize_model({.model = dir / "model",
                         .output = dir / "q",
                         .recipe = quant::Recipe::parse("layers: [{match: 'layers.1', bits: 3}]", "r")});
  const ModelGraph mixed = graph_of_model(dir / "q");
  ASSERT_EQ(mixed.sections.size(), 4u);
  EXPECT_EQ(titled(mixed.sections[1], "up").storage, "palette 4-bit tensor");
  EXPECT_EQ(titled(mixed.sections[2], "up").storage, "palette 3-bit tensor");
}

TEST(ModelGraph, TellsHowExpertsAreChosen) {
  const auto route = [](const char* family) {
    const ModelGraph graph = graph_of_model(test::source_path(std::string("tests/data/families/") + family));
    return titled(graph.sections[2], "route").details;  // behind the embedding and a dense block
  };
  EXPECT_EQ(route("dots1"),
            (std::vector<std::string>{"3 of 6 experts", "of the best 2 of 3 groups", "sigmoid, the largest",
                                      "chosen with a correction", "weights × 1.5"}));
  EXPECT_EQ(route("glm4_moe"), (std::vector<std::string>{"2 of 6 experts", "sigmoid, the largest, renormalised",
                                                         "chosen with a correction", "weights × 2.5"}));
  EXPECT_EQ(route("ernie4_5_moe"), (std::vector<std::string>{"3 of 6 experts", "softmax, the largest, renormalised",
                                                             "chosen with a correction"}));
}

TEST(ModelGraph, HasNormsOfQAndKWhereTheyStand) {
  const auto input_of_norm = [](const char* family) {
    const ModelGraph graph = graph_of_model(test::source_path(std::string("tests/data/families/") + family));
    const GraphSection& block = graph.sections[1];
    const auto norm = std::find_if(block.nodes.begin(), block.nodes.end(), [](const GraphNode& node) {
      return node.title.find("q_norm") != std::string::npos || node.title.find("query_layernorm") != std::string::npos;
    });
    EXPECT_NE(norm, block.nodes.end());
    return block.nodes.at(norm->inputs.at(0)).operation;
  };
  EXPECT_EQ(input_of_norm("hunyuan_v1_dense"), "rotary");
  EXPECT_EQ(input_of_norm("dots1"), "linear");
}

TEST(ModelGraph, TellsHowQueriesGrow) {
  const ModelGraph graph = graph_of_model(test::source_path("tests/data/families/ministral3"));
  EXPECT_THAT(titled(graph.sections[1], "attention").details,
              testing::Contains("queries × (1 + 0.3 ln(1 + ⌊position / 24⌋))"));
}

TEST(ModelGraph, CountsWeightsBytesAndOperations) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  const GraphSection block = graph_of_model(dir / "model").sections[1];
  const GraphNode& up = titled(block, "up");  // 16 to 27, float32
  EXPECT_EQ(up.weights, 16u * 27);
  EXPECT_EQ(up.bytes, 4u * 16 * 27);
  EXPECT_EQ(up.operations, 2.0 * 16 * 27);
  EXPECT_EQ(up.shape, (std::vector<std::uint64_t>{27}));
}

TEST(ModelGraph, EveryNodeComesAfterItsInputsAndEveryLinearLayerIsThere) {
  const TempDir dir;
  test::register_quilt();
  test::write_random_checkpoint(dir / "model", test::quilt_config(), 1);
  const auto checkpoint = model::Checkpoint::open(dir / "model");
  const ModelGraph graph = graph_of_model(dir / "model");
  ASSERT_EQ(graph.sections.size(), 4u) << "blocks 0 and 2 have a window, block 1 has none";
  EXPECT_EQ(graph.sections[1].name, "blocks 0, 2");
  for (const GraphSection& section : graph.sections)
    for (std::size_t n = 0; n < section.nodes.size(); ++n) {
      EXPECT_EQ(section.nodes[n].inputs.empty(), n == 0);
      for (const std::size_t input : section.nodes[n].inputs) EXPECT_LT(input, n);
    }
  for (const model::Parameter* layer : model::linear_layers(checkpoint->architecture().blocks[0]))
    EXPECT_TRUE(std::any_of(graph.sections[1].nodes.begin(), graph.sections[1].nodes.end(), [&](const GraphNode& node) {
      return node.module == layer->module;
    })) << layer->module;
}

TEST(ModelGraph, IsWrittenAsDataPictureAndText) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");
  const ModelGraph graph = graph_of_model(dir / "model");
  const auto json = nlohmann::json::parse(graph_json(graph));
  EXPECT_EQ(json["sections"].size(), graph.sections.size());
  EXPECT_EQ(json["sections"][1]["nodes"].size(), graph.sections[1].nodes.size());
  const std::string dot = graph_dot(graph), svg = graph_svg(graph);
  std::size_t edges = 0;
  for (const GraphSection& section : graph.sections)
    for (const GraphNode& node : section.nodes) {
      edges += node.inputs.size();
      for (const std::string& line : node_lines(node)) EXPECT_NE(dot.find(line), std::string::npos) << line;
    }
  std::size_t arrows = 0;
  for (std::size_t at = 0; (at = svg.find("marker-end", at)) != std::string::npos; ++at) ++arrows;
  EXPECT_EQ(arrows, edges);
  EXPECT_TRUE(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
}

}  // namespace
}  // namespace nibble::eval
