#pragma once

#include <atomic>
#include <filesystem>
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

  /// While one lives, nobody else uses the model, nor the other one. Belongs to the thread of Python, whichever works,
  /// and waits without the interpreter's lock, which it needs. Throws InvalidArgument where that thread is in the
  /// middle of a call of one of them, which called back: it would wait for itself. A signal's exception ends the
  /// waiting.
  class Turn {
   public:
    explicit Turn(PyModel& model, PyModel* other = nullptr);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    PyModel& model_;
    PyModel* other_;
  };

  /// Runs `work` without the interpreter's lock, while nobody else uses the model. Throws as Turn.
  template <class Work>
  auto exclusively(const Work& work) {
    const Turn turn(*this);
    return unlocked(work);
  }

 private:
  std::timed_mutex mutex_;
  std::atomic<std::thread::id> user_{};
};

/// The ids of a prompt, with the BOS that the tokenizer adds. Throws InvalidArgument without a tokenizer.
std::vector<TokenId> prompt_ids(const PyModel& self, const std::string& text);

}  // namespace nibble::python
