#include "model/checkpoint/checkpoint.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/files/hash.h"
#include "core/files/output_file.h"
#include "core/machine/thread_pool.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"
#include "core/text/strict_json.h"
#include "core/text/suggest.h"
#include "model/architecture/families.h"
#include "model/architecture/text_part.h"
#include "model/checkpoint/kept_fingerprint.h"
#include "model/checkpoint/mapped_file.h"
#include "model/checkpoint/narrow_config.h"
#include "model/checkpoint/safetensors_file.h"
#include "model/checkpoint/shard_index.h"

namespace nibble::model {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxConfigBytes = 64 << 20;  // a quantized mixture says of each matrix how it is stored
constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kSingleName = "model.safetensors", kIndexName = "model.safetensors.index.json";

/// What to tell somebody whose directory has no safetensors file.
std::string hint_for(const fs::path& directory) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    const std::string extension = entry.path().extension().string();
    if (extension == ".gguf")
      return fmt::format("; '{}' is a GGUF file, which is a checkpoint by itself: give its own path", name);
    if (extension == ".bin" || extension == ".pt" || extension == ".pth")
      return fmt::format(
          "; '{}' is a PyTorch pickle, which is not supported: load it in Python and save_pretrained(..., "
          "safe_serialization=True)",
          name);
  }
  return "; is this the right directory, and is the download complete?";
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

class MappedCheckpoint final : public Checkpoint {
 public:
  explicit MappedCheckpoint(const fs::path& directory) : directory_(directory) {
    std::error_code error;
    const fs::file_status status = fs::status(directory_, error);
    NIBBLE_REQUIRE(status.type() != fs::file_type::none, FormatError, "cannot open checkpoint '{}': {}",
                   directory_.string(), error.message());
    NIBBLE_REQUIRE(
        fs::is_directory(status), FormatError,
        "cannot open checkpoint '{}': expected a directory with config.json and model.safetensors in it, or a file "
        "NAME.gguf{}",
        directory_.string(), fs::exists(status) ? ", got a file" : "; it does not exist");
    if (is_there(directory_ / kSingleName)) {
      add_file(std::string(kSingleName));
    } else if (is_there(directory_ / kIndexName)) {
      open_shards();
    } else {
      throw FormatError(fmt::format("cannot open checkpoint '{}': neither {} nor {} found{}", directory_.string(),
                                    kSingleName, kIndexName, hint_for(directory_)));
    }
    metadata_ = read_text_file(directory_ / kConfigName, kMaxConfigBytes);
    keep_text_model();
    for (const auto& [name, stored] : tensors_) {
      names_.push_back(name);
      bytes_ += stored.view.data.size();
    }
  }

  const fs::path& directory() const override { return directory_; }
  const std::string& metadata() const override { return metadata_; }
  const Architecture& architecture() const override {
    const std::lock_guard lock(architecture_mutex_);
    if (architecture_) return *architecture_;
    const std::string what = config_what();
    Architecture architecture = parse_architecture(metadata_, what);
    // transformers takes no notice of them. This program's own checkpoints have some against the key: corrections.
    if (!is_own_config(metadata_, what)) architecture.ignore_undeclared_biases();
    read_generation_config(architecture);
    return architecture_.emplace(std::move(architecture));
  }
  const std::vector<std::string>& tensor_names() const override { return names_; }
  bool contains(const std::string& name) const override { return tensors_.contains(name); }
  std::uint64_t tensor_bytes() const override { return bytes_; }
  std::size_t tensors_of_other_parts() const override { return tensors_of_other_parts_; }

