#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "core/matrix/matrix_view.h"

namespace nibble::calib {

/// Shape of what is stored: `rows` rows of `cols` floats, written and read `batch_rows` at a time (the last batch may
/// be shorter).
struct ResidualShape {
  std::size_t rows = 0, cols = 0, batch_rows = 0;
  std::size_t batches() const { return (rows + batch_rows - 1) / batch_rows; }
  std::uint64_t bytes() const { return std::uint64_t{rows} * cols * sizeof(float); }
};

/// Keeps the residual stream at the boundaries of the blocks, and its gradient, for all windows: named matrices, each
/// written batch by batch from first to last. Views may have any stride.
class ResidualStore {
 public:
  virtual ~ResidualStore() = default;
  /// The matrix is there, complete and undamaged; possibly left by a run that was killed.
  virtual bool holds(const std::string& name) = 0;
  /// Writes the next batch of `name`; with the last one the matrix is complete.
  virtual void write(const std::string& name, std::size_t batch, MatrixView<const float> values) = 0;
  virtual void read(const std::string& name, std::size_t batch, MatrixView<float> values) = 0;
  virtual void drop(const std::string& name) = 0;
};

std::unique_ptr<ResidualStore> make_memory_store(const ResidualShape& shape);

/// A file per matrix in `directory`, called NAME.residual once complete, NAME.residual.partial before. Each batch
/// carries a checksum, as does `identity` (what the numbers depend on): a file of another run, an incomplete or a
/// damaged one is not held. Throws FormatError with path and reason (disk full, damage found while reading).
std::unique_ptr<ResidualStore> make_file_store(const ResidualShape& shape, std::filesystem::path directory,
                                               std::string identity);

}  // namespace nibble::calib
