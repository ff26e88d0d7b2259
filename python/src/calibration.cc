#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "calib/stats/derived.h"
#include "calib/stats/hessian_names.h"
#include "calib/stats/merge_stats.h"
#include "calib/stats/stats_file.h"
#include "core/error.h"
#include "core/files/file_identity.h"
#include "core/text/choice.h"
#include "datasets/calibration_windows.h"
#include "datasets/document_reader.h"
#include "model/open/open_model.h"
#include "python/src/arrays.h"
#include "python/src/bindings.h"
#include "python/src/calibration_source.h"
#include "python/src/long_work.h"
#include "python/src/warnings.h"
#include "quant/job/statistics/calibrate_model.h"

namespace nibble::python {
namespace {

using namespace nb::literals;
using calib::HessianKind;
using calib::LayerStats;
using calib::StatisticSet;

/// The statistics of one layer, each read from the file when it is first asked for.
class LayerStatistics {
 public:
  LayerStatistics(std::shared_ptr<const calib::StatsFile> file, calib::LayerInfo info)
      : file_(std::move(file)), info_(std::move(info)) {}

  const calib::LayerInfo& info() const { return info_; }
  NumpyVector<double> mean_input() const { return vector(&calib::mean_input); }
  NumpyVector<double> second_moment() const { return vector(&calib::second_moment); }
  NumpyVector<double> magnitude() const { return vector(&calib::mean_magnitude); }
  NumpyMatrix<float> fisher() const {
    return to_numpy(unlocked([&] { return narrowed(calib::mean_fisher(read({.fisher = true}))); }));
  }
  NumpyVector<double> correction_mean(const std::string& kind) const {
    const HessianKind chosen = choose("kind", kind, calib::kHessianKinds);
    const bool guided = calib::is_guided(chosen);
    const StatisticSet what{.activations = !guided, .guided_hessian = guided};
    return to_numpy(unlocked([&] { return calib::correction_mean(read(what), chosen); }));
  }
  NumpyMatrix<float> hessian(const std::string& kind) const {
    const HessianKind chosen = choose("kind", kind, calib::kHessianKinds);
    const bool centred = calib::is_centred(chosen), guided = calib::is_guided(chosen);
    const StatisticSet what{.activations = centred, .hessian = !guided, .guided_hessian = guided};
    return to_numpy(unlocked([&] { return narrowed(calib::hessian(read(what), chosen)); }));
  }
  NumpyMatrix<float> output_hessian() const {
    return to_numpy(unlocked([&] { return narrowed(calib::output_hessian(read({.output_hessian = true}))); }));
  }

 private:
  LayerStats read(const StatisticSet& what) const { return file_->read(info_.module, what); }
  NumpyVector<double> vector(std::vector<double> (*derive)(const LayerStats&)) const {
    return to_numpy(unlocked([&] { return derive(read({.activations = true})); }));
  }
  static Matrix<float> narrowed(const Matrix<double>& values) {
    Matrix<float> result(values.rows(), values.cols());
    for (std::size_t i = 0; i < values.size(); ++i) result.data()[i] = static_cast<float>(values.data()[i]);
    return result;
  }