  TensorView tensor(const std::string& name) const override {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      const std::vector<std::string_view> names(names_.begin(), names_.end());
      throw FormatError(fmt::format("missing tensor '{}' in checkpoint '{}'{}", excerpt(name), directory_.string(),
                                    did_you_mean(name, names)));
    }
    return found->second.view;
  }

  void check_intact(const TensorView& tensor) const override {
    if (!tensor.data.empty()) file_of(tensor).check_intact();
  }
  void release(const TensorView& tensor) const override {
    if (!tensor.data.empty()) file_of(tensor).release(tensor.data);
  }

  std::string fingerprint() const override {
    return fingerprint_.get([this] { return compute_fingerprint(); });
  }

 private:
  struct Stored {
    TensorView view;
    const MappedFile* file;
  };

  std::string config_what() const { return fmt::format("config.json of checkpoint '{}'", directory_.string()); }

  // Of a model that sees as well.
  void keep_text_model() {
    const auto has_longer_name = [](const auto& tensor) {
      return name_in_text_model(tensor.first).value_or(tensor.first) != tensor.first;
    };
    const bool bare = std::ranges::none_of(tensors_, has_longer_name);
    const auto speaks_of = [&](std::string_view key) { return metadata_.find(key) != std::string::npos; };
    if (bare && !speaks_of("\"text_config\"") && !speaks_of("\"vision_config\"")) return;  // it need not be asked
    std::vector<std::string> names;
    for (const auto& [name, stored] : tensors_) names.push_back(name);
    const auto config = text_model_config(metadata_, config_what(), names);
    if (!config) return;
    metadata_ = *config;
    std::map<std::string, Stored> tensors;
    for (auto& [stored, tensor] : tensors_) {
      const auto name = name_in_text_model(stored, bare);
      if (!name) continue;
      tensor.view.name = *name;
      NIBBLE_REQUIRE(tensors.try_emplace(*name, tensor).second, FormatError,
                     "tensor '{}' is in checkpoint '{}' under two names, one of them '{}'", excerpt(*name),
                     directory_.string(), excerpt(stored));
    }
    tensors_of_other_parts_ = tensors_.size() - tensors.size();
    tensors_ = std::move(tensors);
  }

  // Chat models often list more ends of a text there than config.json has. The file is no part of the network: what it
  // cannot say, an id beyond the vocabulary or broken JSON, is no reason to refuse that.
  void read_generation_config(Architecture& architecture) const {
    const fs::path path = directory_ / "generation_config.json";
    if (!is_there(path)) return;
    nlohmann::json json;
    try {
      json = parse_strict_json(read_text_file(path, kMaxConfigBytes), path.string());
    } catch (const FormatError&) {
      return;
    }
    const auto eos = json.is_object() ? json.find("eos_token_id") : json.end();
    if (eos == json.end()) return;
    constexpr std::size_t kMost = 64;  // as in config.json
    std::vector<std::uint32_t>& stops = architecture.stop_tokens;
    const auto add = [&](const nlohmann::json& id) {
      if (stops.size() >= kMost || !id.is_number_unsigned() || id.get<std::uint64_t>() >= architecture.vocabulary)
        return;
      const auto token = id.get<std::uint32_t>();
      if (std::find(stops.begin(), stops.end(), token) == stops.end()) stops.push_back(token);
    };
    if (eos->is_array())
      std::for_each(eos->begin(), eos->end(), add);
    else
      add(*eos);
    if (!architecture.eos && !stops.empty()) architecture.eos = stops.front();
  }

  void open_shards() {
    const fs::path index_path = directory_ / kIndexName;
    const ShardIndex index = read_shard_index(index_path);
    std::set<std::string> shards;
    for (const auto& [tensor, shard] : index) {
      if (!shards.insert(shard).second) continue;
      NIBBLE_REQUIRE(is_there(directory_ / shard), FormatError,
                     "missing shard '{}' of checkpoint '{}': {} names it for tensor '{}'. Incomplete download?",
                     excerpt(shard), directory_.string(), kIndexName, tensor);
      add_file(shard);
    }
    for (const auto& [tensor, shard] : index) {
      const auto found = tensors_.find(tensor);
      NIBBLE_REQUIRE(found != tensors_.end() && found->second.file->path().filename() == shard, FormatError,
                     "missing tensor '{}': '{}' says that it is in '{}', which does not hold it", tensor,
                     index_path.string(), excerpt(shard));
    }
  }

  void add_file(const std::string& name) {
    files_.push_back(std::make_unique<MappedFile>(directory_ / name));
    const MappedFile& file = *files_.back();
    const SafetensorsContents contents = parse_safetensors(file.bytes(), file.path().string());
    file.check_intact();
    for (const TensorView& tensor : contents.tensors) {
      const auto [other, added] = tensors_.try_emplace(tensor.name, Stored{tensor, &file});
      NIBBLE_REQUIRE(added, FormatError, "tensor '{}' is in two shards of checkpoint '{}': in '{}' and in '{}'",
                     tensor.name, directory_.string(), other->second.file->path().filename().string(), name);
    }
  }

  const MappedFile& file_of(const TensorView& tensor) const {
    for (const auto& file : files_) {
      const std::less_equal<const std::byte*> not_after;
      const auto bytes = file->bytes();
      if (not_after(bytes.data(), tensor.data.data()) &&
          not_after(tensor.data.data() + tensor.data.size(), bytes.data() + bytes.size()))
        return *file;
    }
    throw InvalidArgument(fmt::format("tensor '{}' is not from checkpoint '{}'", tensor.name, directory_.string()));
  }

  std::string compute_fingerprint() const {
    std::vector<std::string> hashes(names_.size());
    parallel_for(names_.size(), [&](std::size_t i) {
      const TensorView& tensor = tensors_.at(names_[i]).view;
      hashes[i] = tensor.data.empty() ? hash_hex({}) : file_of(tensor).hash(tensor.data);
    });
    Hasher hasher;
    hasher.update(metadata_);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const TensorView& tensor = tensors_.at(names_[i]).view;
      hasher.update(tensor.name).update(dtype_name(tensor.dtype)).update(shape_text(tensor.shape)).update(hashes[i]);
    }
    return hasher.hex();
  }

  fs::path directory_;
  std::string metadata_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::map<std::string, Stored> tensors_;
  std::vector<std::string> names_;
  std::uint64_t bytes_ = 0;
  std::size_t tensors_of_other_parts_ = 0;
  mutable std::mutex architecture_mutex_;
  mutable std::optional<Architecture> architecture_;
  KeptFingerprint fingerprint_;
};

}  // namespace

std::uint64_t TensorView::element_count() const { return checked_element_count(shape, name); }

std::shared_ptr<const WeightSource> Checkpoint::decoded(const std::string& name, std::size_t slice) const {
  throw InvalidArgument(
      fmt::format("checkpoint '{}': tensor '{}', slice {}, is not decoded by it", directory().string(), name, slice));
}

std::shared_ptr<const Checkpoint> Checkpoint::open(const std::filesystem::path& directory) {
  return std::make_shared<MappedCheckpoint>(directory);
}

}  // namespace nibble::model
