#include "model/gguf/gguf_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <set>
#include <type_traits>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/text/excerpt.h"
#include "model/checkpoint/safetensors_file.h"

namespace nibble::model {
namespace {

constexpr std::string_view kTruncated = "Incomplete download?";

/// Takes numbers and strings off the front of the file; every step is checked against what is left.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string_view file)
      : text_(reinterpret_cast<const char*>(bytes.data()), bytes.size()), file_(file) {}

  std::size_t position() const { return position_; }
  std::size_t left() const { return text_.size() - position_; }
  std::string_view file() const { return file_; }

  template <class T>
  T number(std::string_view what) {
    T value{};
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }

  std::string_view take(std::uint64_t count, std::string_view what) {
    NIBBLE_REQUIRE(count <= left(), FormatError,
                   "GGUF: the file ends inside {}: {} bytes needed at byte {}, {} are left (file {}). {}", what, count,
                   position_, left(), file_, kTruncated);
    const std::string_view part = text_.substr(position_, count);
    position_ += count;
    return part;
  }

  std::string_view text(std::string_view what) { return take(number<std::uint64_t>(what), what); }

  /// `count` things of at least `least` bytes each must fit into the rest of the file.
  void check_count(std::uint64_t count, std::uint64_t least, std::string_view what) const {
    NIBBLE_REQUIRE(count <= left() / least, FormatError,
                   "GGUF: {} claims {} elements of at least {} bytes, but {} bytes are left (file {}). {}", what, count,
                   least, left(), file_, kTruncated);
  }

 private:
  std::string_view text_, file_;
  std::size_t position_ = 0;
};

/// Reads the value of one key.
class ValueReader {
 public:
  ValueReader(Cursor& cursor, std::size_t& nested) : cursor_(cursor), nested_(nested) {}

  GgufValue read(const std::string& key) {
    what_ = fmt::format("the value of '{}'", excerpt(key));
    return value(type_number(), 0);
  }

 private:
  GgufType type_number() {
    const auto id = cursor_.number<std::uint32_t>(what_);
    NIBBLE_REQUIRE(id <= static_cast<std::uint32_t>(GgufType::kF64), FormatError,
                   "GGUF: {} has type {}; expected 0 (UINT8) to 12 (FLOAT64) (file {})", what_, id, cursor_.file());
    return static_cast<GgufType>(id);
  }

  template <class T>
  GgufValue number() {
    return GgufValue(GgufValue::Number(cursor_.number<T>(what_)));
  }

  GgufValue value(GgufType type, std::size_t depth) {
    switch (type) {
      case GgufType::kU8:
        return number<std::uint8_t>();
      case GgufType::kI8:
        return number<std::int8_t>();
      case GgufType::kU16:
        return number<std::uint16_t>();
      case GgufType::kI16:
        return number<std::int16_t>();
      case GgufType::kU32:
        return number<std::uint32_t>();
      case GgufType::kI32:
        return number<std::int32_t>();
      case GgufType::kF32:
        return number<float>();
      case GgufType::kU64:
        return number<std::uint64_t>();
      case GgufType::kI64:
        return number<std::int64_t>();
      case GgufType::kF64:
        return number<double>();
      case GgufType::kBool: {
        const std::string_view byte = cursor_.take(1, what_);
        check_truths(byte);
        return GgufValue(GgufValue::Number(byte[0] != 0));
      }
      case GgufType::kString:
        return GgufValue(GgufValue::Number(std::string(cursor_.text(what_))));
      case GgufType::kArray:
        return GgufValue(GgufValue::Number(array(depth + 1)));
    }
    throw FormatError("GGUF: a type out of range");  // type_number() saw to it
  }

