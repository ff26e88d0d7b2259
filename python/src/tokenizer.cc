#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/open/open_model.h"
#include "python/src/arrays.h"
#include "python/src/bindings.h"

namespace nibble::python {
namespace {

using namespace nb::literals;

// A copy of a Tokenizer would slice it, so Python holds this.
struct SharedTokenizer {
  std::shared_ptr<const model::Tokenizer> tokenizer;
};

}  // namespace

void bind_tokenizer(nb::module_& module) {
  nb::class_<SharedTokenizer>(module, "Tokenizer", "Text to token ids and back, as the checkpoint's own files say.")
      .def(nb::new_([](const std::filesystem::path& checkpoint) {
             return SharedTokenizer{model::open_tokenizer(checkpoint)};
           }),
           "checkpoint"_a)
      .def(
          "encode",
          [](const SharedTokenizer& self, const std::string& text) {
            return to_numpy(unlocked([&] { return self.tokenizer->encode(text); }));
          },
          "text"_a, "(n) uint32. No BOS or EOS is added.")
      .def(
          "decode",
          [](const SharedTokenizer& self, nb::handle given, bool skip_special) {
            std::vector<TokenId> ids = ids_of(given, "ids");
            const model::Tokenizer& tokenizer = *self.tokenizer;
            if (skip_special)
              std::erase_if(
                  ids, [&](TokenId id) { return id < tokenizer.vocabulary_size() && tokenizer.byte_length(id) == 0; });
            const std::string text = tokenizer.decode(ids);
            return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
          },
          "ids"_a, "skip_special"_a = false,
          nb::sig(
              "def decode(self, ids: typing.Sequence[int] | numpy.typing.NDArray, skip_special: bool = False) -> str"),
          "Bytes that are no UTF-8 become U+FFFD. skip_special: BOS, EOS and the like leave no text.")
      .def_prop_ro("vocabulary_size", [](const SharedTokenizer& self) { return self.tokenizer->vocabulary_size(); })
      .def_prop_ro(
          "added_bos", [](const SharedTokenizer& self) { return self.tokenizer->added_bos(); },
          "The BOS id where the tokenizer puts one before a text for the model, else None")
      .def_prop_ro(
          "added_prefix", [](const SharedTokenizer& self) { return self.tokenizer->added_prefix(); },
          "The ids that the tokenizer puts before a text for the model: the BOS, or several (GLM), or none")
      .def_prop_ro("eos", [](const SharedTokenizer& self) { return self.tokenizer->eos(); })
      .def("fingerprint", [](const SharedTokenizer& self) { return self.tokenizer->fingerprint(); });
}

}  // namespace nibble::python
