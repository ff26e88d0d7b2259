#include "model/gguf/gguf_network.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "model/architecture/families.h"

namespace nibble::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> notes_of_phi3(std::size_t positions, std::string_view long_factor) {
  const Architecture architecture = parse_architecture(
      fmt::format(R"({{"model_type": "phi3", "vocab_size": 8, "hidden_size": 4, "intermediate_size": 8,
          "num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": {},
          "original_max_position_embeddings": 128, "pad_token_id": null,
          "rope_scaling": {{"type": "longrope", "short_factor": [1, 2], "long_factor": [1, {}]}}}})",
                  positions, long_factor),
      "config.json");
  return gguf_notes(architecture, gguf_architecture_for(architecture));
}

// llama.cpp (get_rope_factors) goes by its context, the network by the text.
TEST(GgufNotes, SayWhichTextsTurnByTheLongFactors) {
  EXPECT_THAT(notes_of_phi3(512, "3"), ElementsAre(HasSubstr("with -c 128 short texts")));
  EXPECT_THAT(notes_of_phi3(512, "2"), IsEmpty()) << "the same factors";
  EXPECT_THAT(notes_of_phi3(128, "3"), IsEmpty()) << "no long texts";
}

}  // namespace
}  // namespace nibble::model
