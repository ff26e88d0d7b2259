#include "export/coreml/type_inference.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

#include "core/checked_math.h"
#include "core/error.h"

namespace nibble::coreml {
namespace {

using Shape = std::vector<std::uint64_t>;
using Types = std::vector<TensorType>;

/// The operands of one operation, which ask for what they need.
class Call {
 public:
  Call(const std::string& operation, const Operands& operands) : operation_(operation), operands_(operands) {}

  [[noreturn]] void fail(const std::string& reason) const {
    throw FormatError(fmt::format("operation {}: {}", operation_, reason));
  }
  void require(bool condition, const std::string& reason) const {
    if (!condition) fail(reason);
  }

  bool has(const std::string& name) const { return operands_.contains(name); }
  const std::vector<Operand>& list(const std::string& name) const {
    const auto found = operands_.find(name);
    require(found != operands_.end() && !found->second.empty(), "operand '" + name + "' is missing");
    return found->second;
  }
  const Operand& operand(const std::string& name) const {
    const std::vector<Operand>& all = list(name);
    require(all.size() == 1, "operand '" + name + "' must be one value");
    return all.front();
  }
  const TensorType& tensor(const std::string& name) const {
    const Operand& one = operand(name);
    require(!one.type.state, "operand '" + name + "' is a state");
    return one.type.tensor;
  }
  const TensorType& floats(const std::string& name) const {
    const TensorType& type = tensor(name);
    require(type.type == DataType::kFloat16 || type.type == DataType::kFloat32,
            "operand '" + name + "' must be fp16 or fp32, got " + type_text(type));
    return type;
  }
  const TensorType& state(const std::string& name) const {
    const Operand& one = operand(name);
    require(one.type.state, "operand '" + name + "' must be a state");
    return one.type.tensor;
  }
  template <class T>
  const std::vector<T>& constant(const std::string& name) const {
    const Operand& one = operand(name);
    const auto* list = one.constant == nullptr ? nullptr : std::get_if<std::vector<T>>(&one.constant->data);
    require(list != nullptr, "operand '" + name + "' must be a constant");
    return *list;
  }
  template <class T>
  T scalar(const std::string& name) const {
    const std::vector<T>& list = constant<T>(name);
    require(list.size() == 1 && tensor(name).shape.empty(), "operand '" + name + "' must be a scalar");
    return list.front();
  }
  /// An axis of a tensor of `rank`, negative ones counted from the end.
  std::size_t axis(std::int64_t value, std::size_t rank) const {
    const auto n = static_cast<std::int64_t>(rank);
    require(value >= -n && value < n, fmt::format("axis {} of a tensor of rank {}", value, rank));
    return static_cast<std::size_t>(value < 0 ? value + n : value);
  }
  /// No other operands than these.
  void only(std::initializer_list<std::string_view> names) const {
    for (const auto& [name, list] : operands_)
      require(std::find(names.begin(), names.end(), name) != names.end(), "operand '" + name + "' is not known");
  }
  std::uint64_t broadcast(std::uint64_t a, std::uint64_t b) const {
    if (a == b || b == 1) return a;
    if (a == 1 || a == kUnknown) return b;
    require(b == kUnknown, fmt::format("dimensions {} and {} do not go together", a, b));
    return a;
  }
  Shape broadcast(const Shape& a, const Shape& b) const {
    const Shape &longer = a.size() >= b.size() ? a : b, &shorter = a.size() >= b.size() ? b : a;
    Shape out = longer;
    const std::size_t skip = longer.size() - shorter.size();
    for (std::size_t i = 0; i < shorter.size(); ++i) out[skip + i] = broadcast(longer[skip + i], shorter[i]);
    return out;
  }
  bool same(std::uint64_t a, std::uint64_t b) const { return a == b || a == kUnknown || b == kUnknown; }

