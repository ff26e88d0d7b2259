#include "model/gguf/gguf_checkpoint.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/files/hash.h"
#include "core/machine/thread_pool.h"
#include "core/text/excerpt.h"
#include "core/text/suggest.h"
#include "model/architecture/families.h"
#include "model/checkpoint/kept_fingerprint.h"
#include "model/checkpoint/safetensors_file.h"
#include "model/checkpoint/tensor_text.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_weights.h"

namespace nibble::model {
namespace {

/// The bytes of some rows as numbers of one byte.
TensorView stored_rows(const GgufExtent& extent) {
  const GgufTensor& tensor = *extent.tensor;
  const BlockTypeInfo& type = block_type_info(tensor.type);
  const std::size_t row_bytes = tensor.cols() / type.weights * type.bytes, count = extent.rows.count.value_or(0);
  return {tensor.name,
          DType::kU8,
          {count, row_bytes},
          tensor.data.subspan(extent.rows.first * row_bytes, count * row_bytes)};
}

class GgufCheckpoint final : public Checkpoint {
 public:
  explicit GgufCheckpoint(const std::filesystem::path& path)
      : path_(path),
        file_(GgufFile::open(path)),
        metadata_(gguf_config_json(*file_)),
        architecture_(parse_architecture(metadata_, fmt::format("the configuration in '{}'", path.string()))),
        weights_(make_gguf_provider(file_, architecture_)) {
    add_matrices();
    add_vectors();
    for (const auto& [name, entry] : entries_) names_.push_back(name);
  }

  const std::filesystem::path& directory() const override { return path_; }
  const std::string& metadata() const override { return metadata_; }
  const Architecture& architecture() const override { return architecture_; }
  const std::vector<std::string>& tensor_names() const override { return names_; }
  bool contains(const std::string& name) const override { return entries_.contains(name); }
  std::uint64_t tensor_bytes() const override { return file_->tensor_bytes(); }

  TensorView tensor(const std::string& name) const override {
    const auto found = entries_.find(name);
    if (found == entries_.end()) {
      const std::vector<std::string_view> names(names_.begin(), names_.end());
      throw FormatError(fmt::format("missing tensor '{}' in checkpoint '{}'{}", excerpt(name), path_.string(),
                                    did_you_mean(name, names)));
    }
    const Entry& entry = found->second;
    NIBBLE_REQUIRE(!entry.encoded, InvalidArgument,
                   "tensor '{}' of '{}' is stored as {}: its values have to be decoded", name, path_.string(),
                   entry.encoded->storage);
    TensorView view{name, entry.dtype, entry.shape, entry.data};
    if (!entry.vectors.empty()) view.data = std::as_bytes(std::span(values_of(entry)));
    return view;
  }

  const EncodedTensor* encoded(const std::string& name) const override {
    const auto found = entries_.find(name);
    return found == entries_.end() || !found->second.encoded ? nullptr : &*found->second.encoded;
  }

  std::shared_ptr<const WeightSource> decoded(const std::string& name, std::size_t slice) const override {
    const EncodedTensor* const tensor = encoded(name);
    NIBBLE_REQUIRE(tensor != nullptr && slice < std::max<std::size_t>(1, tensor->place.slices), InvalidArgument,
                   "checkpoint '{}': tensor '{}' has no slice {} that is decoded", path_.string(), excerpt(name),
                   slice);
    std::vector<SourcePart> parts;
    for (const Parameter* const p : entries_.at(name).matrices)
      if (p->weight.slice == slice) parts.push_back({weights_->matrix(*p), p->weight.part});
    if (parts.size() == 1 && parts.front().rows.is_contiguous()) return parts.front().source;
    return make_composed_source(std::move(parts), tensor->place.rows);
  }

  std::unique_ptr<WeightProvider> make_provider() const override { return make_gguf_provider(file_, architecture_); }

  void check_intact(const TensorView& tensor) const override {
    if (file_->holds(tensor.data)) file_->check_intact(tensor.data);  // else a copy, whose making was checked
  }
  void release(const TensorView& tensor) const override {
    if (!tensor.data.empty() && file_->holds(tensor.data)) file_->release(tensor.data);
  }

  std::string fingerprint() const override {
    return fingerprint_.get([this] { return compute_fingerprint(); });
  }

 private:
  /// What a name stands for: a view of the file, an encoded matrix, or a vector in parts that is put together.
  struct Entry {
    DType dtype = DType::kF32;
    std::vector<std::uint64_t> shape;
    std::span<const std::byte> data;
    std::optional<EncodedTensor> encoded;
    std::vector<const Parameter*> matrices;
    std::vector<Stored> vectors;
    mutable std::vector<float> values;  // of `vectors`, once asked for
  };

