#include "model/gguf/gguf_weights.h"

#include <map>
#include <tuple>

#include "core/error.h"
#include "core/text/excerpt.h"
#include "model/checkpoint/safetensors_file.h"
#include "model/gguf/gguf_source.h"

namespace nibble::model {
namespace {

/// A vector or matrix of a checkpoint, told apart by where it lies there.
using Key = std::tuple<std::string, std::size_t, std::size_t, std::size_t>;  // tensor, slice, first row, run
Key key_of(const Stored& stored) { return {stored.tensor, stored.slice, stored.part.first, stored.part.count}; }

/// What is asked for: a parameter, how many heads its rows are that may have been moved, what its gain had added.
struct Wanted {
  GgufParameter parameter;
  std::size_t heads = 0;
  double plus = 0.0;
  std::size_t groups = 0, group = 0;  ///< a norm with a gain for each of so many heads: whose
};

GgufParameter named_parameter(const Parameter& parameter, bool bias) {
  return {parameter.role, parameter.block, parameter.expert, parameter.shared_expert, bias};
}

class GgufProvider final : public GgufWeightProvider {
 public:
  GgufProvider(std::shared_ptr<const GgufFile> file, const Architecture& architecture)
      : file_(std::move(file)), names_(gguf_architecture_of(*file_)) {
    tied_ = architecture.head.tied;
    for (const BlockSpec& block : architecture.blocks) add_block(block);
    for (const Parameter* const holder : bias_holders(architecture)) add_bias(*holder, 0);
    for (const NormSpec* const norm : norms(architecture)) add_norm(*norm);
  }

  bool contains(const std::string& tensor) const override {
    const auto first = vectors_.lower_bound({tensor, 0, 0, 0});
    if (first != vectors_.end() && std::get<0>(first->first) == tensor)
      return find_gguf_place(*file_, names_, first->second.parameter).has_value();
    return file_->find(tensor) != nullptr;
  }

  std::vector<float> vector(const Stored& stored) const override {
    const auto found = vectors_.find(key_of(stored));
    NIBBLE_REQUIRE(found != vectors_.end(), FormatError,
                   "missing tensor '{}' in '{}': nothing is known under that name", excerpt(stored.tensor),
                   file_->path().string());
    const Wanted& wanted = found->second;
    const GgufPlace place = find(wanted);
    const GgufRows rows = rows_in(place, wanted, stored.part.count, place.tensor->element_count());
    std::vector<float> values = gguf_vector(*file_, *place.tensor, rows);
    if (wanted.plus != 0.0)
      for (float& value : values) value = static_cast<float>(static_cast<double>(value) - wanted.plus);
    return values;
  }

  GgufExtent extent(const Parameter& parameter) const override {
    Wanted wanted{named_parameter(parameter, false), heads_of(parameter), 0.0};
    if (parameter.role == Role::kHead && tied_) wanted.parameter.role = Role::kEmbedding;
    const GgufPlace place = find(wanted);
    const GgufTensor& tensor = *place.tensor;
    NIBBLE_REQUIRE(tensor.shape.size() > 1 && tensor.cols() == parameter.in, FormatError,
                   "tensor '{}' of '{}': expected rows of {}, got shape {}", tensor.name, file_->path().string(),
                   parameter.in, shape_text(tensor.shape));
    return {&tensor, rows_in(place, wanted, parameter.out, tensor.rows())};
  }

  std::shared_ptr<const WeightSource> matrix(const Parameter& parameter) const override {
    const GgufExtent place = extent(parameter);
    return make_gguf_source(file_, *place.tensor, place.rows);
  }

  std::unique_ptr<LinearOp<float>> linear(const Parameter& parameter) const override {
    return std::make_unique<DecodingLinear>(matrix(parameter), bias_of(parameter, *this));
  }

 private:
  void add_block(const BlockSpec& block) {
    const AttentionSpec& attention = block.attention;
    if (names_.rotary == GgufArchitecture::Rotary::kInterleaved) {  // in blocks that turn nothing too
      heads_[attention.q.module] = attention.heads;
      heads_[attention.k.module] = attention.kv_heads;
    }
    for (const Parameter* const linear : linear_layers(block)) add_bias(*linear, heads_of(*linear));
    for (const LooseVector& vector : loose_vectors(block))
      vectors_[key_of(vector.values)] = {{vector.role, vector.block, {}, false, gguf_ends_in_bias(vector.role)}};
  }