 private:
  const std::string& operation_;
  const Operands& operands_;
};

Types elementwise(const Call& call, std::initializer_list<DataType> allowed) {
  call.only({"x", "y"});
  const TensorType &x = call.tensor("x"), &y = call.tensor("y");
  call.require(x.type == y.type, "x is " + type_text(x) + ", y is " + type_text(y));
  call.require(std::find(allowed.begin(), allowed.end(), x.type) != allowed.end(), "it takes no " + type_text(x));
  return {{x.type, call.broadcast(x.shape, y.shape)}};
}

Types arithmetic(const Call& call) {
  return elementwise(call, {DataType::kFloat16, DataType::kFloat32, DataType::kInt32});
}

Types comparison(const Call& call) {
  Types types = arithmetic(call);
  types.front().type = DataType::kBool;
  return types;
}

Types unary(const Call& call) {
  call.only({"x"});
  return {call.floats("x")};
}

Types shape_of(const Call& call) {
  call.only({"x"});
  return {{DataType::kInt32, {call.tensor("x").shape.size()}}};
}

Types gather(const Call& call) {
  call.only({"x", "indices", "axis", "batch_dims", "validate_indices"});
  const TensorType &x = call.tensor("x"), &indices = call.tensor("indices");
  call.require(indices.type == DataType::kInt32, "indices must be int32");
  call.require(call.scalar<std::int32_t>("batch_dims") == 0, "batch_dims must be 0");
  static_cast<void>(call.scalar<bool>("validate_indices"));
  const std::size_t axis = call.axis(call.scalar<std::int32_t>("axis"), x.shape.size());
  Shape shape(x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(axis));
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), x.shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.shape.end());
  return {{x.type, shape}};
}

Types range_1d(const Call& call) {
  call.only({"start", "end", "step"});
  for (const char* name : {"start", "end", "step"})
    call.require(call.tensor(name) == scalar_type(DataType::kInt32), std::string(name) + " must be an int32 scalar");
  return {{DataType::kInt32, {kUnknown}}};
}

Types expand_dims(const Call& call) {
  call.only({"x", "axes"});
  const TensorType& x = call.tensor("x");
  const auto& axes = call.constant<std::int32_t>("axes");
  std::set<std::size_t> places;
  for (const std::int32_t axis : axes) places.insert(call.axis(axis, x.shape.size() + axes.size()));
  call.require(places.size() == axes.size(), "an axis is named twice");
  Shape shape;
  auto next = x.shape.begin();
  for (std::size_t i = 0; i < x.shape.size() + axes.size(); ++i) shape.push_back(places.contains(i) ? 1 : *next++);
  return {{x.type, shape}};
}

Types reshape(const Call& call) {
  call.only({"x", "shape"});
  const TensorType& x = call.tensor("x");
  Shape shape;
  std::uint64_t known = 1, count = 1;
  std::ptrdiff_t open = -1;
  for (const std::int32_t n : call.constant<std::int32_t>("shape")) {
    call.require(n == -1 || n > 0, "a dimension of the shape must be -1 or positive");
    call.require(n != -1 || open < 0, "two dimensions of the shape are -1");
    if (n == -1)
      open = static_cast<std::ptrdiff_t>(shape.size());
    else
      known = checked_multiply(known, static_cast<std::uint64_t>(n), "shape of a reshape");
    shape.push_back(n == -1 ? kUnknown : static_cast<std::uint64_t>(n));
  }
  if (!x.is_static()) {
    call.require(open >= 0, "x has an unknown dimension and the shape has none");
    return {{x.type, shape}};
  }
  count = x.elements();
  call.require(open >= 0 ? count % known == 0 : count == known, type_text(x) + " does not fit the shape");
  if (open >= 0) shape[static_cast<std::size_t>(open)] = count / known;
  return {{x.type, shape}};
}

Types transpose(const Call& call) {
  call.only({"x", "perm"});
  const TensorType& x = call.tensor("x");
  const auto& order = call.constant<std::int32_t>("perm");
  Shape shape;
  std::set<std::size_t> seen;
  for (const std::int32_t from : order) {
    const std::size_t axis = call.axis(from, x.shape.size());
    seen.insert(axis);
    shape.push_back(x.shape[axis]);
  }
  call.require(order.size() == x.shape.size() && seen.size() == order.size(), "perm must name every axis once");
  return {{x.type, shape}};
}

Types concat(const Call& call) {
  call.only({"values", "axis", "interleave"});
  call.require(!call.scalar<bool>("interleave"), "interleave must be false");
  const auto& values = call.list("values");
  TensorType type = values.front().type.tensor;
  const std::size_t axis = call.axis(call.scalar<std::int32_t>("axis"), type.shape.size());
  std::uint64_t length = 0;
  for (const Operand& value : values) {
    const TensorType& one = value.type.tensor;
    call.require(!value.type.state && one.type == type.type && one.shape.size() == type.shape.size(),
                 "values of different types");
    length = length == kUnknown || one.shape[axis] == kUnknown ? kUnknown : length + one.shape[axis];
    for (std::size_t i = 0; i < type.shape.size(); ++i)
      call.require(i == axis || call.same(one.shape[i], type.shape[i]), "values of different shapes");
  }
  type.shape[axis] = length;
  return {type};
}