  GgufArray array(std::size_t depth) {
    NIBBLE_REQUIRE(depth <= kMaxGgufNesting, FormatError, "GGUF: {} has arrays in arrays more than {} deep (file {})",
                   what_, kMaxGgufNesting, cursor_.file());
    GgufArray array;
    array.type = type_number();
    const auto count = cursor_.number<std::uint64_t>(what_);
    if (array.type == GgufType::kString) {
      cursor_.check_count(count, 8, what_);
      read_strings(array, count);
    } else if (array.type == GgufType::kArray) {
      cursor_.check_count(count, 12, what_);
      NIBBLE_REQUIRE(count <= kMaxGgufNestedArrays - nested_, FormatError,
                     "GGUF: {} brings the arrays in arrays above the limit of {} (file {})", what_,
                     kMaxGgufNestedArrays, cursor_.file());
      nested_ += count;
      for (std::uint64_t i = 0; i < count; ++i) array.items.push_back(value(GgufType::kArray, depth));
    } else {
      cursor_.check_count(count, gguf_type_size(array.type), what_);
      array.bytes = cursor_.take(count * gguf_type_size(array.type), what_);
      if (array.type == GgufType::kBool) check_truths(array.bytes);
    }
    array.size = count;
    return array;
  }

  void read_strings(GgufArray& array, std::uint64_t count) {
    array.ends.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      array.bytes += cursor_.text(what_);
      array.ends.push_back(array.bytes.size());
    }
  }

  void check_truths(std::string_view bytes) const {
    const auto bad = std::find_if(bytes.begin(), bytes.end(), [](char c) { return c != 0 && c != 1; });
    NIBBLE_REQUIRE(bad == bytes.end(), FormatError, "GGUF: {}: a BOOL should be 0 or 1, but is {} (file {})", what_,
                   static_cast<unsigned>(static_cast<unsigned char>(*bad)), cursor_.file());
  }

  Cursor& cursor_;
  std::size_t& nested_;  ///< arrays in arrays so far, in all the metadata
  std::string what_;
};

/// What the first 8 bytes say. Throws unless it is version 2 or 3, little-endian.
std::uint32_t read_version(Cursor& cursor) {
  const std::string_view file = cursor.file();
  NIBBLE_REQUIRE(cursor.left() >= 4, FormatError, "GGUF: expected at least 4 bytes, got {} (file {}). {}",
                 cursor.left(), file, kTruncated);
  const std::string_view magic = cursor.take(4, "the magic");
  NIBBLE_REQUIRE(magic != "vers", FormatError,
                 "GGUF: this is a Git LFS pointer, not the weights (file {}); fetch them with `git lfs pull`", file);
  NIBBLE_REQUIRE(magic != "lmgg" && magic != "fmgg" && magic != "tjgg", FormatError,
                 "GGUF: this is a file of ggml from before GGUF ('{}'; file {}). Hint: convert the model again with "
                 "llama.cpp's converter of 2023 or later",
                 magic, file);
  NIBBLE_REQUIRE(magic != "FUGG", FormatError,
                 "GGUF: the magic is written backwards: a file of another byte order (file {}). Is it damaged?", file);
  NIBBLE_REQUIRE(magic == "GGUF", FormatError, "GGUF: expected the file to begin with 'GGUF', got '{}' (file {})",
                 excerpt(magic), file);
  const auto version = cursor.number<std::uint32_t>("the version");
  NIBBLE_REQUIRE(version != 0 && (version & 0xFFFFu) != 0, FormatError,
                 "GGUF: version {:#010x}: a big-endian file, and this reader takes little-endian ones (file {}). Hint: "
                 "gguf-py's gguf_convert_endian turns it round",
                 version, file);
  NIBBLE_REQUIRE(version != 1, FormatError,
                 "GGUF: version 1, of August 2023, has other sizes of numbers and is not read; expected 2 or 3 (file "
                 "{}). Hint: convert the model again",
                 file);
  NIBBLE_REQUIRE(version <= 3, FormatError, "GGUF: version {}; expected 2 or 3 (file {})", version, file);
  return version;
}

