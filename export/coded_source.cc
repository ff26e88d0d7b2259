#include "export/coded_source.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/text/json.h"
#include "core/text/strict_json.h"
#include "model/checkpoint/tensor_text.h"

namespace nibble::exporting {
namespace {

using model::Parameter;
using model::Stored;
using model::TensorView;

constexpr DType kFloats[] = {DType::kF16, DType::kBF16, DType::kF32};

class DirectoryReader final : public model::WeightProvider {
 public:
  DirectoryReader(const DirectoryReading& reading, const std::filesystem::path& directory,
                  const model::Architecture& architecture)
      : reading_(reading), architecture_(architecture), checkpoint_(model::Checkpoint::open(directory)) {
    config_ = parse_strict_json(checkpoint_->metadata(), directory.string() + ": config.json");
    NIBBLE_REQUIRE(config_.is_object(), FormatError, "{}: config.json: expected an object", directory.string());
    for (const Parameter* p : model::matrices(architecture))
      if (is_expert_stack(reading.families, architecture, *p))
        stacked_biases_[{p->bias.tensor, p->bias.slice, p->bias.part.first}] = p;
  }

  bool contains(const std::string& tensor) const override {
    return checkpoint_->contains(output_name(reading_.families, architecture_, tensor)) ||
           std::any_of(stacked_biases_.begin(), stacked_biases_.end(), [&](const auto& entry) {
             return std::get<0>(entry.first) == tensor && checkpoint_->contains(module_of(*entry.second) + ".bias");
           });
  }

  std::vector<float> vector(const Stored& stored) const override {
    const auto found = stacked_biases_.find({stored.tensor, stored.slice, stored.part.first});
    if (found != stacked_biases_.end()) {
      const Parameter& p = *found->second;
      const TensorView view =
          require_tensor(*checkpoint_, module_of(p) + ".bias", kFloats, {p.out}, expert_count(p), *p.expert);
      return floats_of(view);
    }
    const TensorView view = require_tensor(*checkpoint_, output_name(reading_.families, architecture_, stored.tensor),
                                           kFloats, {stored.rows}, stored.slices, stored.slice);
    const std::vector<float> whole = floats_of(view);
    std::vector<float> values(stored.part.count);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = whole.at(stored.part.row(i));
    return values;
  }

  std::shared_ptr<const WeightSource> matrix(const Parameter& p) const override {
    const std::string module = module_of(p);
    const bool stack = is_expert_stack(reading_.families, architecture_, p);
    const Stored& place = p.weight;
    WantedMatrix wanted{module, place.rows, place.cols, place.slices, place.slice};
    if (stack) wanted = {module, p.out, p.in, expert_count(p), *p.expert};
    const bool apart = is_taken_apart(reading_.families, architecture_, p);
    if (apart) wanted = {module, p.out, p.in};
    std::shared_ptr<const WeightSource> whole;
    if (checkpoint_->contains(module + "." + std::string(reading_.mark))) {
      whole = reading_.source(checkpoint_, config_, wanted);
    } else {
      const bool transposed = place.transposed && !stack && !reading_.out_in;
      const std::string name =
          stack || reading_.out_in ? module + ".weight" : output_name(reading_.families, architecture_, place.tensor);
      std::vector<std::uint64_t> shape{wanted.rows, wanted.cols};
      if (transposed) std::swap(shape[0], shape[1]);
      whole = model::make_mapped_source(
          checkpoint_, require_tensor(*checkpoint_, name, kFloats, shape, wanted.slices, wanted.slice), transposed);
    }
    const bool all =
        stack || apart || (place.part.is_contiguous() && place.part.first == 0 && place.part.count == place.rows);
    return all ? whole : model::make_row_set_source(std::move(whole), place.part);
  }

  std::unique_ptr<LinearOp<float>> linear(const Parameter& p) const override {
    return std::make_unique<DecodingLinear>(matrix(p), model::bias_of(p, *this));
  }

 private:
  std::string module_of(const Parameter& p) const { return output_module(reading_.families, architecture_, p); }
  std::size_t expert_count(const Parameter& p) const { return architecture_.blocks[p.block].experts->experts.size(); }

  std::vector<float> floats_of(const TensorView& view) const {
    std::vector<float> values(view.element_count());
    convert_to_f32(view.dtype, view.data.data(), values.size(), values.data());
    checkpoint_->check_intact(view);
    return values;
  }

  const DirectoryReading& reading_;
  const model::Architecture& architecture_;
  std::shared_ptr<const model::Checkpoint> checkpoint_;
  nlohmann::json config_;
  std::map<std::tuple<std::string, std::size_t, std::size_t>, const Parameter*> stacked_biases_;
};

class RowStreamSource final : public CodedSource {
 public:
  RowStreamSource(std::shared_ptr<const model::Checkpoint> checkpoint, std::size_t cols, unsigned bits,
                  std::vector<TensorView> views, Matrix<std::uint8_t> zeros)
      : CodedSource(std::move(checkpoint), views, views[0].shape[0], cols, views[1].shape[1]),
        bits_(bits),
        views_(std::move(views)),
        zeros_(std::move(zeros)) {}

 private:
  void codes(std::size_t begin, std::size_t end, std::span<std::uint8_t> codes) const override {
    const std::size_t width = views_[0].shape[1];
    std::vector<std::uint32_t> words(width);
    for (std::size_t i = begin; i < end; ++i) {
      for (std::size_t j = 0; j < width; ++j) words[j] = element<std::uint32_t>(views_[0], i * width + j);
      read_stream(words, bits_, codes.subspan((i - begin) * cols(), cols()));
    }
  }
  void affine(std::size_t row, std::span<float> scales, std::span<float> offsets) const override {
    floats(views_[1], row, scales);
    if (views_.size() > 2) return floats(views_[2], row, offsets);
    for (std::size_t g = 0; g < groups(); ++g) offsets[g] = -static_cast<float>(zeros_(g, row)) * scales[g];
  }
  void floats(const TensorView& view, std::size_t row, std::span<float> values) const {
    convert_to_f32(view.dtype, view.data.data() + row * groups() * dtype_size(view.dtype), groups(), values.data());
  }

