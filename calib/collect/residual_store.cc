#include "calib/collect/residual_store.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/files/hash.h"
#include "core/files/output_file.h"

namespace nibble::calib {
namespace {

std::size_t rows_of_batch(const ResidualShape& shape, std::size_t batch) {
  return std::min(shape.batch_rows, shape.rows - batch * shape.batch_rows);
}

void check_batch(const ResidualShape& shape, std::size_t batch, std::size_t rows, std::size_t cols) {
  const bool fits = batch < shape.batches() && rows == rows_of_batch(shape, batch) && cols == shape.cols;
  NIBBLE_REQUIRE(fits, InvalidArgument, "residual store: batch {} of {} cannot have the shape ({}, {})", batch,
                 shape.batches(), rows, cols);
}

// Calls action(floats) for the stretches of memory that hold `values` in order: all at once, or row by row.
template <class T, class Action>
void for_each_run(MatrixView<T> values, const Action& action) {
  if (values.stride() == values.cols()) return action(std::span<T>(values.data(), values.rows() * values.cols()));
  for (std::size_t r = 0; r < values.rows(); ++r) action(values.row(r));
}

class MemoryStore final : public ResidualStore {
 public:
  explicit MemoryStore(const ResidualShape& shape) : shape_(shape) {}
  bool holds(const std::string& name) override {
    const auto found = matrices_.find(name);
    return found != matrices_.end() && found->second.written == shape_.batches();
  }
  void write(const std::string& name, std::size_t batch, MatrixView<const float> values) override {
    check_batch(shape_, batch, values.rows(), values.cols());
    Stored& stored = matrices_[name];
    if (stored.matrix.size() == 0) stored.matrix = Matrix<float>(shape_.rows, shape_.cols);
    for (std::size_t r = 0; r < values.rows(); ++r)
      std::copy_n(values.row(r).data(), shape_.cols, stored.matrix.row(batch * shape_.batch_rows + r).data());
    stored.written = batch + 1;
  }
  void read(const std::string& name, std::size_t batch, MatrixView<float> values) override {
    check_batch(shape_, batch, values.rows(), values.cols());
    const Matrix<float>& matrix = matrices_.at(name).matrix;
    for (std::size_t r = 0; r < values.rows(); ++r)
      std::copy_n(matrix.row(batch * shape_.batch_rows + r).data(), shape_.cols, values.row(r).data());
  }
  void drop(const std::string& name) override { matrices_.erase(name); }

 private:
  struct Stored {
    Matrix<float> matrix;
    std::size_t written = 0;
  };
  ResidualShape shape_;
  std::map<std::string, Stored> matrices_;
};

// The file: for each batch its floats and the 32 hex digits of hash(identity, name, batch, floats).
class FileStore final : public ResidualStore {
 public:
  FileStore(const ResidualShape& shape, std::filesystem::path directory, std::string identity)
      : shape_(shape), directory_(std::move(directory)), identity_(std::move(identity)) {}

  bool holds(const std::string& name) override {
    if (verified_.contains(name)) return true;
    std::error_code missing;
    const std::uint64_t bytes = std::filesystem::file_size(path(name), missing);
    if (missing) return false;
    bool fine = bytes == shape_.bytes() + kDigest * shape_.batches();
    Matrix<float> values(std::min(shape_.batch_rows, shape_.rows), shape_.cols);
    for (std::size_t batch = 0; fine && batch < shape_.batches(); ++batch)
      fine = read_batch(name, batch, MatrixView<float>(values).rows_slice(0, rows_of_batch(shape_, batch)));
    if (fine) {
      verified_.insert(name);
    } else {
      drop(name);
    }
    return fine;
  }

  void write(const std::string& name, std::size_t batch, MatrixView<const float> values) override {
    check_batch(shape_, batch, values.rows(), values.cols());
    if (batch == 0) output_.emplace(path(name), Flush::kNo);  // checksums tell what a power cut left
    NIBBLE_REQUIRE(output_ && (batch == 0 || (output_name_ == name && batch == next_batch_)), InvalidArgument,
                   "residual store: batch {} of '{}' is out of turn", batch, name);
    output_name_ = name;
    next_batch_ = batch + 1;
    Hasher hasher = hasher_of(name, batch);
    for_each_run(values, [&](std::span<const float> run) {
      output_->write(std::as_bytes(run));
      hasher.update(std::as_bytes(run));
    });
    output_->write(hasher.hex());
    if (next_batch_ < shape_.batches()) return;
    output_->commit();
    output_.reset();
    verified_.insert(name);
  }

  void read(const std::string& name, std::size_t batch, MatrixView<float> values) override {
    check_batch(shape_, batch, values.rows(), values.cols());
    const bool fine = read_batch(name, batch, values);
    NIBBLE_REQUIRE(fine, FormatError,
                   "scratch file '{}': batch {} cannot be read back as it was written; remove the file and run the "
                   "command again, it will be made anew",
                   path(name).string(), batch);
  }

  void drop(const std::string& name) override {
    verified_.erase(name);
    std::error_code ignored;  // may not be there
    std::filesystem::remove(path(name), ignored);
  }

 private:
  static constexpr std::size_t kDigest = 32;

  std::filesystem::path path(const std::string& name) const { return directory_ / (name + ".residual"); }

  Hasher hasher_of(const std::string& name, std::size_t batch) const {
    Hasher hasher;
    hasher.update(identity_).update(name).update(std::to_string(batch));
    return hasher;
  }

  bool read_batch(const std::string& name, std::size_t batch, MatrixView<float> values) const {
    const std::uint64_t full = std::uint64_t{shape_.batch_rows} * shape_.cols * sizeof(float) + kDigest;
    std::ifstream file(path(name), std::ios::binary);
    file.seekg(static_cast<std::streamoff>(batch * full));
    Hasher hasher = hasher_of(name, batch);
    for_each_run(values, [&](std::span<float> run) {
      file.read(reinterpret_cast<char*>(run.data()), static_cast<std::streamsize>(run.size_bytes()));
      hasher.update(std::as_bytes(run));
    });
    std::string stored(kDigest, '\0');
    file.read(stored.data(), kDigest);
    return file.good() && stored == hasher.hex();
  }

  ResidualShape shape_;
  std::filesystem::path directory_;
  std::string identity_;
  std::set<std::string> verified_;
  std::optional<OutputFile> output_;
  std::string output_name_;
  std::size_t next_batch_ = 0;
};

}  // namespace

std::unique_ptr<ResidualStore> make_memory_store(const ResidualShape& shape) {
  return std::make_unique<MemoryStore>(shape);
}

std::unique_ptr<ResidualStore> make_file_store(const ResidualShape& shape, std::filesystem::path directory,
                                               std::string identity) {
  return std::make_unique<FileStore>(shape, std::move(directory), std::move(identity));
}

}  // namespace nibble::calib
