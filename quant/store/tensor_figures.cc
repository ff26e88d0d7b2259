#include "quant/store/tensor_figures.h"

#include "core/text/json.h"
#include "core/text/json_fields.h"

namespace nibble::quant {

nlohmann::ordered_json json_of(const TensorFigures& figures) {
  nlohmann::ordered_json json{{"name", figures.name},
                              {"format", figures.format},
                              {"weights", figures.weights},
                              {"stored_bits", figures.stored_bits},
                              {"bits_per_weight", figures.bits_per_weight},
                              {"relative_weight_error", figures.relative_weight_error},
                              {"optimality_gap", figures.optimality_gap}};
  if (figures.output_error) json["output_error"] = *figures.output_error;
  if (figures.fisher_error) json["fisher_error"] = *figures.fisher_error;
  return json;
}

TensorFigures parse_tensor_figures(const JsonFields& fields) {
  return {.name = fields.text("name"),
          .format = fields.text("format"),
          .weights = fields.count("weights"),
          .stored_bits = fields.count("stored_bits"),
          .bits_per_weight = fields.figure("bits_per_weight"),
          .relative_weight_error = fields.figure("relative_weight_error"),
          .optimality_gap = fields.figure("optimality_gap"),
          .output_error = fields.optional_figure("output_error"),
          .fisher_error = fields.optional_figure("fisher_error")};
}

}  // namespace nibble::quant
