#include "model/rotate/rotated_weights.h"

#include <algorithm>
#include <list>
#include <map>
#include <tuple>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "model/checkpoint/weights.h"
#include "model/rotate/rotated_sources.h"
#include "model/rotate/rotation.h"

namespace nibble::model {
namespace {

std::vector<double> doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }
std::vector<float> floats(const std::vector<double>& values) {
  std::vector<float> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), [](double value) { return static_cast<float>(value); });
  return result;
}

// bias + W b.
std::vector<double> with_product(std::vector<double> bias, const WeightSource& weight, const std::vector<double>& b) {
  parallel_for_tiles(weight.rows(), 32, [&](std::size_t begin, std::size_t end) {
    std::vector<float> rows((end - begin) * weight.cols());
    weight.decode_rows(begin, end, rows.data());
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t j = 0; j < b.size(); ++j)
        bias[i] += static_cast<double>(rows[(i - begin) * b.size() + j]) * b[j];
  });
  weight.release();
  return bias;
}

class RotatedProvider final : public WeightProvider {
 public:
  RotatedProvider(const Architecture& from, const Architecture& to, const WeightProvider& weights,
                  const RotationOptions& options)
      : weights_(weights), residual_(from.hidden, options.seed, subtracts_mean(from)) {
    for (const Parameter* p : matrices(from)) parameters_[p->module] = p;
    parameters_[from.head.linear.module] = &from.head.linear;
    if (!to.head.tied) own_head_ = to.head.linear.weight.tensor;
    const Parts stream{&residual_};
    change(from.embedding).inputs = stream;
    if (from.positions) change(*from.positions).inputs = stream;
    for (const NormReaders& place : residual_readers(from)) read(place, stream);
    for (const BlockSpec& block : from.blocks) write(block, stream, options);
    if (to.head.tied) changes_[to.head.linear.module] = changes_.at(from.embedding.module);
  }

  bool contains(const std::string& tensor) const override {
    return weights_.contains(tensor) || (!own_head_.empty() && tensor == own_head_);
  }

  std::vector<float> vector(const Stored& stored) const override {
    const auto changed = vectors_.find(key(stored));
    return changed != vectors_.end() ? changed->second : weights_.vector(stored);
  }

  std::shared_ptr<const WeightSource> matrix(const Parameter& parameter) const override {
    const Parameter& original = *parameters_.at(parameter.module);
    const auto change = changes_.find(parameter.module);
    if (change == changes_.end()) return weights_.matrix(original);
    return make_rotated_source(weights_.matrix(original), change->second);
  }

  std::unique_ptr<LinearOp<float>> linear(const Parameter& parameter) const override {
    return std::make_unique<DecodingLinear>(matrix(parameter), bias_of(parameter, *this));
  }

 private:
  using Place = std::tuple<std::string, std::size_t, std::size_t>;  ///< tensor, slice, first row

  WeightChange& change(const Parameter& parameter) { return changes_[parameter.module]; }

  bool has_bias(const Parameter& parameter) const {
    return parameter.biased || (!parameter.bias.tensor.empty() && weights_.contains(parameter.bias.tensor));
  }

  static Place key(const Stored& stored) { return {stored.tensor, stored.slice, stored.part.first}; }
  void set(const Stored& stored, const std::vector<double>& values) { vectors_[key(stored)] = floats(values); }

  void read(const NormReaders& place, const Parts& stream) {
    for (const Parameter* reader : place.readers) change(*reader).inputs = stream;
    if (place.norm == nullptr) return;
    const NormSpec& norm = *place.norm;
    std::vector<double> gain(norm.width, 1.0 + norm.gain_offset);
    if (norm.gain) {
      const std::vector<float> stored = weights_.vector(*norm.gain);
      for (std::size_t j = 0; j < gain.size(); ++j) gain[j] = static_cast<double>(stored[j]) + norm.gain_offset;
      for (const Parameter* reader : place.readers) change(*reader).gain = gain;
      set(*norm.gain, std::vector<double>(norm.width, 1.0 - norm.gain_offset));
    } else {
      std::fill(gain.begin(), gain.end(), 1.0);
    }
    if (norm.bias) move_bias(place, gain, stream);
  }

  void move_bias(const NormReaders& place, const std::vector<double>& gain, const Parts& stream) {
    const NormSpec& norm = *place.norm;
    std::vector<double> bias = doubles(weights_.vector(*norm.bias));
    const auto biased = [&](const Parameter* reader) { return has_bias(*reader); };
    if (std::all_of(place.readers.begin(), place.readers.end(), biased)) {
      for (const Parameter* reader : place.readers)
        set(reader->bias, with_product(doubles(weights_.vector(reader->bias)), *weights_.matrix(*reader), bias));
      std::fill(bias.begin(), bias.end(), 0.0);
    } else {
      for (std::size_t j = 0; j < bias.size(); ++j) {
        NIBBLE_REQUIRE(gain[j] != 0.0 || bias[j] == 0.0, InvalidArgument,
                       "cannot rotate: {} has the gain 0 and the bias {} at {}, and what reads it has no biases",
                       norm.module, bias[j], j);
        if (gain[j] != 0.0) bias[j] /= gain[j];
      }
      rotate_parts(stream, bias);
    }
    set(*norm.bias, bias);
  }

  void write(const BlockSpec& block, const Parts& stream, const RotationOptions& options) {
    write(block.attention.o, stream);
    if (block.mlp) write(block.mlp->down, stream);
    if (block.experts) {
      for (const MlpSpec& expert : block.experts->experts) write(expert.down, stream);
      if (block.experts->shared) write(block.experts->shared->down, stream);
    }
    const AttentionSpec& attention = block.attention;
    if (!options.values || attention.clip != 0.0) return;  // what is clamped must stay what it is
    Parts of_values, of_outputs;
    for (std::size_t head = 0; head < attention.kv_heads; ++head) {
      // As many draws as there are heads in the network: each its own.
      of_values.push_back(&heads_.emplace_back(attention.head_dim, options.seed + 1 + heads_.size()));
      of_outputs.insert(of_outputs.end(), attention.heads / attention.kv_heads, of_values.back());
    }
    change(attention.v).outputs = of_values;
    change(attention.o).inputs = of_outputs;
    if (!has_bias(attention.v)) return;
    std::vector<double> bias = doubles(vector(attention.v.bias));
    rotate_parts(of_values, bias);
    set(attention.v.bias, bias);
  }

  void write(const Parameter& writer, const Parts& stream) {
    change(writer).outputs = stream;
    if (!has_bias(writer)) return;
    std::vector<double> bias = doubles(weights_.vector(writer.bias));
    rotate_parts(stream, bias);
    set(writer.bias, bias);
  }

  const WeightProvider& weights_;
  Rotation residual_;
  std::list<Rotation> heads_;
  std::map<std::string, const Parameter*> parameters_;  ///< of `from`, by module
  std::map<std::string, WeightChange> changes_;
  std::map<Place, std::vector<float>> vectors_;
  std::string own_head_;
};

}  // namespace

std::unique_ptr<WeightProvider> make_rotated_provider(const Architecture& from, const Architecture& to,
                                                      const WeightProvider& weights, const RotationOptions& options) {
  const std::string reason = why_not_rotatable(from);
  NIBBLE_REQUIRE(reason.empty(), InvalidArgument, "cannot rotate: {}, and its gain does not commute with a rotation",
                 reason);
  return std::make_unique<RotatedProvider>(from, to, weights, options);
}

}  // namespace nibble::model
