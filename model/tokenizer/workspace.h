#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "model/tokenizer/words/word_cache.h"
#include "model/tokenizer/words/word_model.h"

namespace nibble::model {

/// What one encode() works with. Kept between calls, so that the caches stay warm.
struct Workspace {
  std::vector<std::unique_ptr<WordCache>> caches;  // by stage of the pre-tokenizer; the last holds whole words
  WordModel::Scratch scratch;

  WordCache& cache(std::size_t stage) {
    if (caches.size() <= stage) caches.resize(stage + 1);
    if (caches[stage] == nullptr) caches[stage] = std::make_unique<WordCache>();
    return *caches[stage];
  }
};

/// As many workspaces as encode() calls ran at the same time.
class WorkspacePool {
 public:
  class Lease {
   public:
    explicit Lease(WorkspacePool& pool) : pool_(pool), workspace_(pool.take()) {}
    ~Lease() { pool_.give_back(std::move(workspace_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Workspace& operator*() const { return *workspace_; }

   private:
    WorkspacePool& pool_;
    std::unique_ptr<Workspace> workspace_;
  };

 private:
  std::unique_ptr<Workspace> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Workspace>();
    auto workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }
  void give_back(std::unique_ptr<Workspace> workspace) {
    workspace->scratch.forget_large();
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;
};

}  // namespace nibble::model