Types tile(const Call& call) {
  call.only({"x", "reps"});
  TensorType type = call.tensor("x");
  const auto& repeats = call.constant<std::int32_t>("reps");
  call.require(repeats.size() == type.shape.size(), "reps must have a number for every axis");
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    call.require(repeats[i] > 0, "a repeat must be positive");
    if (type.shape[i] != kUnknown) type.shape[i] *= static_cast<std::uint64_t>(repeats[i]);
  }
  return {type};
}

Types cast(const Call& call) {
  call.only({"x", "dtype"});
  const std::map<std::string, DataType> types{
      {"fp16", DataType::kFloat16}, {"fp32", DataType::kFloat32}, {"int32", DataType::kInt32}};
  const auto found = types.find(call.scalar<std::string>("dtype"));
  call.require(found != types.end(), "unknown dtype");
  return {{found->second, call.tensor("x").shape}};
}

// The slice that slice_by_index takes and slice_update replaces, squeezed axes left out.
Shape slice_shape(const Call& call) {
  const TensorType& x = call.tensor("x");
  const std::size_t rank = x.shape.size();
  for (const char* name : {"begin", "end"})
    call.require(call.tensor(name) == TensorType{DataType::kInt32, {rank}},
                 std::string(name) + " must be int32 with a number for every axis of x");
  if (call.has("stride"))
    for (const std::int32_t n : call.constant<std::int32_t>("stride")) call.require(n == 1, "strides must be 1");
  const auto flags = [&](const char* name) {
    if (!call.has(name)) return std::vector<bool>(rank);
    call.require(call.constant<bool>(name).size() == rank, std::string(name) + " must have a flag for every axis");
    return call.constant<bool>(name);
  };
  const auto begin_mask = flags("begin_mask"), end_mask = flags("end_mask"), squeeze = flags("squeeze_mask");
  const auto known = [&](const char* name) -> const std::vector<std::int32_t>* {
    const Operand& one = call.operand(name);
    return one.constant == nullptr ? nullptr : std::get_if<std::vector<std::int32_t>>(&one.constant->data);
  };
  const auto *begin = known("begin"), *end = known("end");
  Shape shape;
  for (std::size_t i = 0; i < rank; ++i) {
    if (squeeze[i]) continue;
    const std::uint64_t n = x.shape[i];
    const auto bound = [&](const std::vector<std::int32_t>* list) {
      const std::int64_t at = (*list)[i];
      const std::uint64_t place = at < 0 ? n - static_cast<std::uint64_t>(-at) : static_cast<std::uint64_t>(at);
      call.require(n == kUnknown || place <= n, fmt::format("index {} on an axis of {}", at, n));
      return place;
    };
    const bool from_start = begin_mask[i], to_end = end_mask[i];
    if (from_start && to_end) {
      shape.push_back(n);
    } else if (n == kUnknown || (!from_start && begin == nullptr) || (!to_end && end == nullptr)) {
      shape.push_back(kUnknown);
    } else {
      const std::uint64_t low = from_start ? 0 : bound(begin), high = to_end ? n : bound(end);
      call.require(low < high, fmt::format("an empty slice, {} to {}", low, high));
      shape.push_back(high - low);
    }
  }
  return shape;
}

Types slice_by_index(const Call& call) {
  call.only({"x", "begin", "end", "stride", "begin_mask", "end_mask", "squeeze_mask"});
  return {{call.tensor("x").type, slice_shape(call)}};
}

Types slice_update(const Call& call) {
  call.only({"x", "update", "begin", "end", "stride", "begin_mask", "end_mask", "squeeze_mask"});
  for (const char* name : {"stride", "begin_mask", "end_mask", "squeeze_mask"}) static_cast<void>(call.operand(name));
  const TensorType &x = call.tensor("x"), &update = call.tensor("update");
  const Shape slice = slice_shape(call);
  bool fits = update.type == x.type && !update.shape.empty() && update.shape.size() == slice.size();
  for (std::size_t i = 0; fits && i < slice.size(); ++i) fits = call.same(update.shape[i], slice[i]);
  call.require(fits, "an update of " + type_text(update) + " for a slice of " + type_text({x.type, slice}));
  return {x};
}