  void add_bias(const Parameter& parameter, std::size_t heads) {
    if (!parameter.bias.tensor.empty())
      vectors_.try_emplace(key_of(parameter.bias), Wanted{named_parameter(parameter, true), heads});
  }

  void add_norm(const NormSpec& norm) {
    const double plus = names_.gain_plus_one ? norm.gain_offset : 0.0;
    for (std::size_t g = 0; g < norm.group_gains.size(); ++g)
      vectors_[key_of(norm.group_gains[g])] = {
          {norm.role, norm.block, {}, false, false}, 0, plus, norm.group_gains.size(), g};
    if (norm.gain) vectors_[key_of(*norm.gain)] = {{norm.role, norm.block, {}, false, false}, 0, plus};
    if (norm.bias) vectors_[key_of(*norm.bias)] = {{norm.role, norm.block, {}, false, true}};
  }

  std::size_t heads_of(const Parameter& parameter) const {
    const auto found = heads_.find(parameter.module);
    return found == heads_.end() ? 0 : found->second;
  }

  /// The tensor, or FormatError.
  GgufPlace find(const Wanted& wanted) const {
    if (const auto place = find_gguf_place(*file_, names_, wanted.parameter)) return *place;
    return {&file_->tensor(gguf_tensor_name(names_, wanted.parameter)), {}};
  }

  /// The `count` rows of what is wanted within a tensor that has `total`. Throws FormatError where it has another
  /// number.
  GgufRows rows_in(const GgufPlace& place, const Wanted& wanted, std::size_t count, std::size_t total) const {
    const GgufTensor& tensor = *place.tensor;
    using RowSet = GgufCandidate::Rows;
    std::size_t begin = 0;
    if (place.candidate.stacked) {
      const std::size_t stack = tensor.shape.empty() ? 1 : tensor.shape.front();
      NIBBLE_REQUIRE(wanted.parameter.expert.value_or(0) < stack, FormatError,
                     "tensor '{}' of '{}': expected more than {} experts, got shape {}", tensor.name,
                     file_->path().string(), wanted.parameter.expert.value_or(0), shape_text(tensor.shape));
      total /= stack;
      begin = wanted.parameter.expert.value_or(0) * total;
    }
    if (wanted.groups != 0) {
      NIBBLE_REQUIRE(total == wanted.groups * count, FormatError,
                     "tensor '{}' of '{}': expected {} for each of {} heads, got shape {}", tensor.name,
                     file_->path().string(), count, wanted.groups, shape_text(tensor.shape));
      total = count;
      begin = wanted.group * count;
    }
    const std::size_t behind = place.candidate.rows == RowSet::kBeforeLast ? 2 : 1;
    const bool fits = place.candidate.rows == RowSet::kAll ? total == count : total / behind >= count;
    NIBBLE_REQUIRE(fits, FormatError, "tensor '{}' of '{}': expected {}{} rows, got {} in shape {}", tensor.name,
                   file_->path().string(), place.candidate.rows == RowSet::kAll ? "" : "at least ", behind * count,
                   total, shape_text(tensor.shape));
    if (place.candidate.rows == RowSet::kBeforeLast || place.candidate.rows == RowSet::kLast)
      begin += total - behind * count;
    return {begin, count, wanted.heads};
  }

  std::shared_ptr<const GgufFile> file_;
  const GgufArchitecture& names_;
  bool tied_ = false;
  std::map<Key, Wanted> vectors_;
  std::map<std::string, std::size_t> heads_;  ///< by module of q or k
};

}  // namespace

const GgufArchitecture& gguf_architecture_of(const GgufFile& file) {
  const std::string& name = file.metadata().need_text("general.architecture");
  const GgufArchitecture* const found = find_gguf_architecture(name);
  NIBBLE_REQUIRE(found != nullptr, FormatError, "'{}': general.architecture is '{}'; {}", file.path().string(),
                 excerpt(name), unknown_gguf_architecture(name));
  return *found;
}

std::optional<GgufPlace> find_gguf_place(const GgufFile& file, const GgufArchitecture& architecture,
                                         const GgufParameter& parameter) {
  for (GgufCandidate& candidate : gguf_candidates(architecture, parameter))
    if (const GgufTensor* const tensor = file.find(candidate.name)) return GgufPlace{tensor, std::move(candidate)};
  return std::nullopt;
}

std::unique_ptr<GgufWeightProvider> make_gguf_provider(std::shared_ptr<const GgufFile> file,
                                                       const Architecture& architecture) {
  return std::make_unique<GgufProvider>(std::move(file), architecture);
}

}  // namespace nibble::model
