#include "tests/export/coreml/mil_interpreter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "core/matrix/dtype.h"
#include "export/coreml/constant_source.h"

namespace nibble::test {
namespace {

using coreml::Operation;
using coreml::Value;
using Shape = std::vector<std::size_t>;

std::size_t count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

Shape shape_of(const coreml::TensorType& type) { return {type.shape.begin(), type.shape.end()}; }

// The index of element `flat` of `shape` in an array of shape `other`, aligned at the end, whose axes of 1 repeat.
std::size_t broadcast_index(std::size_t flat, const Shape& shape, const Shape& other) {
  std::size_t index = 0, stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    const std::size_t at = flat % shape[i];
    flat /= shape[i];
    if (shape.size() - i > other.size()) continue;
    const std::size_t n = other[other.size() - (shape.size() - i)];
    index += (n == 1 ? 0 : at) * stride;
    stride *= n;
  }
  return index;
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  Shape out = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    std::size_t& n = out[out.size() - shorter.size() + i];
    if (n != shorter[i] && n != 1 && shorter[i] != 1) throw std::runtime_error("shapes do not go together");
    n = std::max(n, shorter[i]);
  }
  return out;
}

template <class Function>
Array elementwise(const Array& x, const Array& y, Function&& function) {
  Array out{broadcast_shape(x.shape, y.shape), {}};
  for (std::size_t i = 0; i < count_of(out.shape); ++i)
    out.values.push_back(
        function(x.values[broadcast_index(i, out.shape, x.shape)], y.values[broadcast_index(i, out.shape, y.shape)]));
  return out;
}

template <class Function>
Array mapped(Array x, Function&& function) {
  for (double& value : x.values) value = function(value);
  return x;
}

// x (…, m, k) by y (…, k, n), or (…, n, k) across.
Array product(const Array& x, const Array& y, bool across) {
  const std::size_t rank = x.shape.size(), m = x.shape[rank - 2], k = x.shape[rank - 1],
                    n = y.shape[across ? rank - 2 : rank - 1];
  if (y.shape[across ? rank - 1 : rank - 2] != k) throw std::runtime_error("matmul: inner dimensions differ");
  const Shape heads_x(x.shape.begin(), x.shape.end() - 2), heads_y(y.shape.begin(), y.shape.end() - 2);
  Shape heads = broadcast_shape(heads_x, heads_y), shape = heads;
  shape.push_back(m), shape.push_back(n);
  Array out{shape, std::vector<double>(count_of(shape))};
  for (std::size_t h = 0; h < count_of(heads); ++h) {
    const double* a = x.values.data() + broadcast_index(h, heads, heads_x) * m * k;
    const double* b = y.values.data() + broadcast_index(h, heads, heads_y) * k * n;
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0.0;
        for (std::size_t l = 0; l < k; ++l) sum += a[i * k + l] * (across ? b[j * k + l] : b[l * n + j]);
        out.values[(h * m + i) * n + j] = sum;
      }
  }
  return out;
}

Array softmax(Array x) {
  const std::size_t n = x.shape.back();
  for (std::size_t r = 0; r < x.values.size(); r += n) {
    const auto row = x.values.begin() + static_cast<std::ptrdiff_t>(r), end = row + static_cast<std::ptrdiff_t>(n);
    const double largest = *std::max_element(row, end);
    double sum = 0.0;
    for (auto v = row; v != end; ++v) sum += * v = std::exp(*v - largest);
    for (auto v = row; v != end; ++v) *v /= sum;
  }
  return x;
}

