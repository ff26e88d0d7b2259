#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/narrow_tensors.h"
#include "model/checkpoint/unexpected_tensors.h"
#include "model/checkpoint/weights.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace nibble::model;

constexpr std::size_t kEnough = 64;  // a few show what all do

// One that is refused says nothing of the next.
template <class Read>
void each(const Read& read) {
  try {
    read();
  } catch (const nibble::FormatError& error) {
    nibble::fuzz::refused(error);
  }
}

void read_matrix(const nibble::WeightSource& source) {
  if (source.rows() == 0) return;
  std::vector<float> row(source.cols());
  source.decode_rows(0, 1, row.data());
  source.decode_rows(source.rows() - 1, source.rows(), row.data());
}

void read_by_architecture(const std::shared_ptr<const Checkpoint>& checkpoint) {
  const auto provider = make_float_provider(checkpoint);
  const Architecture& architecture = checkpoint->architecture();
  std::size_t left = kEnough;
  for (const Parameter* parameter : bias_holders(architecture)) {
    if (left-- == 0) break;
    each([&] { read_matrix(*provider->matrix(*parameter)); });
    each([&] { bias_of(*parameter, *provider); });
  }
  left = kEnough;
  for (const NormSpec* norm : norms(architecture)) {
    if (left-- == 0) break;
    each([&] { gain_of(*norm, *provider); });
  }
}

void read_by_name(const std::shared_ptr<const Checkpoint>& checkpoint) {
  const NarrowTensors narrow(*checkpoint);
  for (const std::string& name : checkpoint->tensor_names()) {
    each([&] {
      const auto part = narrow.part_of(name);
      const auto found = narrow.find(part ? part->tensor : name);
      if (found) read_matrix(*narrow.source(checkpoint, *found, narrow.place_of(*found)));
    });
  }
}

}  // namespace

// config.json, generation_config.json and model.safetensors of a checkpoint of floats, 8-bit and 4-bit ones among them.
NIBBLE_FUZZ(input) {
  const auto files = nibble::fuzz::parts(input, 3);
  nibble::fuzz::file("config.json", files[0]);
  nibble::fuzz::file_if_any("generation_config.json", files[1]);
  nibble::fuzz::file("model.safetensors", files[2]);
  const auto checkpoint = Checkpoint::open(nibble::fuzz::directory());
  describe_unexpected_tensors(*checkpoint);
  read_by_architecture(checkpoint);
  read_by_name(checkpoint);
}
