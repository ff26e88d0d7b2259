#include "python/src/model.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/stopped.h"
#include "core/text/choice.h"
#include "eval/quality/continuations.h"
#include "model/open/open_model.h"
#include "model/transformer/cache/cache_names.h"
#include "model/transformer/cache/sequence.h"
#include "model/transformer/sampling.h"
#include "python/src/arrays.h"
#include "python/src/bindings.h"
#include "python/src/long_work.h"
#include "python/src/warnings.h"
#include "quant/store/compute_modes.h"

namespace nibble::python {
namespace {

using namespace nb::literals;
using quant::LoadOptions;

std::unique_ptr<PyModel> open_model(const std::filesystem::path& path, const std::string& compute) {
  const LoadOptions options = choose("compute", compute, quant::kComputeModes);
  auto opened = std::make_unique<PyModel>();
  unlocked([&] {
    opened->path = path;
    opened->loaded = quant::load_model(path, options);
    opened->tokenizer = model::open_tokenizer_if_any(path);
    opened->compute = compute;
  });
  warn_of_unexpected(*opened->loaded.checkpoint);
  return opened;
}

const model::Tokenizer& require_tokenizer(const PyModel& self) {
  NIBBLE_REQUIRE(self.tokenizer != nullptr, InvalidArgument, "'{}' has no tokenizer; give token ids instead of text",
                 self.path.string());
  return *self.tokenizer;
}

NumpyMatrix<float> logits(PyModel& self, nb::handle tokens, std::size_t last) {
  const std::vector<TokenId> ids = ids_of(tokens, "tokens");
  return to_numpy(self.exclusively([&] {
    NIBBLE_REQUIRE(!ids.empty(), InvalidArgument, "logits: expected at least one token");
    NIBBLE_REQUIRE(last <= ids.size(), InvalidArgument, "logits: the last {} of {} tokens", last, ids.size());
    const std::size_t count = last == 0 ? ids.size() : last, first = ids.size() - count;
    std::vector<std::size_t> rows(count);
    for (std::size_t i = 0; i < count; ++i) rows[i] = first + i;
    Matrix<float> all(count, self.loaded.architecture.vocabulary);
    const std::size_t starts[] = {0, ids.size()};
    self.loaded.transformer->forward(
        {ids, starts}, rows, [&](std::span<const std::size_t> handed, MatrixView<const float> some) {
          for (std::size_t i = 0; i < handed.size(); ++i)
            std::copy(some.row(i).begin(), some.row(i).end(), all.row(handed[i] - first).begin());
        });
    return all;
  }));
}

/// A text that grows, with whatever its cache keeps.
struct PySequence {
  PyModel& model;
  std::unique_ptr<model::Sequence<float>> sequence;
};

model::CacheOptions cache_options(const std::string& cache, const std::string& type, std::size_t capacity,
                                  std::size_t chunk, std::size_t context) {
  const model::CacheOptions options{.kind = choose("cache", cache, model::kCacheKinds),
                                    .type = choose("cache_type", type, model::kCacheTypes),
                                    .capacity = capacity,
                                    .chunk = chunk,
                                    .context = context};
  const model::CacheOptions usual;
  const bool window = options.kind == model::CacheKind::kWindow;
  NIBBLE_REQUIRE(!window || capacity == usual.capacity, InvalidArgument,
                 "capacity: a window keeps context= positions, got capacity={} with cache='window'", capacity);
  NIBBLE_REQUIRE(window || (chunk == usual.chunk && context == usual.context), InvalidArgument,
                 "chunk and context go with cache='window', not with cache='{}'", cache);
  return options;
}

std::unique_ptr<PySequence> make_sequence(PyModel& self, const std::string& cache, const std::string& type,
                                          std::size_t capacity, std::size_t chunk, std::size_t context) {
  const model::CacheOptions options = cache_options(cache, type, capacity, chunk, context);
  return std::make_unique<PySequence>(PySequence{self, model::make_sequence(*self.loaded.transformer, options)});
}

NumpyMatrix<float> extend(PySequence& self, nb::handle tokens, std::size_t last) {
  const std::vector<TokenId> ids = ids_of(tokens, "tokens");
  return to_numpy(self.model.exclusively([&] {
    NIBBLE_REQUIRE(last <= ids.size(), InvalidArgument, "extend: the last {} of {} tokens", last, ids.size());
    Matrix<float> all(last, self.model.loaded.architecture.vocabulary);
    std::size_t next = 0;
    self.sequence->extend(ids, last, [&](std::span<const std::size_t> handed, MatrixView<const float> some) {
      for (std::size_t i = 0; i < handed.size(); ++i)
        std::copy(some.row(i).begin(), some.row(i).end(), all.row(next++).begin());
    });
    return all;
  }));
}

NumpyVector<TokenId> generate(PyModel& self, nb::handle prompt, std::size_t max_tokens, double temperature,
                              std::size_t top_k, double top_p, std::uint64_t seed, const std::string& cache,
                              const std::string& type, std::size_t capacity, std::size_t chunk, std::size_t context,
                              nb::handle on_token) {
  NIBBLE_REQUIRE(
      temperature != 0.0 || (top_k == 0 && top_p == 1.0 && seed == 0), InvalidArgument,
      "top_k, top_p and seed mean nothing beside a temperature of 0, which always takes the likeliest token");
  const std::vector<TokenId> ids =
      nb::isinstance<nb::str>(prompt) ? prompt_ids(self, nb::cast<std::string>(prompt)) : ids_of(prompt, "prompt");
  const model::GenerateOptions options{.sampling = {.temperature = temperature, .top_k = top_k, .top_p = top_p},
                                       .max_tokens = max_tokens,
                                       .seed = seed,
                                       .forward = {},
                                       .cache = cache_options(cache, type, capacity, chunk, context)};
  std::vector<TokenId> generated;
  std::optional<nb::python_error> raised;
  self.exclusively([&] {
    try {
      model::generate(*self.loaded.transformer, ids, options, [&](TokenId id) {
        generated.push_back(id);
        const nb::gil_scoped_acquire lock;
        try {
          if (PyErr_CheckSignals() != 0) throw nb::python_error();
          if (!on_token.is_none() && nb::cast<bool>(nb::bool_(nb::object(on_token(id))))) throw Stopped{};
        } catch (nb::python_error& error) {
          raised.emplace(std::move(error));
          throw Stopped{};
        }
      });
    } catch (const Stopped&) {
    }
  });
  if (raised) throw std::move(*raised);
  return to_numpy(std::move(generated));
}

std::vector<std::pair<double, bool>> loglikelihood(PyModel& self,
                                                   const std::vector<std::pair<nb::object, nb::object>>& requests,
                                                   std::size_t max_tokens, std::size_t batch_tokens,
                                                   nb::handle progress) {
  std::vector<eval::Continuation> questions;
  questions.reserve(requests.size());
  for (const auto& [context, continuation] : requests)
    questions.push_back({ids_of(context, "context"), ids_of(continuation, "continuation")});
  const PyModel::Turn turn(self);
  const auto result = run_long<eval::ContinuationResult>(progress, [&](const ProgressSink& sink) {
    return eval::score_continuations(*self.loaded.transformer, questions,
                                     {.max_tokens = max_tokens, .batch_tokens = batch_tokens, .progress = sink});
  });
  std::vector<std::pair<double, bool>> scores;
  for (const eval::ContinuationScore& score : result.scores) scores.emplace_back(score.log_likelihood, score.greedy);
  return scores;
}

}  // namespace

PyModel::Turn::Turn(PyModel& model, PyModel* other) : model_(model), other_(other == &model ? nullptr : other) {
  const std::thread::id caller = std::this_thread::get_id();
  for (const PyModel* used : {&model_, other_})
    NIBBLE_REQUIRE(used == nullptr || used->user_ != caller, InvalidArgument,
                   "'{}': this model is in the middle of the call that called back; open it a second time for work in "
                   "callbacks",
                   used->path.string());
  // Never waits for one while it has the other.
  PyModel *first = &model_, *second = other_;
  const auto have_both = [&] {
    if (!first->mutex_.try_lock_for(kLook)) return false;
    if (second == nullptr || second->mutex_.try_lock()) return true;
    first->mutex_.unlock();
    std::swap(first, second);
    return false;
  };
  while (!unlocked(have_both))
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  for (PyModel* used : {&model_, other_})
    if (used != nullptr) used->user_ = caller;
}

PyModel::Turn::~Turn() {
  for (PyModel* model : {&model_, other_})
    if (model != nullptr) {
      model->user_ = std::thread::id();
      model->mutex_.unlock();
    }
}

std::vector<TokenId> prompt_ids(const PyModel& self, const std::string& text) {
  return require_tokenizer(self).encode_prompt(text);
}

void bind_model(nb::module_& module) {
  const char* const cache_text =
      R"(cache: "state" (updated in place), "io" (copied by every call), "none", or "window" (static shapes over `context`
positions that slide by `chunk`); cache_type: "f32", "f16" or "int8"; capacity: positions, 0: as many as needed.)";
  nb::class_<PyModel>(module, "Model", R"(A model ready to run, float or quantized.

compute: "exact", products of the weights just as the format defines them, packed in memory; "reference", the same decoded
from the file at every use; "bf16" and "int8", of rounded values (docs/protocols.md). One call per object at a time: others
wait. The interpreter's lock is free meanwhile.)")
      .def(nb::new_(&open_model), "path"_a, "compute"_a = "exact")
      .def_prop_ro("path", [](const PyModel& self) { return self.path; })
      .def_ro("compute", &PyModel::compute)
      .def_prop_ro("architecture", [](const PyModel& self) { return model::describe(self.loaded.architecture); })
      .def_prop_ro("vocabulary", [](const PyModel& self) { return self.loaded.architecture.vocabulary; })
      .def_prop_ro("max_positions", [](const PyModel& self) { return self.loaded.architecture.max_positions; })
      .def_prop_ro("stop_tokens", [](const PyModel& self) { return self.loaded.architecture.stop_tokens; })
      .def_prop_ro("bos", [](const PyModel& self) { return self.loaded.architecture.bos; })
      .def_prop_ro("eos", [](const PyModel& self) { return self.loaded.architecture.eos; })
      .def_prop_ro(
          "bits_per_weight", [](const PyModel& self) { return self.loaded.bits_per_weight; },
          "of the linear layers of the blocks, all-in")
      .def_prop_ro("method", [](const PyModel& self) { return self.loaded.method; })
      .def_prop_ro(
          "kernels", [](const PyModel& self) { return self.loaded.kernels; }, "what multiplies")
      .def("logits", &logits, "tokens"_a, nb::kw_only(), "last"_a = 0,
           nb::sig("def logits(self, tokens: typing.Sequence[int] | numpy.typing.NDArray, *, last: int = 0) -> "
                   "numpy.typing.NDArray[numpy.float32]"),
           "(n, vocabulary) float32: what the model says after each of the tokens; `last`: only after so many, 0: all.")
      .def(
          "loglikelihood", &loglikelihood, "requests"_a, nb::kw_only(), "max_tokens"_a = 0, "batch_tokens"_a = 2048,
          "progress"_a = nb::none(),
          R"(For every (context ids, continuation ids): (sum of ln p of the continuation's tokens, whether each of them is the
likeliest). What is longer than max_tokens (0: the model's positions) loses tokens from the left. Requests that begin alike
run their common part once.)")
      .def(
          "generate", &generate, "prompt"_a, "max_tokens"_a = 64, nb::kw_only(), "temperature"_a = 0.0, "top_k"_a = 0,
          "top_p"_a = 1.0, "seed"_a = 0, "cache"_a = "state", "cache_type"_a = "f32", "capacity"_a = 0, "chunk"_a = 64,
          "context"_a = 512, "on_token"_a = nb::none(),
          (std::string(
               R"((n) uint32: tokens behind `prompt`, text (then a BOS goes before it where the tokenizer adds one) or ids. Ends after
max_tokens, after a stop token of the model (which is returned too), when the cache is full, or when on_token(id) returns
true. temperature 0: the likeliest token; otherwise drawn from the top_k (0: all) and top_p most probable. )") +
           cache_text)
              .c_str())
      .def("sequence", &make_sequence, nb::keep_alive<0, 1>(), nb::kw_only(), "cache"_a = "state",
           "cache_type"_a = "f32", "capacity"_a = 0, "chunk"_a = 64, "context"_a = 512,
           (std::string("An empty text that grows call by call. ") + cache_text).c_str());
  nb::class_<PySequence>(module, "Sequence", "A text that grows: Model.sequence().")
      .def("extend", &extend, "tokens"_a, "last"_a = 1,
           nb::sig("def extend(self, tokens: typing.Sequence[int] | numpy.typing.NDArray, last: int = 1) -> "
                   "numpy.typing.NDArray[numpy.float32]"),
           "Appends tokens; (last, vocabulary) float32: what the model says after the last ones.")
      .def("reset", [](PySequence& self) { self.model.exclusively([&] { self.sequence->reset(); }); })
      .def("__len__", [](const PySequence& self) { return self.sequence->length(); })
      .def_prop_ro("capacity", [](const PySequence& self) { return self.sequence->capacity(); })
      .def_prop_ro(
          "bytes", [](const PySequence& self) { return self.sequence->bytes(); }, "of keys, values and scales");
}

}  // namespace nibble::python
