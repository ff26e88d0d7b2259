#include "model/checkpoint/tensor_stream.h"

#include "core/error.h"

namespace nibble::model {

TensorStream::TensorStream(std::filesystem::path path, const std::string& head, std::vector<TensorExtent> extents,
                           Flush flush)
    : path_(std::move(path)), extents_(std::move(extents)), file_(path_, flush) {
  file_.write(head);
  finish_complete();
}

void TensorStream::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  NIBBLE_REQUIRE(current_ < extents_.size(), InvalidArgument, "writing '{}': {} bytes after the last declared tensor",
                 path_.string(), bytes.size());
  const TensorExtent& tensor = extents_[current_];
  const std::uint64_t room = tensor.end - written_;
  NIBBLE_REQUIRE(bytes.size() <= room, InvalidArgument,
                 "writing '{}': tensor '{}' has room for {} more bytes, got {}; a write must not cross into the next "
                 "tensor",
                 path_.string(), tensor.name, room, bytes.size());
  file_.write(bytes);
  written_ += bytes.size();
  finish_complete();
}

void TensorStream::commit() {
  NIBBLE_REQUIRE(current_ == extents_.size(), InvalidArgument,
                 "writing '{}': tensor '{}' is incomplete: {} bytes are missing", path_.string(),
                 extents_[current_].name, extents_[current_].end - written_);
  file_.commit();
}

/// Pads complete tensors and steps over them.
void TensorStream::finish_complete() {
  for (; current_ < extents_.size() && extents_[current_].end == written_; ++current_) {
    const std::uint64_t padded_end = extents_[current_].padded_end;
    if (padded_end > written_) file_.write(std::string(padded_end - written_, '\0'));
    written_ = padded_end;
  }
}

}  // namespace nibble::model