std::uint64_t read_limited(Cursor& cursor, std::string_view what, std::uint64_t limit) {
  const auto count = cursor.number<std::uint64_t>(what);
  NIBBLE_REQUIRE(count <= limit, FormatError, "GGUF: {} is {}, the limit is {} (file {})", what, count, limit,
                 cursor.file());
  return count;
}

GgufMetadata read_metadata(Cursor& cursor, std::uint64_t pairs) {
  constexpr std::uint64_t kLeast = 8 + 1 + 4 + 1;  // key, type, value
  cursor.check_count(pairs, kLeast, "the metadata");
  GgufMetadata metadata;
  metadata.set_name(fmt::format("metadata of {}", cursor.file()));
  std::size_t nested = 0;
  ValueReader reader(cursor, nested);
  for (std::uint64_t i = 0; i < pairs; ++i) {
    const std::string what = fmt::format("key {} of {}", i + 1, pairs);
    std::string key(cursor.text(what));
    NIBBLE_REQUIRE(!key.empty() && key.size() <= kMaxGgufKey, FormatError,
                   "GGUF: {} has {} bytes; expected 1 to {} (file {})", what, key.size(), kMaxGgufKey, cursor.file());
    NIBBLE_REQUIRE(excerpt(key, key.size()) == key, FormatError,
                   "GGUF: {}, '{}', contains a control character (file {})", what, excerpt(key), cursor.file());
    NIBBLE_REQUIRE(metadata.find(key) == nullptr, FormatError, "GGUF: the key '{}' is there twice (file {})",
                   excerpt(key), cursor.file());
    GgufValue value = reader.read(key);
    metadata.add(std::move(key), std::move(value));
  }
  return metadata;
}

std::uint32_t read_alignment(const GgufMetadata& metadata, std::string_view file) {
  const auto alignment = metadata.natural("general.alignment");
  if (!alignment) return kGgufDefaultAlignment;
  NIBBLE_REQUIRE(std::has_single_bit(*alignment) && *alignment <= kMaxGgufAlignment, FormatError,
                 "GGUF: general.alignment should be a power of two up to {}, but is {} (file {})", kMaxGgufAlignment,
                 *alignment, file);
  return static_cast<std::uint32_t>(*alignment);
}

BlockType read_block_type(Cursor& cursor, std::string_view what) {
  const auto id = cursor.number<std::uint32_t>(what);
  const std::string_view withdrawn = withdrawn_block_type(id);
  NIBBLE_REQUIRE(withdrawn.empty(), FormatError,
                 "GGUF: {} has type {}, {}, which its makers withdrew (file {}). Hint: quantize the model again", what,
                 id, withdrawn, cursor.file());
  const auto row = find_block_type(id);
  NIBBLE_REQUIRE(row, FormatError,
                 "GGUF: {} has type {}, which is unknown; the last known one is {} (file {}). Is the file newer than "
                 "this program, or damaged?",
                 what, id, static_cast<std::uint32_t>(block_types().back().type), cursor.file());
  return row->type;
}

struct Placed {
  GgufTensor tensor;
  std::uint64_t begin = 0, end = 0;  ///< in the data
};

Placed read_tensor(Cursor& cursor, std::uint64_t index, std::uint64_t count, std::uint32_t alignment) {
  Placed placed;
  GgufTensor& tensor = placed.tensor;
  tensor.name = cursor.text(fmt::format("the name of tensor {} of {}", index + 1, count));
  check_tensor_name(tensor.name, cursor.file());
  const std::string what = fmt::format("tensor '{}'", tensor.name);
  const auto dims = cursor.number<std::uint32_t>(what);
  NIBBLE_REQUIRE(dims <= kMaxGgufDims, FormatError, "GGUF: {} has {} dimensions; expected at most {} (file {})", what,
                 dims, kMaxGgufDims, cursor.file());
  for (std::uint32_t i = 0; i < dims; ++i) tensor.shape.push_back(cursor.number<std::uint64_t>(what));
  std::reverse(tensor.shape.begin(), tensor.shape.end());
  tensor.type = read_block_type(cursor, what);
  placed.begin = cursor.number<std::uint64_t>(what);
  NIBBLE_REQUIRE(placed.begin % alignment == 0, FormatError,
                 "GGUF: {} begins at byte {} of the data; expected a multiple of the alignment {} (file {})", what,
                 placed.begin, alignment, cursor.file());
  const std::string where = fmt::format("GGUF: {} of {}", what, cursor.file());
  placed.end = checked_add(placed.begin, gguf_tensor_bytes(block_type_info(tensor.type), tensor.shape, where), where);
  return placed;
}

