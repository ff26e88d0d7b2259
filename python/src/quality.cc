#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text/choice.h"
#include "datasets/text_source.h"
#include "eval/quality/average_names.h"
#include "eval/quality/softmax_comparison.h"
#include "eval/quality/text_quality.h"
#include "model/tokenizer/agreement.h"
#include "python/src/arrays.h"
#include "python/src/bindings.h"
#include "python/src/long_work.h"
#include "python/src/model.h"

namespace nibble::python {
namespace {

using namespace nb::literals;
using eval::PerplexityResult;
using eval::ReferenceComparison;

/// Where the tokens come from: ids, a text, or a file of text.
struct Input {
  std::optional<nb::object> tokens;
  std::optional<std::string> text;
  std::optional<std::filesystem::path> file;
  bool hf_join = false;
};

std::vector<TokenId> read(const Input& input, const PyModel& model) {
  const int given = (input.tokens ? 1 : 0) + (input.text ? 1 : 0) + (input.file ? 1 : 0);
  NIBBLE_REQUIRE(given == 1, InvalidArgument, "expected one of tokens=, text= and file=, got {} of them", given);
  NIBBLE_REQUIRE(!input.hf_join || input.file, InvalidArgument, "hf_join says how the rows of file= are joined");
  std::error_code error;  // a text that is no path, or no file's
  NIBBLE_REQUIRE(!input.text || !std::filesystem::is_regular_file(*input.text, error), InvalidArgument,
                 "text= is the text itself, got '{}', the name of a file; give file=", *input.text);
  if (input.tokens) return ids_of(*input.tokens, "tokens");
  NIBBLE_REQUIRE(model.tokenizer != nullptr, InvalidArgument,
                 "'{}' has no tokenizer; give tokens=", model.path.string());
  const std::string text = input.text ? *input.text : datasets::read_evaluation_text(*input.file, input.hf_join);
  return unlocked([&] { return model.tokenizer->encode(text); });
}

eval::TextQuality measure(PyModel& model, PyModel* reference, const Input& input, const std::string& protocol,
                          std::size_t context, std::size_t stride, const std::string& average, bool bos,
                          nb::handle progress) {
  const std::vector<TokenId> tokens = read(input, model);
  if (reference != nullptr && model.tokenizer)
    model::require_agreement(tokens, *model.tokenizer, reference->tokenizer.get(),
                             fmt::format("compare: '{}'", reference->path.string()));
  eval::PerplexityOptions options;
  options.protocol = datasets::protocol_from_name(protocol);
  options.average = choose("average", average, eval::kAverages);
  options.context = context;
  options.stride = stride;
  NIBBLE_REQUIRE(options.protocol == datasets::Protocol::kSliding || (stride == 0 && average == "windows"),
                 InvalidArgument, "stride and average belong to protocol='sliding', got '{}'", protocol);
  options.bos = eval::window_bos(options.protocol, bos, model.tokenizer.get());
  const PyModel::Turn turn(model, reference);
  // The tokenizer says how many bytes ids stand for; of ids from elsewhere as well, as the command line has it.
  auto quality = run_long<eval::TextQuality>(progress, [&](const ProgressSink& sink) {
    options.progress = sink;
    return eval::text_quality(*model.loaded.transformer,
                              reference == nullptr ? nullptr : reference->loaded.transformer.get(), tokens,
                              model.tokenizer.get(), options);
  });
  if (quality.warning) warn({&*quality.warning, 1});
  return quality;
}

PerplexityResult perplexity(PyModel& model, std::optional<nb::object> tokens, std::optional<std::string> text,
                            std::optional<std::filesystem::path> file, bool hf_join, const std::string& protocol,
                            std::size_t context, std::size_t stride, const std::string& average, bool bos,
                            nb::handle progress) {
  return measure(model, nullptr, {std::move(tokens), std::move(text), std::move(file), hf_join}, protocol, context,
                 stride, average, bos, progress)
      .perplexity;
}

ReferenceComparison compare(PyModel& model, PyModel& reference, std::optional<nb::object> tokens,
                            std::optional<std::string> text, std::optional<std::filesystem::path> file, bool hf_join,
                            const std::string& protocol, std::size_t context, std::size_t stride,
                            const std::string& average, bool bos, nb::handle progress) {
  NIBBLE_REQUIRE(&model != &reference, InvalidArgument, "compare: a model with itself; load it twice to do that");
  return *measure(model, &reference, {std::move(tokens), std::move(text), std::move(file), hf_join}, protocol, context,
                  stride, average, bos, progress)
              .comparison;
}

NumpyVector<double> divergence(const AnyArray& reference, const AnyArray& logits) {
  const Floats p(reference, "reference"), q(logits, "logits");
  p.finite();
  q.finite();
  const auto a = p.matrix(), b = q.matrix();
  NIBBLE_REQUIRE(a.rows() == b.rows() && a.cols() == b.cols(), InvalidArgument,
                 "divergence: reference is ({}, {}) but logits ({}, {})", a.rows(), a.cols(), b.rows(), b.cols());
  return to_numpy(unlocked([&] {
    std::vector<double> result(a.rows());
    for (std::size_t r = 0; r < a.rows(); ++r) result[r] = eval::compare_softmax(a.row(r), b.row(r)).divergence;
    return result;
  }));
}

}  // namespace

void bind_quality(nb::module_& module) {
  nb::class_<PerplexityResult>(module, "Perplexity", "How well a model predicts a text (docs/protocols.md).")
      .def_ro("perplexity", &PerplexityResult::perplexity)
      .def_ro("stderr", &PerplexityResult::perplexity_stderr)
      .def_ro("nll", &PerplexityResult::nll_nats_per_token, "nats per token: ln(perplexity)")
      .def_ro("bits_per_byte", &PerplexityResult::bits_per_byte, "NaN without a tokenizer")
      .def_ro("tokens_scored", &PerplexityResult::tokens_scored)
      .def_ro("windows", &PerplexityResult::windows)
      .def_ro("tokens_per_second", &PerplexityResult::tokens_per_second)
      .def_prop_ro("window_nll", &array_of<&PerplexityResult::window_nll>, "(windows) float64: mean NLL of each, nats")
      .def("__repr__", [](const PerplexityResult& self) {
        return fmt::format("Perplexity({:.4f} ± {:.4f}, {} tokens)", self.perplexity, self.perplexity_stderr,
                           self.tokens_scored);
      });
  nb::class_<ReferenceComparison>(
      module, "Comparison", "How far a model's predictions are from a reference's on one text; KL(reference ‖ model).")
      .def_ro("model", &ReferenceComparison::model)
      .def_ro("reference", &ReferenceComparison::reference)
      .def_ro("kl", &ReferenceComparison::kl_mean, "nats per token")
      .def_ro("kl_stderr", &ReferenceComparison::kl_mean_stderr)
      .def_ro("kl_median", &ReferenceComparison::kl_median)
      .def_ro("kl_99", &ReferenceComparison::kl_99)
      .def_ro("kl_999", &ReferenceComparison::kl_999)
      .def_ro("kl_max", &ReferenceComparison::kl_max)
      .def_ro("top1_agreement", &ReferenceComparison::top1_agreement,
              "share of tokens with the same likeliest next token")
      .def_ro("perplexity_ratio", &ReferenceComparison::perplexity_ratio)
      .def_ro("perplexity_ratio_stderr", &ReferenceComparison::perplexity_ratio_stderr)
      .def("__repr__", [](const ReferenceComparison& self) {
        return fmt::format(
            "Comparison(KL {:.5f} ± {:.5f} nats, same top token {:.4f}, perplexity {:.4f} against {:.4f})",
            self.kl_mean, self.kl_mean_stderr, self.top1_agreement, self.model.perplexity, self.reference.perplexity);
      });
  module.def(
      "perplexity", &perplexity, "model"_a, nb::kw_only(), "tokens"_a = nb::none(), "text"_a = nb::none(),
      "file"_a = nb::none(), "hf_join"_a = false, "protocol"_a = "sliding", "context"_a = 0, "stride"_a = 0,
      "average"_a = "windows", "bos"_a = false, "progress"_a = nb::none(),
      R"(Perplexity of a Model on token ids, a text, or a file of text (hf_join: its rows joined as the usual WikiText evaluation
joins them). protocol: "sliding", "blocks" or "half" (docs/protocols.md); context 0: the model's; stride 0: half of it;
average: "windows" or "tokens"; bos: windows begin with the tokenizer's BOS in place of their own first token, without which
some models (Gemma) predict next to nothing. The bits that `nibble perplexity` gives with the same compute.)");
  module.def(
      "compare", &compare, "model"_a, "reference"_a, nb::kw_only(), "tokens"_a = nb::none(), "text"_a = nb::none(),
      "file"_a = nb::none(), "hf_join"_a = false, "protocol"_a = "sliding", "context"_a = 0, "stride"_a = 0,
      "average"_a = "windows", "bos"_a = false, "progress"_a = nb::none(),
      R"(Runs both models over a text and compares their predictions row by row: KL(reference ‖ model), the share of tokens with
the same likeliest next token, and both perplexities. The reference is mostly the float model, with compute="reference". bos:
as perplexity() has it.)");
  module.def("divergence", &divergence, "reference"_a, "logits"_a,
             "(n) float64: KL(softmax(reference) ‖ softmax(logits)) of every row, nats; both (n, vocabulary) float32.");
}

}  // namespace nibble::python