Array transposed(const Array& x, const Array& order) {
  Array out;
  std::vector<std::size_t> strides(x.shape.size(), 1), step;
  for (std::size_t i = x.shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * x.shape[i + 1];
  for (const double axis : order.values) {
    out.shape.push_back(x.shape[static_cast<std::size_t>(axis)]);
    step.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    std::size_t flat = i, from = 0;
    for (std::size_t a = out.shape.size(); a-- > 0; flat /= out.shape[a]) from += flat % out.shape[a] * step[a];
    out.values.push_back(x.values[from]);
  }
  return out;
}

Array joined(const std::vector<const Array*>& arrays, std::size_t axis) {
  Array out{arrays.front()->shape, {}};
  out.shape[axis] = 0;
  std::size_t outer = 1, inner = 1;
  for (std::size_t i = 0; i < axis; ++i) outer *= out.shape[i];
  for (std::size_t i = axis + 1; i < out.shape.size(); ++i) inner *= out.shape[i];
  for (const Array* array : arrays) out.shape[axis] += array->shape[axis];
  for (std::size_t o = 0; o < outer; ++o)
    for (const Array* array : arrays) {
      const std::size_t piece = array->shape[axis] * inner;
      const auto from = array->values.begin() + static_cast<std::ptrdiff_t>(o * piece);
      out.values.insert(out.values.end(), from, from + static_cast<std::ptrdiff_t>(piece));
    }
  return out;
}

double gelu(double x, bool exact) {
  if (exact) return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

/// Operands of an operation by name.
struct Call {
  const Operation& operation;
  std::map<std::string, std::vector<const Array*>> arrays;
  std::map<std::string, std::string> texts;

  bool has(const char* name) const { return arrays.contains(name); }
  const Array& get(const char* name) const { return *arrays.at(name).front(); }
  double scalar(const char* name) const { return get(name).values.at(0); }
  std::size_t axis(const char* name, std::size_t rank) const {
    const double axis = scalar(name);
    return static_cast<std::size_t>(axis < 0 ? axis + static_cast<double>(rank) : axis);
  }
};

/// Which elements of x a slice takes, in order, and the shape they have.
struct Slice {
  Shape shape;
  std::vector<std::size_t> elements;
};
Slice slice_of(const Call& call) {
  const Array& x = call.get("x");
  const std::size_t rank = x.shape.size();
  const auto flag = [&](const char* name, std::size_t i) { return call.has(name) && call.get(name).values[i] != 0.0; };
  Slice slice;
  std::vector<std::size_t> low(rank), count(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const auto place = [&](const char* name) {
      const double at = call.get(name).values[i];
      return static_cast<std::size_t>(at < 0 ? at + static_cast<double>(x.shape[i]) : at);
    };
    const bool squeezed = flag("squeeze_mask", i);
    low[i] = flag("begin_mask", i) && !squeezed ? 0 : place("begin");
    const std::size_t high = squeezed ? low[i] + 1 : flag("end_mask", i) ? x.shape[i] : place("end");
    if (high > x.shape[i] || low[i] >= high) throw std::runtime_error("a slice outside of its array");
    count[i] = high - low[i];
    if (!squeezed) slice.shape.push_back(count[i]);
  }
  for (std::size_t flat = 0; flat < count_of(count); ++flat) {
    std::size_t left = flat, index = 0, stride = 1;
    for (std::size_t i = rank; i-- > 0;) {
      index += (low[i] + left % count[i]) * stride;
      left /= count[i];
      stride *= x.shape[i];
    }
    slice.elements.push_back(index);
  }
  return slice;
}

Array gather(const Call& call) {
  const Array &x = call.get("x"), &indices = call.get("indices");
  std::size_t inner = 1;
  for (std::size_t i = 1; i < x.shape.size(); ++i) inner *= x.shape[i];
  Array out{indices.shape, {}};
  out.shape.insert(out.shape.end(), x.shape.begin() + 1, x.shape.end());
  for (const double index : indices.values) {
    if (index < 0 || index >= static_cast<double>(x.shape[0])) throw std::runtime_error("gather: index outside");
    const auto from = x.values.begin() + static_cast<std::ptrdiff_t>(index) * static_cast<std::ptrdiff_t>(inner);
    out.values.insert(out.values.end(), from, from + static_cast<std::ptrdiff_t>(inner));
  }
  return out;
}

Array reshape(const Call& call) {
  Array out{{}, call.get("x").values};
  std::size_t known = 1;
  for (const double n : call.get("shape").values)
    if (n > 0) known *= static_cast<std::size_t>(n);
  for (const double n : call.get("shape").values)
    out.shape.push_back(n < 0 ? out.values.size() / known : static_cast<std::size_t>(n));
  if (count_of(out.shape) != out.values.size()) throw std::runtime_error("reshape: sizes differ");
  return out;
}

Array linear(const Call& call) {
  const Array &x = call.get("x"), &w = call.get("weight"), &bias = call.get("bias");
  const std::size_t in = w.shape[1], out_width = w.shape[0], rows = x.values.size() / in;
  Array out{x.shape, std::vector<double>(rows * out_width)};
  out.shape.back() = out_width;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < out_width; ++o) {
      double sum = bias.values[o];
      for (std::size_t i = 0; i < in; ++i) sum += x.values[r * in + i] * w.values[o * in + i];
      out.values[r * out_width + o] = sum;
    }
  return out;
}

Array layer_norm(const Call& call) {
  Array x = call.get("x");
  const std::size_t n = x.shape.back();
  for (std::size_t r = 0; r < x.values.size(); r += n) {
    double mean = 0.0, square = 0.0;
    for (std::size_t i = 0; i < n; ++i) mean += x.values[r + i] / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i)
      square += (x.values[r + i] - mean) * (x.values[r + i] - mean) / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) {
      double& value = x.values[r + i];
      value = (value - mean) / std::sqrt(square + call.scalar("epsilon"));
      if (call.has("gamma")) value *= call.get("gamma").values[i];
      if (call.has("beta")) value += call.get("beta").values[i];
    }
  }
  return x;
}