  unsigned bits_;
  std::vector<TensorView> views_;  // streams, scales, and offsets where there are some
  Matrix<std::uint8_t> zeros_;
};

}  // namespace

CodedSource::CodedSource(std::shared_ptr<const model::Checkpoint> checkpoint, std::vector<TensorView> views,
                         std::size_t rows, std::size_t cols, std::size_t groups)
    : checkpoint_(std::move(checkpoint)), views_(std::move(views)), rows_(rows), cols_(cols), groups_(groups) {}

void CodedSource::decode_rows(std::size_t begin, std::size_t end, float* destination) const {
  NIBBLE_REQUIRE(begin <= end && end <= rows_, InvalidArgument, "weight source: rows [{}, {}) of {}", begin, end,
                 rows_);
  std::vector<std::uint8_t> codes_of_rows((end - begin) * cols_);
  codes(begin, end, codes_of_rows);
  std::vector<float> scales(groups_), offsets(groups_);
  std::vector<std::uint32_t> group(cols_);
  for (std::size_t j = 0; j < cols_; ++j) group[j] = static_cast<std::uint32_t>(group_of(j));
  for (std::size_t i = begin; i < end; ++i) {
    affine(i, scales, offsets);
    const std::uint8_t* row = codes_of_rows.data() + (i - begin) * cols_;
    float* out = destination + (i - begin) * cols_;
    for (std::size_t j = 0; j < cols_; ++j) out[j] = static_cast<float>(row[j]) * scales[group[j]] + offsets[group[j]];
  }
  check_intact();
}

void CodedSource::release() const {
  for (const TensorView& view : views_) checkpoint_->release(view);
}

void CodedSource::check_intact() const {
  for (const TensorView& view : views_) checkpoint_->check_intact(view);
}

std::shared_ptr<const WeightSource> make_row_stream_source(std::shared_ptr<const model::Checkpoint> checkpoint,
                                                           std::size_t cols, unsigned bits, TensorView streams,
                                                           TensorView scales, std::optional<TensorView> offsets,
                                                           Matrix<std::uint8_t> zeros) {
  std::vector<TensorView> views{std::move(streams), std::move(scales)};
  if (offsets) views.push_back(std::move(*offsets));
  return std::make_shared<RowStreamSource>(std::move(checkpoint), cols, bits, std::move(views), std::move(zeros));
}

void read_stream(std::span<const std::uint32_t> words, unsigned bits, std::span<std::uint8_t> codes) {
  const std::uint64_t mask = (1u << bits) - 1;
  std::uint64_t buffer = 0;
  unsigned held = 0;
  std::size_t next = 0;
  for (std::uint8_t& code : codes) {
    if (held < bits) {
      buffer |= static_cast<std::uint64_t>(words[next++]) << held;
      held += 32;
    }
    code = static_cast<std::uint8_t>(buffer & mask);
    buffer >>= bits;
    held -= bits;
  }
}

template <class T>
T element(const TensorView& view, std::size_t index) {
  T value;
  std::memcpy(&value, view.data.data() + index * sizeof(T), sizeof(T));
  return value;
}
template std::uint16_t element(const TensorView&, std::size_t);
template std::uint32_t element(const TensorView&, std::size_t);
template std::int32_t element(const TensorView&, std::size_t);
template std::int64_t element(const TensorView&, std::size_t);

std::size_t group_size_of(const JsonFields& fields, std::size_t cols) {
  const nlohmann::json& size = fields.at("group_size", "a number");
  NIBBLE_REQUIRE(size == -1 || (size.is_number_unsigned() && size > 0), FormatError,
                 "{}: group_size: expected -1 or a positive number, got {}", fields.what(), size.dump());
  return size == -1 ? cols : size.get<std::size_t>();
}

TensorView require_tensor(const model::Checkpoint& checkpoint, const std::string& name, std::span<const DType> dtypes,
                          const std::vector<std::uint64_t>& shape, std::size_t slices, std::size_t slice) {
  TensorView view = checkpoint.tensor(name);
  std::vector<std::uint64_t> expected = shape;
  if (slices > 0) expected.insert(expected.begin(), slices);
  NIBBLE_REQUIRE(view.shape == expected, FormatError, "tensor '{}' of '{}': expected shape {}, got {}", name,
                 checkpoint.directory().string(), model::shape_text(expected), model::shape_text(view.shape));
  NIBBLE_REQUIRE(std::find(dtypes.begin(), dtypes.end(), view.dtype) != dtypes.end(), FormatError,
                 "tensor '{}' of '{}': expected {}, got {}", name, checkpoint.directory().string(),
                 dtype_name(dtypes.front()), dtype_name(view.dtype));
  if (slices == 0) return view;
  const std::size_t bytes = view.data.size() / slices;
  view.data = view.data.subspan(slice * bytes, bytes);
  view.shape.erase(view.shape.begin());
  return view;
}

std::unique_ptr<model::WeightProvider> read_directory(const DirectoryReading& reading,
                                                      const std::filesystem::path& directory,
                                                      const model::Architecture& architecture) {
  return std::make_unique<DirectoryReader>(reading, directory, architecture);
}

}  // namespace nibble::exporting