  void add_matrices() {
    for (const Parameter* const p : model::matrices(architecture_)) {
      Entry& entry = entries_[p->weight.tensor];
      entry.matrices.push_back(p);
    }
    for (auto& [name, entry] : entries_) fill_matrix(name, entry);
  }

  void fill_matrix(const std::string& name, Entry& entry) {
    const Stored& place = entry.matrices.front()->weight;
    entry.shape = place.shape();
    if (entry.matrices.size() == 1 && place.is_whole() && !place.transposed) {
      const auto source = weights_->matrix(*entry.matrices.front());
      const auto plain = source->plain_floats();
      if (plain.data != nullptr) {
        entry.dtype = plain.dtype;
        entry.data = {static_cast<const std::byte*>(plain.data), place.rows * place.cols * dtype_size(plain.dtype)};
        return;
      }
    }
    EncodedTensor encoded{.storage = {}, .bytes = 0, .place = place, .stored = {}};
    encoded.place.part = RowSet::contiguous(0, place.rows);
    encoded.place.slice = 0;
    std::set<std::string_view> types;
    for (const Parameter* const p : entry.matrices) {
      const GgufExtent extent = weights_->extent(*p);
      const BlockTypeInfo& type = block_type_info(extent.tensor->type);
      check_decodable(type, fmt::format("tensor '{}' of '{}' ({})", extent.tensor->name, path_.string(), name));
      encoded.stored.push_back(stored_rows(extent));
      encoded.bytes += encoded.stored.back().data.size();
      types.insert(type.name);
    }
    encoded.storage = fmt::format("{}", fmt::join(types, " + "));
    entry.encoded = std::move(encoded);
  }

  void add_vectors() {
    for (const Parameter* const p : model::bias_holders(architecture_)) add_vector(p->bias, p->biased);
    for (const NormSpec* const norm : norms(architecture_)) {
      if (norm->gain) add_vector(*norm->gain, true);
      for (const Stored& gain : norm->group_gains) add_vector(gain, true);
      if (norm->bias) add_vector(*norm->bias, true);
    }
    for (const BlockSpec& block : architecture_.blocks)
      for (const LooseVector& vector : loose_vectors(block)) add_vector(vector.values, true);
  }

  void add_vector(const Stored& stored, bool required) {
    if (stored.tensor.empty()) return;
    if (!weights_->contains(stored.tensor)) {
      if (required) (void)weights_->vector(stored);  // says what is missing, by the file's own name
      return;
    }
    Entry& entry = entries_[stored.tensor];
    entry.dtype = DType::kF32;
    entry.shape = stored.shape();
    if (std::find(entry.vectors.begin(), entry.vectors.end(), stored) == entry.vectors.end())
      entry.vectors.push_back(stored);
  }

  const std::vector<float>& values_of(const Entry& entry) const {
    const std::lock_guard lock(vectors_mutex_);
    if (!entry.values.empty()) return entry.values;
    std::vector<float> values(checked_element_count(entry.shape, entry.vectors.front().tensor));
    for (const Stored& stored : entry.vectors) {
      const std::vector<float> part = weights_->vector(stored);
      for (std::size_t i = 0; i < part.size(); ++i)
        values.at(stored.slice * stored.rows + stored.part.row(i)) = part[i];
    }
    entry.values = std::move(values);
    return entry.values;
  }

  std::string compute_fingerprint() const {
    std::vector<const GgufTensor*> tensors;
    for (const GgufTensor& tensor : file_->tensors()) tensors.push_back(&tensor);
    std::sort(tensors.begin(), tensors.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
    std::vector<std::string> hashes(tensors.size());
    parallel_for(tensors.size(), [&](std::size_t i) { hashes[i] = file_->hash(*tensors[i]); });
    Hasher hasher;
    hasher.update(gguf_network_json(*file_));
    for (std::size_t i = 0; i < tensors.size(); ++i)
      hasher.update(tensors[i]->name)
          .update(block_type_info(tensors[i]->type).name)
          .update(shape_text(tensors[i]->shape))
          .update(hashes[i]);
    return hasher.hex();
  }

  std::filesystem::path path_;
  std::shared_ptr<const GgufFile> file_;
  std::string metadata_;
  Architecture architecture_;
  std::unique_ptr<GgufWeightProvider> weights_;
  std::map<std::string, Entry> entries_;
  std::vector<std::string> names_;
  mutable std::mutex vectors_mutex_;
  KeptFingerprint fingerprint_;
};

}  // namespace

std::shared_ptr<const Checkpoint> open_gguf_checkpoint(const std::filesystem::path& path) {
  return std::make_shared<GgufCheckpoint>(path);
}

}  // namespace nibble::model
