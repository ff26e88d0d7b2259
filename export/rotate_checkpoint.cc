#include "export/rotate_checkpoint.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/files/output_directory.h"
#include "core/random.h"
#include "core/text/json.h"
#include "export/export_model.h"
#include "export/float_directory.h"
#include "export/output_path.h"
#include "export/probe_logits.h"
#include "model/architecture/families.h"
#include "model/checkpoint/weights.h"

namespace nibble::exporting {
namespace {

constexpr std::size_t kCheckedTokens = 64;

// config.json of the result: that of the model, but for the head.
std::string config_of(const model::Checkpoint& checkpoint, bool untie) {
  if (!untie) return checkpoint.metadata();
  auto config = nlohmann::ordered_json::parse(checkpoint.metadata());
  config["tie_word_embeddings"] = false;
  return config.dump(2);
}

// The share of the largest logit by which logits may differ: a wrong matrix makes them differ by about all of it.
// Errors of rounding grow with depth; these are what random texts through 100 blocks stay below.
double tolerance(DType dtype) { return dtype == DType::kF32 ? 1e-3 : dtype == DType::kF16 ? 0.05 : 0.3; }

void compare(const model::Model& model, const model::Model& rotated, const model::Architecture& architecture,
             RotateResult& result, DType dtype) {
  result.tokens = std::min(kCheckedTokens, architecture.position_limit());
  Random random(1);
  std::vector<TokenId> tokens(result.tokens);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.below(architecture.vocabulary));
  const std::vector<float> expected = logits_of(model, tokens, tokens.size());
  const std::vector<float> got = logits_of(rotated, tokens, tokens.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double want = expected[i], difference = std::abs(static_cast<double>(got[i]) - want);
    result.largest_logit = std::max(result.largest_logit, std::abs(want));
    result.largest_difference = std::max(result.largest_difference, difference);
  }
  NIBBLE_REQUIRE(result.largest_difference <= tolerance(dtype) * result.largest_logit, NumericalError,
                 "the rotated model's logits differ by {:.3g} from the model's, of at most {:.3g}; written as float32 "
                 "they would differ least",
                 result.largest_difference, result.largest_logit);
}

}  // namespace

RotateResult rotate_checkpoint(const RotateRequest& request) {
  require_apart(request.model, request.output);
  const ExportModel model(request.model);
  for (const ExportPart& part : model.parts())
    NIBBLE_REQUIRE(!part.coded, InvalidArgument, "'{}' is quantized ({}): rotate the float model, then quantize",
                   request.model.string(), part.parameter->module);
  const model::Architecture& from = model.architecture();
  RotateResult result{.untied = model::must_untie(from)};
  const std::string config = config_of(*model.checkpoint(), result.untied);
  const model::Architecture to = model::parse_architecture(config, "config.json of '" + request.output.string() + "'");
  const ExportModel rotated(model.checkpoint(), to,
                            model::make_rotated_provider(from, to, model.weights(), request.rotation));

  OutputDirectory directory(request.output, request.overwrite);
  try {
    result.bytes = write_float_directory(rotated, config, request.dtype, directory.partial(), request.progress).bytes;
    {
      const auto written = model::Checkpoint::open(directory.partial());
      const auto weights = model::make_float_provider(written);
      compare(*model::make_model(from, model.weights()), *model::make_model(written->architecture(), *weights), from,
              result, request.dtype);
    }
    directory.publish();
  } catch (...) {
    directory.discard();
    throw;
  }
  return result;
}

}  // namespace nibble::exporting