Types linear(const Call& call) {
  call.only({"x", "weight", "bias"});
  const TensorType &x = call.floats("x"), &weight = call.floats("weight"), &bias = call.floats("bias");
  call.require(!x.shape.empty() && x.shape.size() <= 3 && weight.shape.size() == 2 && bias.type == weight.type &&
                   bias.shape == Shape{weight.shape[0]} && call.same(x.shape.back(), weight.shape[1]),
               type_text(x) + ", " + type_text(weight) + " and " + type_text(bias) + " do not go together");
  Shape shape = x.shape;
  shape.back() = weight.shape[0];
  return {{x.type, shape}};
}

Types matmul(const Call& call) {
  call.only({"x", "y", "transpose_x", "transpose_y"});
  const TensorType &x = call.floats("x"), &y = call.floats("y");
  call.require(x.type == y.type && x.shape.size() == y.shape.size() && x.shape.size() >= 2,
               type_text(x) + " and " + type_text(y) + " do not go together");
  call.require(!call.scalar<bool>("transpose_x"), "transpose_x must be false");
  const bool across = call.scalar<bool>("transpose_y");
  const std::size_t last = x.shape.size() - 1;
  call.require(call.same(x.shape[last], y.shape[across ? last : last - 1]),
               type_text(x) + " and " + type_text(y) + " do not go together");
  Shape shape = call.broadcast(Shape(x.shape.begin(), x.shape.end() - 2), Shape(y.shape.begin(), y.shape.end() - 2));
  shape.push_back(x.shape[last - 1]);
  shape.push_back(y.shape[across ? last - 1 : last]);
  return {{x.type, shape}};
}

Types softmax(const Call& call) {
  call.only({"x", "axis"});
  const TensorType& x = call.floats("x");
  static_cast<void>(call.axis(call.scalar<std::int32_t>("axis"), x.shape.size()));
  return {x};
}

Types attention(const Call& call) {
  call.only({"query", "key", "value", "attn_mask"});
  const TensorType &q = call.floats("query"), &k = call.floats("key"), &v = call.floats("value"),
                   &mask = call.floats("attn_mask");
  const std::size_t rank = q.shape.size();
  call.require(rank >= 3 && k.shape.size() == rank && v.shape.size() == rank && k.type == q.type && v.type == q.type &&
                   mask.type == q.type,
               "query, key, value and mask of different ranks or types");
  // No heads are repeated here: leading dimensions are equal.
  for (std::size_t i = 0; i + 2 < rank; ++i)
    call.require(q.shape[i] == k.shape[i] && q.shape[i] == v.shape[i], "query, key and value of different heads");
  call.require(call.same(k.shape[rank - 2], v.shape[rank - 2]) && q.shape.back() == k.shape.back(),
               "key and value, or key and query, do not go together");
  Shape scores = q.shape;
  scores.back() = k.shape[rank - 2];
  call.require(mask.shape.size() <= rank, "a mask of too many dimensions");
  static_cast<void>(call.broadcast(scores, mask.shape));
  Shape shape = q.shape;
  shape.back() = v.shape.back();
  return {{q.type, shape}};
}

Types layer_norm(const Call& call) {
  call.only({"x", "axes", "gamma", "beta", "epsilon"});
  const TensorType &x = call.floats("x"), &epsilon = call.floats("epsilon");
  const auto& axes = call.constant<std::int32_t>("axes");
  call.require(axes.size() == 1 && call.axis(axes[0], x.shape.size()) + 1 == x.shape.size(),
               "it must be over the last axis");
  for (const char* name : {"gamma", "beta"})
    if (call.has(name))
      call.require(call.tensor(name) == TensorType{epsilon.type, {x.shape.back()}},
                   std::string(name) + " must have epsilon's type and the last axis's length");
  return {x};
}

Types reduce_mean(const Call& call) {
  call.only({"x", "axes", "keep_dims"});
  TensorType x = call.floats("x");
  const auto& axes = call.constant<std::int32_t>("axes");
  call.require(
      axes.size() == 1 && call.axis(axes[0], x.shape.size()) + 1 == x.shape.size() && call.scalar<bool>("keep_dims"),
      "it must be over the last axis, which stays");
  x.shape.back() = 1;
  return {x};
}

Types rsqrt(const Call& call) {
  call.only({"x", "epsilon"});
  call.require(call.floats("epsilon").shape.empty(), "epsilon must be a scalar");
  return {call.floats("x")};
}

