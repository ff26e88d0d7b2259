#include <algorithm>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "quant/store/model_weights.h"
#include "tests/fuzz/fuzz.h"

// config.json and model.safetensors of a quantized checkpoint: parts of its weights, and what they decode to.
NIBBLE_FUZZ(input) {
  const auto files = nibble::fuzz::parts(input, 2);
  nibble::fuzz::file("config.json", files[0]);
  nibble::fuzz::file("model.safetensors", files[1]);
  const auto checkpoint = nibble::model::Checkpoint::open(nibble::fuzz::directory());
  for (const auto& [name, weight] : nibble::quant::open_quantized_weights(checkpoint)) {
    if (weight->rows() == 0) continue;
    std::vector<float> row(weight->cols());
    weight->decode_rows(0, 1, row.data());
    weight->decode_rows(weight->rows() - 1, weight->rows(), row.data());
  }
}
