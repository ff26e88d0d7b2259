#include "model/gguf/gguf_file.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/suggest.h"
#include "model/checkpoint/safetensors_file.h"

namespace nibble::model {
namespace {

constexpr std::string_view kSplitNo = "split.no", kSplitCount = "split.count", kSplitTensors = "split.tensors.count";
constexpr std::uint64_t kMaxParts = 10'000;
constexpr std::size_t kDigits = 5;

std::string quoted(const std::filesystem::path& path) { return fmt::format("'{}'", path.string()); }

/// Five digits before `end`; empty for anything else.
std::optional<std::uint32_t> five_digits(std::string_view text) {
  std::uint32_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.size() != kDigits || error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Where the parts of the split lie whose first file is `first`.
SplitName check_first_name(const std::filesystem::path& first, std::uint64_t count) {
  const auto name = parse_split_name(first.filename().string());
  NIBBLE_REQUIRE(name && name->count == count && name->number == 1, FormatError,
                 "GGUF: {} is the first of {} files of a split; expected a name that ends in '-00001-of-{:05}.gguf'. "
                 "Hint: give it back the name it was published under",
                 quoted(first), count, count);
  return *name;
}

}  // namespace

std::optional<SplitName> parse_split_name(const std::string& file_name) {
  constexpr std::string_view kEnd = ".gguf", kOf = "-of-";
  constexpr std::size_t kTail = 1 + kDigits + kOf.size() + kDigits + kEnd.size();
  if (file_name.size() < kTail || !file_name.ends_with(kEnd)) return std::nullopt;
  const std::string_view tail = std::string_view(file_name).substr(file_name.size() - kTail);
  const auto number = five_digits(tail.substr(1, kDigits));
  const auto count = five_digits(tail.substr(1 + kDigits + kOf.size(), kDigits));
  if (tail[0] != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf || !number || !count) return std::nullopt;
  return SplitName{file_name.substr(0, file_name.size() - kTail), *number, *count};
}

std::string split_file_name(const SplitName& name) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", name.stem, name.number, name.count);
}

std::shared_ptr<const GgufFile> GgufFile::open(const std::filesystem::path& path) {
  std::shared_ptr<GgufFile> file(new GgufFile);
  file->add_part(path, 0, 0);
  const std::uint64_t count = file->metadata_.natural(kSplitCount).value_or(1);
  if (count <= 1) return file;
  NIBBLE_REQUIRE(count <= kMaxParts, FormatError, "GGUF: {} says it is one of {} files; the limit is {}", quoted(path),
                 count, kMaxParts);
  SplitName name = check_first_name(path, count);
  for (std::uint32_t i = 1; i < count; ++i) {
    name.number = i + 1;
    const std::filesystem::path part = path.parent_path() / split_file_name(name);
    NIBBLE_REQUIRE(std::filesystem::exists(part), FormatError,
                   "GGUF: {} is one of {} files, but {} is not there. Incomplete download?", quoted(path), count,
                   quoted(part));
    file->add_part(part, i, count);
  }
  const auto promised = file->metadata_.natural(kSplitTensors);
  NIBBLE_REQUIRE(!promised || *promised == file->tensors_.size(), FormatError,
                 "GGUF: the {} files of {} hold {} tensors; '{}' says {}", count, quoted(path), file->tensors_.size(),
                 kSplitTensors, *promised);
  return file;
}

void GgufFile::add_part(const std::filesystem::path& path, std::size_t index, std::size_t count) {
  auto mapped = std::make_unique<const MappedFile>(path);
  GgufContents contents = parse_gguf(mapped->bytes(), quoted(path));
  mapped->check_intact();
  const auto number = contents.metadata.natural(kSplitNo);
  if (index == 0) {
    NIBBLE_REQUIRE(number.value_or(0) == 0 || contents.metadata.natural(kSplitCount).value_or(1) <= 1, FormatError,
                   "GGUF: {} is file {} of a split; open the first one, whose name ends in '-00001-of-{:05}.gguf'",
                   quoted(path), *number + 1, *contents.metadata.natural(kSplitCount));
    version_ = contents.version;
    metadata_ = std::move(contents.metadata);
  } else {
    const auto of = contents.metadata.natural(kSplitCount);
    NIBBLE_REQUIRE(number && *number == index && of && *of == count, FormatError,
                   "GGUF: {} should be file {} of {}, but its metadata say {} of {}. Do the files belong together?",
                   quoted(path), index + 1, count, number ? fmt::to_string(*number + 1) : "none",
                   of ? fmt::to_string(*of) : "none");
  }
  for (GgufTensor& tensor : contents.tensors) {
    tensor.part = index;
    NIBBLE_REQUIRE(by_name_.emplace(tensor.name, tensors_.size()).second, FormatError,
                   "GGUF: the tensor '{}' of {} is in an earlier file of the split too", tensor.name, quoted(path));
    tensors_.push_back(std::move(tensor));
  }
  parts_.push_back(std::move(mapped));
}

const GgufTensor* GgufFile::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

const GgufTensor& GgufFile::tensor(const std::string& name) const {
  const GgufTensor* const tensor = find(name);
  if (tensor != nullptr) return *tensor;
  std::vector<std::string_view> names;
  for (const GgufTensor& other : tensors_) names.push_back(other.name);
  throw FormatError(
      fmt::format("missing tensor '{}' in {}{}", excerpt(name), quoted(path()), did_you_mean(name, names)));
}

std::uint64_t GgufFile::tensor_bytes() const {
  std::uint64_t sum = 0;
  for (const GgufTensor& tensor : tensors_) sum += tensor.data.size();
  return sum;
}

const MappedFile* GgufFile::part_of(std::span<const std::byte> bytes) const {
  const std::less_equal<const std::byte*> not_after;
  for (const auto& part : parts_) {
    const auto all = part->bytes();
    if (not_after(all.data(), bytes.data()) && not_after(bytes.data() + bytes.size(), all.data() + all.size()))
      return part.get();
  }
  return nullptr;
}

const MappedFile& GgufFile::part_with(std::span<const std::byte> bytes) const {
  const MappedFile* const part = part_of(bytes);
  NIBBLE_REQUIRE(part != nullptr, InvalidArgument, "GGUF: {} does not hold these bytes", quoted(path()));
  return *part;
}

bool GgufFile::holds(std::span<const std::byte> bytes) const { return part_of(bytes) != nullptr; }
void GgufFile::check_intact(std::span<const std::byte> bytes) const { part_with(bytes).check_intact(); }
void GgufFile::release(std::span<const std::byte> bytes) const { part_with(bytes).release(bytes); }

void GgufFile::check_intact(const GgufTensor& tensor) const { parts_.at(tensor.part)->check_intact(); }
void GgufFile::release(const GgufTensor& tensor) const {
  if (!tensor.data.empty()) parts_.at(tensor.part)->release(tensor.data);
}
std::string GgufFile::hash(const GgufTensor& tensor) const { return parts_.at(tensor.part)->hash(tensor.data); }

}  // namespace nibble::model
