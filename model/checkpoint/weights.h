#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/matrix/linear_op.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weight_provider.h"

namespace nibble::model {

/// The bias of `parameter` from `weights`, empty where it has none. Throws FormatError where the configuration asks for
/// one that is not there.
std::vector<float> bias_of(const Parameter& parameter, const WeightProvider& weights);

/// The gain of `norm`: its width, or as many for each group where groups have their own; empty where it has none.
std::vector<float> gain_of(const NormSpec& norm, const WeightProvider& weights);

/// Rows of a mapped F32, F16 or BF16 tensor, converted as they are read. `transposed` = stored as (in, out); then both
/// ways of decoding are there. Throws FormatError unless `tensor` is a float matrix; decoding throws it when the file
/// shrank.
std::shared_ptr<const WeightSource> make_mapped_source(std::shared_ptr<const Checkpoint> checkpoint, TensorView tensor,
                                                       bool transposed);
/// A matrix of `rows` rows made of others: row i of a part is row part.rows.row(i) of the whole.
struct SourcePart {
  std::shared_ptr<const WeightSource> source;
  RowSet rows;
};
/// Throws InvalidArgument unless there are parts, as wide as each other, that together have `rows` rows, none outside.
std::shared_ptr<const WeightSource> make_composed_source(std::vector<SourcePart> parts, std::size_t rows);
/// The rows `rows` of another source, in that order. Throws InvalidArgument for rows that it does not have.
std::shared_ptr<const WeightSource> make_row_set_source(std::shared_ptr<const WeightSource> source, const RowSet& rows);

/// The name under which the checkpoint stores the architecture's `tensor`: itself, or with or without the prefix that
/// files of its family come with and without; empty if it is not there.
std::optional<std::string> find_tensor_name(const Checkpoint& checkpoint, const std::string& tensor);

/// Throws FormatError unless the checkpoint holds `stored` as floats and in its shape; returns the view of the tensor
/// it lies in.
TensorView find_stored(const Checkpoint& checkpoint, const Stored& stored);

/// The float checkpoint as a provider: its own, if it has one. Throws FormatError for tensors of another shape or dtype
/// than asked for.
std::unique_ptr<WeightProvider> make_float_provider(std::shared_ptr<const Checkpoint> checkpoint);

}  // namespace nibble::model
