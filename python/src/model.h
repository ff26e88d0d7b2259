#pragma once

#include <atomic>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
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

  /// The calling thread of Python. Throws InvalidArgument where it is in the middle of a call of one of `models` (nulls
  /// are skipped), which called back: waiting for its turn, it would wait for itself.
  static std::thread::id require_free(std::initializer_list<const PyModel*> models);

  /// While one lives, nobody else uses the model, nor the other one. `caller` is the thread of Python, whichever works.
  class Turn {
   public:
    Turn(std::thread::id caller, PyModel& model, PyModel* other = nullptr);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    PyModel& model_;
    PyModel* other_;
  };

  /// Runs `work` without the interpreter's lock, while nobody else uses the model. Throws as require_free().
  template <class Work>
  auto exclusively(const Work& work) {
    const std::thread::id caller = require_free({this});
    return unlocked([&] {
      const Turn turn(caller, *this);
      return work();
    });
  }

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id> user_{};
};

/// The ids of a prompt, with the BOS that the tokenizer adds. Throws InvalidArgument without a tokenizer.
std::vector<TokenId> prompt_ids(const PyModel& self, const std::string& text);

}  // namespace nibble::python
