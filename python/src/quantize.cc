#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text/json.h"
#include "datasets/calibration_windows.h"
#include "model/open/open_model.h"
#include "python/src/bindings.h"
#include "python/src/calibration_source.h"
#include "python/src/json.h"
#include "python/src/long_work.h"
#include "python/src/warnings.h"
#include "quant/job/assemble.h"
#include "quant/job/quantize_model.h"

namespace nibble::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

nb::object quantize(const std::filesystem::path& model, const std::filesystem::path& output,
                    const quant::Recipe& recipe, const std::optional<Paths>& calibration,
                    const std::optional<Paths>& text, const std::optional<std::filesystem::path>& tokens,
                    std::size_t samples, std::size_t length, std::uint64_t seed, const std::string& field, bool bos,
                    bool overwrite, std::uint64_t memory_bytes, nb::handle progress) {
  quant::QuantizeOptions options{.model = model, .output = output, .recipe = recipe};
  if (calibration && std::holds_alternative<std::filesystem::path>(*calibration))
    options.calibration = {std::get<std::filesystem::path>(*calibration)};
  if (calibration && std::holds_alternative<std::vector<std::filesystem::path>>(*calibration))
    options.calibration = std::get<std::vector<std::filesystem::path>>(*calibration);
  options.overwrite = overwrite;
  options.memory_bytes = memory_bytes;
  std::optional<quant::CalibrationSource> source;
  if (text || tokens) {
    NIBBLE_REQUIRE(!tokens || seed == 0, InvalidArgument, "seed= says which windows of text= are drawn");
    source = source_of(text, tokens, field, length, samples, seed, bos);
    options.sources = source->text;
    if (tokens) options.sources.push_back(*tokens);
  }
  NIBBLE_REQUIRE(
      source || (samples == 0 && length == 0 && seed == 0 && field == datasets::kDefaultField && !bos), InvalidArgument,
      "samples=, length=, seed=, field= and bos= say what is taken of text= or tokens=, which are not there");
  std::vector<std::string> warnings;
  const auto result = run_long<quant::QuantizeResult>(progress, [&](const ProgressSink& sink) {
    if (source) {
      quant::ReadText read = quant::read_calibration_text(*source, model, sink);
      options.text = std::move(read.text);
      warnings = std::move(read.warnings);
    }
    options.progress = sink;
    return quant::quantize_model(options);
  });
  warn(warnings);
  warn_of_unexpected(*model::open_checkpoint(model));
  warn(quant::warnings(result, model));
  return from_json(quant::report_json(result).dump());
}

}  // namespace

void bind_quantize(nb::module_& module) {
  module.def(
      "quantize", &quantize, "model"_a, "output"_a, "recipe"_a = quant::Recipe(), nb::kw_only(),
      "calibration"_a = nb::none(), "text"_a = nb::none(), "tokens"_a = nb::none(), "samples"_a = 0, "length"_a = 0,
      "seed"_a = 0, "field"_a = "text", "bos"_a = false, "overwrite"_a = false,
      "memory_bytes"_a = std::uint64_t{4} << 30, "progress"_a = nb::none(),
      nb::sig("def quantize(model: str | os.PathLike, output: str | os.PathLike, recipe: Recipe = ..., *, "
              "calibration: str | os.PathLike | typing.Sequence[str | os.PathLike] | None = None, "
              "text: str | os.PathLike | typing.Sequence[str | os.PathLike] | None = None, "
              "tokens: str | os.PathLike | None = None, samples: int = 0, length: int = 0, seed: int = 0, "
              "field: str = 'text', bos: bool = False, overwrite: bool = False, memory_bytes: int = 4294967296, "
              "progress: typing.Callable[[str, float, float, str], object] | bool | None = None) "
              "-> dict[str, typing.Any]"),
      R"(Quantizes a float checkpoint by a recipe into the directory `output`: `nibble quantize`. calibration: what calibrate()
returned, or files, of this model, of which each statistic comes from the first that has it. text or tokens: for recipes with
`sequential: true` or tuning; bos: its windows begin with the tokenizer's BOS, as those of the calibration have to then.

Returns what quantization.json says: "tensors", a list with bits per weight and errors of each, and the sums. The bytes do
not depend on the number of threads. Ctrl-C loses nothing that was finished: the same call goes on from there.)");
}

}  // namespace nibble::python