Array tile(const Call& call) {
  const Array &x = call.get("x"), &repeats = call.get("reps");
  Array out;
  for (std::size_t i = 0; i < x.shape.size(); ++i)
    out.shape.push_back(x.shape[i] * static_cast<std::size_t>(repeats.values[i]));
  for (std::size_t flat = 0; flat < count_of(out.shape); ++flat) {
    std::size_t left = flat, index = 0, stride = 1;
    for (std::size_t i = out.shape.size(); i-- > 0;) {
      index += left % out.shape[i] % x.shape[i] * stride;
      left /= out.shape[i];
      stride *= x.shape[i];
    }
    out.values.push_back(x.values[index]);
  }
  return out;
}

Array attention(const Call& call) {
  Array scores = product(call.get("query"), call.get("key"), true);
  const double factor = 1.0 / std::sqrt(static_cast<double>(call.get("query").shape.back()));
  const Array& mask = call.get("attn_mask");
  for (std::size_t i = 0; i < scores.values.size(); ++i)
    scores.values[i] = scores.values[i] * factor + mask.values[broadcast_index(i, scores.shape, mask.shape)];
  return product(softmax(scores), call.get("value"), false);
}

Array expand_dims(const Call& call) {
  Array out = call.get("x");
  for (const double axis : call.get("axes").values) out.shape.insert(out.shape.begin() + static_cast<int>(axis), 1);
  return out;
}

Array reduce_mean(const Call& call) {
  const Array& x = call.get("x");
  const std::size_t n = x.shape.back();
  Array out{x.shape, {}};
  out.shape.back() = 1;
  for (std::size_t r = 0; r < x.values.size(); r += n)
    out.values.push_back(std::accumulate(x.values.begin() + static_cast<std::ptrdiff_t>(r),
                                         x.values.begin() + static_cast<std::ptrdiff_t>(r + n), 0.0) /
                         static_cast<double>(n));
  return out;
}