  std::shared_ptr<const calib::StatsFile> file_;
  calib::LayerInfo info_;
};

struct PyCalibration {
  std::shared_ptr<const calib::StatsFile> file;
};

LayerStatistics layer(const PyCalibration& self, const std::string& module) {
  if (!self.file->contains(module))
    throw nb::key_error(
        fmt::format("{}: there is no layer '{}'; .layers lists them", self.file->path().string(), module).c_str());
  return {self.file, self.file->layer(module)};
}

std::vector<std::string> layers(const PyCalibration& self) {
  std::vector<std::string> names;
  for (const calib::LayerInfo& info : self.file->layers()) names.push_back(info.module);
  return names;
}

PyCalibration calibrate(const std::filesystem::path& model, const std::filesystem::path& output,
                        const std::optional<Paths>& text, const std::optional<std::filesystem::path>& tokens,
                        const std::string& collect, std::size_t samples, std::size_t length, std::uint64_t seed,
                        const std::string& field, bool bos, const std::string& fisher, const std::string& labels,
                        const std::string& centre, const std::optional<std::string>& guide, bool head,
                        std::uint64_t memory_bytes, nb::handle progress) {
  const quant::CalibrationSource source = source_of(text, tokens, field, length, samples, seed, bos);
  NIBBLE_REQUIRE(source.tokens.empty() || seed == 0 || calib::parse_labels(labels) == calib::Labels::kSampled,
                 InvalidArgument, "seed= says which windows of text= are drawn, and which labels='sampled'");
  const quant::CalibrateOptions options{.collect = calib::parse_statistic_set(collect),
                                        .fisher = calib::parse_fisher_flavour(fisher),
                                        .labels = calib::parse_labels(labels),
                                        .centre = centre,
                                        .guide = guide ? std::optional(calib::parse_guide(*guide)) : std::nullopt,
                                        .head = head};
  std::vector<std::string> warnings;
  std::shared_ptr<const model::Checkpoint> checkpoint;
  run_long(progress, [&](const ProgressSink& sink) {
    const quant::LoadedModel loaded = quant::load_model(model);
    quant::check_model(loaded);  // before any text is read
    const auto tokenizer = source.needs_tokenizer() ? model::open_tokenizer_if_any(model) : nullptr;
    const auto windows = quant::read_calibration_windows(source, loaded.architecture, tokenizer.get(), model, sink);
    checkpoint = loaded.checkpoint;
    warnings = datasets::warnings(windows);
    calib::CalibrationJob job = quant::calibration_job(loaded, tokenizer.get(), source, windows, options, output);
    job.memory_bytes = memory_bytes;
    job.progress = sink;
    calib::calibrate(job);
  });
  const std::shared_ptr<const calib::StatsFile> file = calib::StatsFile::open(output);
  warn(warnings);
  warn_of_unexpected(*checkpoint);
  warn(quant::warnings(checkpoint->architecture(), *file));
  return {file};
}

}  // namespace

quant::CalibrationSource source_of(const std::optional<Paths>& text, const std::optional<std::filesystem::path>& tokens,
                                   const std::string& field, std::size_t length, std::size_t samples,
                                   std::uint64_t seed, bool bos) {
  NIBBLE_REQUIRE(text.has_value() != tokens.has_value(), InvalidArgument, "expected one of text= and tokens=, got {}",
                 text ? "both" : "neither");
  NIBBLE_REQUIRE(text || field == datasets::kDefaultField, InvalidArgument,
                 "field= says where lines of text= have theirs, not tokens=");
  quant::CalibrationSource source{
      .text = {}, .tokens = {}, .field = field, .length = length, .samples = samples, .seed = seed, .bos = bos};
  if (tokens) source.tokens = *tokens;
  if (text && std::holds_alternative<std::filesystem::path>(*text))
    source.text = {std::get<std::filesystem::path>(*text)};
  if (text && std::holds_alternative<std::vector<std::filesystem::path>>(*text))
    source.text = std::get<std::vector<std::filesystem::path>>(*text);
  refuse_repeated_files(source.text);
  NIBBLE_REQUIRE(field == datasets::kDefaultField || std::ranges::any_of(source.text, datasets::holds_json_lines),
                 InvalidArgument, "field= says where JSON lines have their text; text= has none of them");
  return source;
}

void bind_calibration(nb::module_& module) {
  nb::class_<LayerStatistics>(
      module, "LayerStatistics",
      "What calibration knows of one layer Y = X Wᵀ + b, W (out, in). Each array is read from the "
      "file when it is asked for, and again the next time.")
      .def_prop_ro("module", [](const LayerStatistics& self) { return self.info().module; })
      .def_prop_ro(
          "shape", [](const LayerStatistics& self) { return nb::make_tuple(self.info().out, self.info().in); },
          nb::sig("def shape(self) -> tuple[int, int]"))
      .def_prop_ro(
          "tokens", [](const LayerStatistics& self) { return self.info().tokens; }, "rows of X that were summed")
      .def_prop_ro("mean_input", &LayerStatistics::mean_input, nb::rv_policy::automatic, "(in) float64: E[x]")
      .def_prop_ro("second_moment", &LayerStatistics::second_moment, nb::rv_policy::automatic, "(in) float64: E[x²]")
      .def_prop_ro("magnitude", &LayerStatistics::magnitude, nb::rv_policy::automatic, "(in) float64: E|x|")
      .def_prop_ro("fisher", &LayerStatistics::fisher, nb::rv_policy::automatic,
                   "(out, in) float32: squared gradients of the loss, mean over windows (docs/formats.md)")
      .def(
          "correction_mean", &LayerStatistics::correction_mean, "kind"_a = "plain",
          R"((in) float64: the mean input that goes with hessian(kind) in the bias correction b + (W - Ŵ) μ: E[x], or of the guided
kinds Σ s x / Σ s, by the same weights s of tokens. `mean_input` of quantize_tensor() where a solver's Hessian is centred.)")
      .def(
          "hessian", &LayerStatistics::hessian, "kind"_a = "plain",
          R"((in, in) float32, symmetric: "plain" XᵀX / N; "centred" (XᵀX - N μ μᵀ) / N; "guided" Xᵀ diag(s) X / N with s_t the mean
over outputs of the squared gradient, in the metric of the file's guide; "guided-centred".)")
      .def_prop_ro("output_hessian", &LayerStatistics::output_hessian, nb::rv_policy::automatic,
                   "(out, out) float32, symmetric: dYᵀdY, dY the gradients at the outputs, tokens weighed by the "
                   "guide, scaled to a mean diagonal of 1 "
                   "(0 where there are none). Layers of the blocks have it, the head has not.");
  nb::class_<PyCalibration>(module, "Calibration", "A calibration file (HDF5), read lazily.")
      .def(nb::new_([](const std::filesystem::path& path) { return PyCalibration{calib::StatsFile::open(path)}; }),
           "path"_a)
      .def_prop_ro("path", [](const PyCalibration& self) { return self.file->path(); })
      .def(
          "__fspath__", [](const PyCalibration& self) { return nb::cast(self.file->path()).attr("__fspath__")(); },
          nb::sig("def __fspath__(self) -> str"), "A calibration stands wherever a path of one is taken.")
      .def_prop_ro("layers", &layers)
      .def("__len__", [](const PyCalibration& self) { return self.file->layers().size(); })
      .def("__contains__", [](const PyCalibration& self, const std::string& name) { return self.file->contains(name); })
      .def("__getitem__", &layer, "module"_a)
      .def(
          "__iter__", [](const PyCalibration& self) { return nb::iter(nb::cast(layers(self))); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"), "Over the names of layers, as `layers`.")
      .def_prop_ro(
          "settings",
          [](const PyCalibration& self) {
            nb::dict settings;
            for (const auto& [name, value] : calib::describe(self.file->settings())) settings[name.c_str()] = value;
            return settings;
          },
          nb::sig("def settings(self) -> dict[str, str]"), "Everything that decided its contents.")
      .def_static(
          "merge",
          [](const std::vector<std::filesystem::path>& files, const std::filesystem::path& output) {
            unlocked([&] { calib::merge_stats(files, output); });
            const PyCalibration merged{calib::StatsFile::open(output)};
            if (const auto warning = calib::warning_of_programs({&merged.file->settings(), 1})) warn({&*warning, 1});
            return merged;
          },
          "files"_a, "output"_a, "Adds up files of one model and one set of settings into a new file.");
  module.def(
      "calibrate", &calibrate, "model"_a, "output"_a, nb::kw_only(), "text"_a = nb::none(), "tokens"_a = nb::none(),
      "collect"_a = "activations,fisher", "samples"_a = 0, "length"_a = 0, "seed"_a = 0, "field"_a = "text",
      "bos"_a = false, "fisher"_a = "sequence", "labels"_a = "data", "centre"_a = "none", "guide"_a = nb::none(),
      "head"_a = false, "memory_bytes"_a = std::uint64_t{4} << 30, "progress"_a = nb::none(),
      R"(Runs a float model over windows of text, forward and backward, block by block, and writes `output`, a calibration file:
`nibble calibrate`. text: files of text to draw `samples` windows (0: 128) of `length` tokens (0: 512, or the context) from;
or tokens: a file of ids (.u16, .u32), cut into windows. collect: of activations, fisher, hessian, guided-hessian,
output-hessian. guide: what tokens weigh in the last two, whitened (the default) or plain (docs/recipe.md). bos: windows begin
with the tokenizer's BOS in place of their own first token.

Ctrl-C loses nothing that was finished: the same call goes on from there. progress: None, True (tqdm), or a callable
(stage, done, total, unit).)");
}

}  // namespace nibble::python
