#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "model/tokenizer/tokenizer.h"
#include "python/src/arrays.h"
#include "quant/store/load_model.h"

namespace nibble::python {

/// A loaded model. Python threads take turns with it.
struct PyModel {
  std::filesystem::path path;
  quant::LoadedModel loaded;
  std::shared_ptr<const model::Tokenizer> tokenizer;  ///< null where there is none
  std::string compute;
  std::mutex mutex;

  /// Runs `work` without the interpreter's lock, while nobody else uses the model.
  template <class Work>
  auto exclusively(const Work& work) {
    return unlocked([&] {
      const std::lock_guard lock(mutex);
      return work();
    });
  }
};

/// The ids of a prompt, with the BOS that the tokenizer adds. Throws InvalidArgument without a tokenizer.
std::vector<model::TokenId> prompt_ids(const PyModel& self, const std::string& text);

}  // namespace nibble::python