using Run = std::function<Array(const Call&)>;
const std::map<std::string, Run>& operations() {
  const auto two = [](double (*function)(double, double)) -> Run {
    return [function](const Call& call) { return elementwise(call.get("x"), call.get("y"), function); };
  };
  const auto one = [](double (*function)(double)) -> Run {
    return [function](const Call& call) { return mapped(call.get("x"), function); };
  };
  static const std::map<std::string, Run> table{
      {"add", two([](double a, double b) { return a + b; })},
      {"sub", two([](double a, double b) { return a - b; })},
      {"mul", two([](double a, double b) { return a * b; })},
      {"maximum", two([](double a, double b) { return std::max(a, b); })},
      {"minimum", two([](double a, double b) { return std::min(a, b); })},
      {"less", two([](double a, double b) { return a < b ? 1.0 : 0.0; })},
      {"greater_equal", two([](double a, double b) { return a >= b ? 1.0 : 0.0; })},
      {"silu", one([](double a) { return a / (1.0 + std::exp(-a)); })},
      {"tanh", one([](double a) { return std::tanh(a); })},
      {"relu", one([](double a) { return std::max(a, 0.0); })},
      {"cast", one([](double a) { return a; })},
      {"gelu",
       [](const Call& c) {
         return mapped(c.get("x"), [&](double a) { return gelu(a, c.texts.at("mode") == "EXACT"); });
       }},
      {"rsqrt",
       [](const Call& c) {
         return mapped(c.get("x"), [&](double a) { return 1.0 / std::sqrt(a + c.scalar("epsilon")); });
       }},
      {"shape",
       [](const Call& c) {
         const Shape& shape = c.get("x").shape;
         return Array{{shape.size()}, {shape.begin(), shape.end()}};
       }},
      {"range_1d",
       [](const Call& c) {
         Array out;
         for (double v = c.scalar("start"); v < c.scalar("end"); v += c.scalar("step")) out.values.push_back(v);
         out.shape = {out.values.size()};
         return out;
       }},
      {"gather", gather},
      {"reshape", reshape},
      {"expand_dims", expand_dims},
      {"transpose", [](const Call& c) { return transposed(c.get("x"), c.get("perm")); }},
      {"concat",
       [](const Call& c) {
         const auto& values = c.arrays.at("values");
         return joined(values, c.axis("axis", values.front()->shape.size()));
       }},
      {"tile", tile},
      {"linear", linear},
      {"matmul", [](const Call& c) { return product(c.get("x"), c.get("y"), c.scalar("transpose_y") != 0.0); }},
      {"softmax", [](const Call& c) { return softmax(c.get("x")); }},
      {"scaled_dot_product_attention", attention},
      {"layer_norm", layer_norm},
      {"reduce_mean", reduce_mean},
      {"slice_by_index",
       [](const Call& c) {
         const Slice slice = slice_of(c);
         Array out{slice.shape, {}};
         for (const std::size_t i : slice.elements) out.values.push_back(c.get("x").values[i]);
         return out;
       }},
      {"slice_update",
       [](const Call& c) {
         const Slice slice = slice_of(c);
         if (slice.shape != c.get("update").shape) throw std::runtime_error("slice_update: another shape");
         Array out = c.get("x");
         for (std::size_t i = 0; i < slice.elements.size(); ++i)
           out.values[slice.elements[i]] = c.get("update").values[i];
         return out;
       }},
  };
  return table;
}

Array array_of(const Value& value, const coreml::BlobFile& weights) {
  Array out{shape_of(value.type), {}};
  if (value.type.type == coreml::DataType::kFloat16) {
    for (const float v : coreml::constant_values(value, weights)) out.values.push_back(static_cast<double>(v));
  } else if (const auto* floats = std::get_if<std::vector<float>>(&value.data)) {
    for (const float v : *floats) out.values.push_back(static_cast<double>(v));
  } else if (const auto* ints = std::get_if<std::vector<std::int32_t>>(&value.data)) {
    out.values.assign(ints->begin(), ints->end());
  } else if (const auto* flags = std::get_if<std::vector<bool>>(&value.data)) {
    for (const bool flag : *flags) out.values.push_back(flag ? 1.0 : 0.0);
  } else {
    throw std::runtime_error("a constant of a type that is not read here");
  }
  return out;
}

}  // namespace