Types gelu(const Call& call) {
  call.only({"x", "mode"});
  const std::string mode = call.scalar<std::string>("mode");
  call.require(mode == "EXACT" || mode == "TANH_APPROXIMATION", "unknown mode '" + mode + "'");
  return {call.floats("x")};
}

Types read_state(const Call& call) {
  call.only({"input"});
  return {call.state("input")};
}

Types write_state(const Call& call) {
  call.only({"input", "data"});
  call.require(call.state("input") == call.tensor("data"),
               type_text(call.tensor("data")) + " written to a state of " + type_text(call.state("input")));
  return {};
}

Types lut_to_dense(const Call& call) {
  call.only({"indices", "lut", "vector_axis"});
  const TensorType &indices = call.tensor("indices"), &lut = call.tensor("lut");
  const unsigned bits = data_type_bits(indices.type);
  const std::size_t rank = indices.shape.size();
  call.require(bits >= 1 && bits <= 8 && indices.type == unsigned_type(bits) && lut.type == DataType::kFloat16,
               "indices of " + type_text(indices) + ", tables of " + type_text(lut));
  call.require(lut.shape.size() == rank + 2 && lut.shape[rank] == std::uint64_t{1} << bits,
               "tables of " + type_text(lut) + " for indices of " + type_text(indices));
  for (std::size_t i = 0; i < rank; ++i)
    call.require(lut.shape[i] != 0 && indices.shape[i] % lut.shape[i] == 0, "tables do not divide the indices");
  TensorType out{lut.type, indices.shape};
  const std::uint64_t length = lut.shape[rank + 1];
  call.require(call.has("vector_axis") == (length > 1), "vector_axis must be there exactly for vectors");
  if (length > 1) out.shape[call.axis(call.scalar<std::int32_t>("vector_axis"), rank)] *= length;
  return {out};
}

Types blockwise(const Call& call) {
  call.only({"data", "scale", "offset"});
  const TensorType &data = call.tensor("data"), &scale = call.tensor("scale");
  const bool integers = data.type == DataType::kInt4 || data.type == DataType::kUInt4 || data.type == DataType::kInt8 ||
                        data.type == DataType::kUInt8;
  call.require(integers && scale.type == DataType::kFloat16 && scale.shape.size() == data.shape.size(),
               "data of " + type_text(data) + ", scale of " + type_text(scale));
  for (std::size_t i = 0; i < data.shape.size(); ++i)
    call.require(scale.shape[i] != 0 && data.shape[i] % scale.shape[i] == 0, "scales do not divide the data");
  if (call.has("offset"))
    call.require(call.tensor("offset") == TensorType{data.type, scale.shape},
                 "offset must be like the data, one a scale");
  return {{scale.type, data.shape}};
}

const std::map<std::string, std::function<Types(const Call&)>, std::less<>>& rules() {
  static const std::map<std::string, std::function<Types(const Call&)>, std::less<>> table{
      {"add", arithmetic},
      {"sub", arithmetic},
      {"mul", arithmetic},
      {"maximum", arithmetic},
      {"minimum", arithmetic},
      {"less", comparison},
      {"greater_equal", comparison},
      {"silu", unary},
      {"sigmoid", unary},
      {"tanh", unary},
      {"relu", unary},
      {"gelu", gelu},
      {"shape", shape_of},
      {"gather", gather},
      {"range_1d", range_1d},
      {"expand_dims", expand_dims},
      {"reshape", reshape},
      {"transpose", transpose},
      {"concat", concat},
      {"tile", tile},
      {"cast", cast},
      {"slice_by_index", slice_by_index},
      {"slice_update", slice_update},
      {"linear", linear},
      {"matmul", matmul},
      {"softmax", softmax},
      {"scaled_dot_product_attention", attention},
      {"layer_norm", layer_norm},
      {"reduce_mean", reduce_mean},
      {"rsqrt", rsqrt},
      {"read_state", read_state},
      {"write_state", write_state},
      {"constexpr_lut_to_dense", lut_to_dense},
      {"constexpr_blockwise_shift_scale", blockwise},
  };
  return table;
}

}  // namespace

std::vector<TensorType> infer_types(const std::string& operation, const Operands& operands) {
  const auto rule = rules().find(operation);
  NIBBLE_REQUIRE(rule != rules().end(), FormatError, "operation '{}' is not one that networks are built from",
                 operation);
  return rule->second(Call(operation, operands));
}

}  // namespace nibble::coreml
