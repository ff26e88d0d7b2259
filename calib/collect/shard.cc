#include "calib/collect/shard.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "core/files/hash.h"
#include "core/files/output_file.h"

namespace nibble::calib {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "NIBBLE calib shard 3\n";
constexpr std::uint64_t kMaxText = 4096;

// The one list of what a shard holds, for both directions: first what decides the sizes, then the arrays.
template <class Layer, class Visitor>
void visit_shape(Layer& layer, Visitor& visitor) {
  visitor.text(layer.module);
  visitor.text(layer.input_of);
  visitor.number(layer.out);
  visitor.number(layer.in);
  visitor.number(layer.tokens);
  visitor.number(layer.samples);
}

template <class Layer, class Visitor>
void visit_arrays(Layer& layer, Visitor& visitor) {
  visitor.number(layer.sum_s);
  double squares = layer.sum_s2.value_or(std::numeric_limits<double>::quiet_NaN());
  visitor.number(squares);
  if constexpr (!std::is_const_v<Layer>) layer.sum_s2 = std::isnan(squares) ? std::nullopt : std::optional(squares);
  visitor.array(layer.sum_x, layer.in);
  visitor.array(layer.sum_x2, layer.in);
  visitor.array(layer.sum_abs_x, layer.in);
  visitor.array(layer.min_x, layer.in);
  visitor.array(layer.max_x, layer.in);
  visitor.array(layer.sum_s_x, layer.in);
  visitor.matrix(layer.fisher, layer.out, layer.in);
  visitor.matrix(layer.sum_xxt, layer.in, layer.in);
  visitor.matrix(layer.sum_s_xxt, layer.in, layer.in);
  visitor.matrix(layer.sum_dydyt, layer.out, layer.out);
}

class Writer {
 public:
  explicit Writer(const std::filesystem::path& path) : file_(path) {}
  void bytes(std::span<const std::byte> data) {
    hasher_.update(data);
    file_.write(data);
  }
  template <class T>
  void number(const T& value) {
    bytes(std::as_bytes(std::span(&value, 1)));
  }
  void text(std::string_view value) {
    number(std::uint64_t{value.size()});
    bytes(std::as_bytes(std::span(value)));
  }
  template <class T>
  void array(const std::vector<T>& values, std::size_t) {
    number(std::uint64_t{values.size()});
    bytes(std::as_bytes(std::span(values)));
  }
  void matrix(const Matrix<float>& values, std::size_t, std::size_t) {
    number(std::uint64_t{values.size()});
    bytes(std::as_bytes(values.values()));
  }
  void commit() {
    file_.write(hasher_.hex());
    file_.commit();
  }

 private:
  OutputFile file_;
  Hasher hasher_;
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : name_(path.string()), file_(path, std::ios::binary) {
    require(file_.good(), "cannot be opened");
  }
  void bytes(std::span<std::byte> data) {
    file_.read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(data.size()));
    require(file_.good(), "ends too early");
    hasher_.update(data);
  }
  template <class T>
  void number(T& value) {
    bytes(std::as_writable_bytes(std::span(&value, 1)));
  }
  void text(std::string& value) {
    std::uint64_t size = 0;
    number(size);
    require(size <= kMaxText, "holds a name that is too long");
    value.resize(size);
    bytes(std::as_writable_bytes(std::span(value)));
  }
  template <class T>
  void array(std::vector<T>& values, std::size_t size) {
    if (present(size)) values.resize(size);
    bytes(std::as_writable_bytes(std::span(values)));
  }
  void matrix(Matrix<float>& values, std::size_t rows, std::size_t cols) {
    if (present(rows * cols)) values = Matrix<float>(rows, cols);
    bytes(std::as_writable_bytes(values.values()));
  }
  void finish() {
    const std::string expected = hasher_.hex();
    std::string stored(expected.size(), '\0');
    file_.read(stored.data(), static_cast<std::streamsize>(stored.size()));
    require(file_.good() && stored == expected && file_.peek() == EOF, "is damaged (its checksum differs)");
  }
  void require(bool condition, std::string_view what) const {
    NIBBLE_REQUIRE(condition, FormatError, "shard '{}' {}; remove it and run the command again, it will be made anew",
                   name_, what);
  }

 private:
  bool present(std::uint64_t size) {
    std::uint64_t stored = 0;
    number(stored);
    require(stored == 0 || stored == size, "holds an array of another size than its layer");
    return stored != 0;
  }
  std::string name_;
  std::ifstream file_;
  Hasher hasher_;
};

}  // namespace

void write_shard(const std::filesystem::path& path, std::string_view identity, const LayerStats& layer) {
  Writer writer(path);
  writer.text(kMagic);
  writer.text(identity);
  visit_shape(layer, writer);
  visit_arrays(layer, writer);
  writer.commit();
}

LayerStats read_shard(const std::filesystem::path& path, std::string_view identity, const LayerStats& expected) {
  Reader reader(path);
  std::string magic, run;
  reader.text(magic);
  reader.require(magic == kMagic, "is not a shard of this version");
  reader.text(run);
  reader.require(run == identity, "belongs to another run");
  LayerStats layer;
  visit_shape(layer, reader);
  reader.require(layer.module == expected.module && layer.out == expected.out && layer.in == expected.in,
                 "holds another layer or shape");
  visit_arrays(layer, reader);
  reader.finish();
  return layer;
}

}  // namespace nibble::calib
