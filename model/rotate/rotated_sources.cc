#include "model/rotate/rotated_sources.h"

#include <algorithm>
#include <mutex>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/matrix_view.h"

namespace nibble::model {
namespace {

class RowsRotated final : public WeightSource {
 public:
  RowsRotated(std::shared_ptr<const WeightSource> source, WeightChange change)
      : source_(std::move(source)), change_(std::move(change)) {}
  std::size_t rows() const override { return source_->rows(); }
  std::size_t cols() const override { return source_->cols(); }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    source_->decode_rows(begin, end, destination);
    std::vector<double> row(cols());
    for (std::size_t i = begin; i < end; ++i, destination += cols()) {
      for (std::size_t j = 0; j < cols(); ++j)
        row[j] = static_cast<double>(destination[j]) * (change_.gain.empty() ? 1.0 : change_.gain[j]);
      rotate_parts(change_.inputs, row);
      std::transform(row.begin(), row.end(), destination, [](double value) { return static_cast<float>(value); });
    }
  }
  void release() const override { source_->release(); }

 private:
  std::shared_ptr<const WeightSource> source_;
  WeightChange change_;
};

// Rows of the result mix all rows of the weight.
class OutputsRotated final : public WeightSource {
 public:
  OutputsRotated(std::shared_ptr<const WeightSource> source, Parts outputs)
      : source_(std::move(source)), outputs_(std::move(outputs)) {}
  std::size_t rows() const override { return source_->rows(); }
  std::size_t cols() const override { return source_->cols(); }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    const std::scoped_lock lock(mutex_);
    if (made_.rows() == 0) make();
    std::copy_n(made_.row(begin).data(), (end - begin) * cols(), destination);
  }
  void release() const override {
    const std::scoped_lock lock(mutex_);
    made_ = Matrix<float>();
    source_->release();
  }

 private:
  static constexpr std::size_t kTile = 16;  // rows or columns that a thread works on at a time

  void make() const {
    Matrix<float> whole(rows(), cols());
    parallel_for_tiles(rows(), kTile, [&](std::size_t begin, std::size_t end) {
      source_->decode_rows(begin, end, whole.row(begin).data());
    });
    parallel_for_tiles(cols(), kTile, [&](std::size_t begin, std::size_t end) {
      Matrix<double> columns(end - begin, rows());
      for (std::size_t i = 0; i < rows(); ++i)
        for (std::size_t j = begin; j < end; ++j) columns(j - begin, i) = static_cast<double>(whole(i, j));
      for (std::size_t j = begin; j < end; ++j) rotate_parts(outputs_, columns.row(j - begin));
      for (std::size_t i = 0; i < rows(); ++i)
        for (std::size_t j = begin; j < end; ++j) whole(i, j) = static_cast<float>(columns(j - begin, i));
    });
    made_ = std::move(whole);
  }

  std::shared_ptr<const WeightSource> source_;
  Parts outputs_;
  mutable std::mutex mutex_;
  mutable Matrix<float> made_;
};

void require_width(const Parts& parts, std::size_t width, const char* what) {
  if (parts.empty()) return;
  std::size_t sum = 0;
  for (const Rotation* part : parts) sum += part->width();
  NIBBLE_REQUIRE(sum == width, InvalidArgument, "rotations of {} {} for {}", sum, what, width);
}

}  // namespace

std::shared_ptr<const WeightSource> make_rotated_source(std::shared_ptr<const WeightSource> source,
                                                        WeightChange change) {
  require_width(change.inputs, source->cols(), "inputs");
  require_width(change.outputs, source->rows(), "outputs");
  NIBBLE_REQUIRE(change.gain.empty() || change.gain.size() == source->cols(), InvalidArgument,
                 "a gain of {} values for {} inputs", change.gain.size(), source->cols());
  Parts outputs = std::move(change.outputs);
  auto rotated = std::make_shared<const RowsRotated>(std::move(source), std::move(change));
  if (outputs.empty()) return rotated;
  return std::make_shared<const OutputsRotated>(std::move(rotated), std::move(outputs));
}

}  // namespace nibble::model