void check_places(const std::vector<Placed>& tensors, std::uint64_t data_bytes, std::string_view file) {
  std::set<std::string_view> names;
  std::vector<const Placed*> order;
  order.reserve(tensors.size());
  for (const Placed& placed : tensors) {
    NIBBLE_REQUIRE(names.insert(placed.tensor.name).second, FormatError,
                   "GGUF: the tensor '{}' is there twice (file {})", placed.tensor.name, file);
    NIBBLE_REQUIRE(placed.end <= data_bytes, FormatError,
                   "GGUF: tensor '{}' ends at byte {} of the data, but the file has {} bytes of data (file {}). {}",
                   placed.tensor.name, placed.end, data_bytes, file, kTruncated);
    if (placed.begin != placed.end) order.push_back(&placed);
  }
  std::sort(order.begin(), order.end(), [](const Placed* a, const Placed* b) { return a->begin < b->begin; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    NIBBLE_REQUIRE(order[i]->begin >= order[i - 1]->end, FormatError,
                   "GGUF: tensor '{}' begins at byte {} of the data, inside '{}', which ends at {} (file {})",
                   order[i]->tensor.name, order[i]->begin, order[i - 1]->tensor.name, order[i - 1]->end, file);
  }
}

}  // namespace

std::uint64_t GgufTensor::element_count() const { return checked_element_count(shape, name); }

std::uint64_t GgufTensor::rows() const {
  if (shape.empty()) return 1;
  return checked_element_count(std::span(shape).first(shape.size() - 1), name);
}

std::uint64_t gguf_tensor_bytes(const BlockTypeInfo& type, std::span<const std::uint64_t> shape,
                                std::string_view what) {
  const std::uint64_t cols = shape.empty() ? 1 : shape.back();
  NIBBLE_REQUIRE(cols % type.weights == 0, FormatError,
                 "{}: rows of {} weights cannot be {}, which comes in blocks of {}", what, cols, type.name,
                 type.weights);
  const std::uint64_t elements = checked_element_count(shape, what);
  return checked_multiply(elements / type.weights, type.bytes, what);
}

GgufContents parse_gguf(std::span<const std::byte> bytes, std::string_view file) {
  Cursor cursor(bytes, file);
  GgufContents contents;
  contents.version = read_version(cursor);
  const std::uint64_t count = read_limited(cursor, "the number of tensors", kMaxGgufTensors);
  const std::uint64_t pairs = read_limited(cursor, "the number of keys", kMaxGgufKeys);
  contents.metadata = read_metadata(cursor, pairs);
  contents.alignment = read_alignment(contents.metadata, file);

  constexpr std::uint64_t kLeast = 8 + 1 + 4 + 4 + 8;  // name, dimensions, type, offset
  cursor.check_count(count, kLeast, "the list of tensors");
  std::vector<Placed> placed;
  placed.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) placed.push_back(read_tensor(cursor, i, count, contents.alignment));

  const std::uint64_t begin = divide_up(cursor.position(), contents.alignment) * contents.alignment;
  const std::uint64_t data_bytes = begin <= bytes.size() ? bytes.size() - begin : 0;
  check_places(placed, data_bytes, file);
  contents.tensors.reserve(count);
  for (Placed& item : placed) {
    if (item.begin != item.end) item.tensor.data = bytes.subspan(begin + item.begin, item.end - item.begin);
    contents.tensors.push_back(std::move(item.tensor));
  }
  return contents;
}

}  // namespace nibble::model