std::map<std::string, Array> MilInterpreter::call(const std::string& name, const std::map<std::string, Array>& inputs) {
  const coreml::Function& function = package_.model.functions.at(name);
  std::map<std::string, const Array*> values;
  std::map<std::string, Array> made = inputs;
  std::map<std::string, std::string> texts;
  for (const auto& [input, array] : made) values[input] = &array;
  for (const coreml::NamedType& input : function.inputs)
    if (input.type.state && !states_.contains(input.name)) {
      const Shape shape = shape_of(input.type.tensor);
      states_[input.name] = {shape, std::vector<double>(count_of(shape))};
    }
  for (const Operation& operation : function.operations) {
    const std::string result = operation.outputs.empty() ? "" : operation.outputs.front().name;
    if (operation.type == "const") {
      const Value& value = operation.attributes.at("val");
      if (const auto* list = std::get_if<std::vector<std::string>>(&value.data)) {
        texts[result] = list->at(0);
      } else {
        const std::string key = name + "/" + result;
        if (!constants_.contains(key)) constants_[key] = array_of(value, package_.weights);
        values[result] = &constants_.at(key);
      }
      continue;
    }
    if (operation.type.starts_with("constexpr_")) {
      if (!constants_.contains(name + "/" + result)) {
        const auto source = coreml::make_constant_source(operation, package_.weights);
        std::vector<float> decoded(source->rows() * source->cols());
        source->decode_rows(0, source->rows(), decoded.data());
        constants_[name + "/" + result] = {{source->rows(), source->cols()}, {decoded.begin(), decoded.end()}};
      }
      values[result] = &constants_.at(name + "/" + result);
      continue;
    }
    const auto bound = [&](const char* operand) { return std::get<std::string>(operation.inputs.at(operand).front()); };
    if (operation.type == "read_state") {
      made[result] = states_.at(bound("input"));
    } else if (operation.type == "write_state") {
      states_.at(bound("input")) = *values.at(bound("data"));
      continue;
    } else {
      Call call{operation, {}, {}};
      for (const auto& [operand, bindings] : operation.inputs)
        for (const coreml::Binding& binding : bindings) {
          const std::string& value = std::get<std::string>(binding);
          if (texts.contains(value))
            call.texts[operand] = texts.at(value);
          else
            call.arrays[operand].push_back(values.at(value));
        }
      made[result] = operations().at(operation.type)(call);
    }
    values[result] = &made.at(result);
  }
  std::map<std::string, Array> outputs;
  for (const std::string& output : function.outputs) outputs[output] = *values.at(output);
  return outputs;
}

namespace {

Array ids_of(const std::vector<std::uint32_t>& tokens) { return {{1, tokens.size()}, {tokens.begin(), tokens.end()}}; }

std::vector<float> floats_of(const Array& array) {
  std::vector<float> floats;
  for (const double value : array.values) floats.push_back(static_cast<float>(value));
  return floats;
}

}  // namespace

std::vector<float> MilInterpreter::extend_gpu(const std::vector<std::uint32_t>& tokens) {
  if (states_.empty()) past_ = 0;
  const std::size_t t = tokens.size(), s = past_ + t;
  Array mask{{1, 1, t, s}, std::vector<double>(t * s, -std::numeric_limits<double>::infinity())};
  for (std::size_t i = 0; i < t; ++i)
    std::fill_n(mask.values.begin() + static_cast<std::ptrdiff_t>(i * s), past_ + i + 1, 0.0);
  past_ = s;
  return floats_of(call("main", {{"inputIds", ids_of(tokens)}, {"causalMask", mask}}).at("logits"));
}

std::vector<float> MilInterpreter::extend_ane(const std::string& function, const std::vector<std::uint32_t>& tokens,
                                              std::int64_t position) {
  return floats_of(
      call(function, {{"inputIds", ids_of(tokens)}, {"cachePosition", {{1}, {static_cast<double>(position)}}}})
          .at("logits"));
}

}  // namespace nibble::test
