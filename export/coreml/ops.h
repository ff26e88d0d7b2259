#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "export/coreml/graph.h"

// Operations with their operands as the networks use them. Every optional operand is written out, as Apple's converter
// does, but for those whose default is that they are absent.
namespace nibble::coreml {

inline Var binary(Graph& g, const char* type, const Var& x, const Var& y, const std::string& name) {
  return g.op(type, {{"x", {x}}, {"y", {y}}}, name);
}
inline Var add(Graph& g, const Var& x, const Var& y, const std::string& name) { return binary(g, "add", x, y, name); }
inline Var sub(Graph& g, const Var& x, const Var& y, const std::string& name) { return binary(g, "sub", x, y, name); }
inline Var mul(Graph& g, const Var& x, const Var& y, const std::string& name) { return binary(g, "mul", x, y, name); }

inline Var unary(Graph& g, const char* type, const Var& x, const std::string& name) {
  return g.op(type, {{"x", {x}}}, name);
}

inline Var gather(Graph& g, const Var& x, const Var& indices, const std::string& name) {
  return g.op("gather",
              {{"x", {x}},
               {"indices", {indices}},
               {"axis", {g.integer(0)}},
               {"batch_dims", {g.integer(0)}},
               {"validate_indices", {g.flag(false)}}},
              name);
}

inline Var cast(Graph& g, const Var& x, const char* dtype, const std::string& name) {
  return g.op("cast", {{"x", {x}}, {"dtype", {g.text(dtype)}}}, name);
}

inline Var expand_dims(Graph& g, const Var& x, const std::vector<std::int32_t>& axes, const std::string& name) {
  return g.op("expand_dims", {{"x", {x}}, {"axes", {g.integers(axes)}}}, name);
}

/// One dimension of `shape` may be -1.
inline Var reshape(Graph& g, const Var& x, const std::vector<std::int32_t>& shape, const std::string& name) {
  return g.op("reshape", {{"x", {x}}, {"shape", {g.integers(shape)}}}, name);
}

inline Var transpose(Graph& g, const Var& x, const std::vector<std::int32_t>& order, const std::string& name) {
  return g.op("transpose", {{"x", {x}}, {"perm", {g.integers(order)}}}, name);
}

inline Var concat(Graph& g, const std::vector<Var>& values, std::int32_t axis, const std::string& name) {
  return g.op("concat", {{"values", values}, {"axis", {g.integer(axis)}}, {"interleave", {g.flag(false)}}}, name);
}

inline Var matmul(Graph& g, const Var& x, const Var& y, bool transpose_y, const std::string& name) {
  return g.op("matmul",
              {{"x", {x}}, {"y", {y}}, {"transpose_x", {g.flag(false)}}, {"transpose_y", {g.flag(transpose_y)}}}, name);
}

inline Var softmax(Graph& g, const Var& x, const std::string& name) {
  return g.op("softmax", {{"x", {x}}, {"axis", {g.integer(-1)}}}, name);
}

/// Elements [begin, end) of one axis; end 0: to the end.
inline Var slice_axis(Graph& g, const Var& x, std::size_t axis, std::int32_t begin, std::int32_t end,
                      const std::string& name) {
  const std::size_t rank = x.shape().size();
  std::vector<std::int32_t> low(rank, 0), high(rank, 0);
  std::vector<bool> from_start(rank, true), to_end(rank, true);
  low[axis] = begin, high[axis] = end;
  from_start[axis] = begin == 0, to_end[axis] = end == 0;
  return g.op("slice_by_index",
              {{"x", {x}},
               {"begin", {g.integers(low)}},
               {"end", {g.integers(high)}},
               {"begin_mask", {g.flags(from_start)}},
               {"end_mask", {g.flags(to_end)}}},
              name);
}

}  // namespace nibble::coreml
