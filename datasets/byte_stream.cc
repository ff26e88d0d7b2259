#include "datasets/byte_stream.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <boost/iostreams/categories.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filtering_streambuf.hpp>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <vector>

#include "core/error.h"

namespace nibble::datasets {
namespace {

constexpr std::uint64_t kFreeExpansion = std::uint64_t{64} << 20;  // bytes before the ratio is looked at
constexpr int kLargestWindowLog = 27;  // of zstd's memory, 128 MiB: what its own program takes without being told

class File {
 public:
  explicit File(const std::filesystem::path& path) : path_(path) {
    require_regular_file(path);
    file_.open(path, std::ios::binary);
    if (!file_.is_open()) throw errno_error(fmt::format("cannot open '{}'", path.string()), errno);
  }
  std::size_t read(char* buffer, std::size_t size) {
    file_.read(buffer, static_cast<std::streamsize>(size));
    NIBBLE_REQUIRE(!file_.bad(), FormatError, "cannot read '{}' after byte {}", path_.string(), bytes_);
    const auto count = static_cast<std::size_t>(file_.gcount());
    bytes_ += count;
    return count;
  }
  std::uint64_t bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::ifstream file_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

class ByteStream::Decoder {
 public:
  explicit Decoder(const std::filesystem::path& path) : file_(path) {}
  virtual ~Decoder() = default;
  virtual std::size_t read(std::span<char> buffer) { return file_.read(buffer.data(), buffer.size()); }
  std::uint64_t file_bytes_read() const { return file_.bytes(); }

 protected:
  File file_;
};

namespace {

class GzipDecoder final : public ByteStream::Decoder {
 public:
  explicit GzipDecoder(const std::filesystem::path& path) : Decoder(path) {
    stream_.push(boost::iostreams::gzip_decompressor());
    stream_.push(Source{&file_});
  }
  std::size_t read(std::span<char> buffer) override {
    try {
      return static_cast<std::size_t>(stream_.sgetn(buffer.data(), static_cast<std::streamsize>(buffer.size())));
    } catch (const std::ios_base::failure&) {  // the filter tells truncation from corruption by its state only
      throw FormatError(fmt::format("'{}': not a gzip file, corrupt or cut off", file_.path().string()));
    }
  }

 private:
  struct Source {
    using char_type = char;
    using category = boost::iostreams::source_tag;
    std::streamsize read(char* buffer, std::streamsize size) {
      const std::size_t count = file->read(buffer, static_cast<std::size_t>(size));
      return count > 0 ? static_cast<std::streamsize>(count) : -1;
    }
    File* file;
  };
  boost::iostreams::filtering_streambuf<boost::iostreams::input> stream_;
};

// Not through Boost's filter: in 1.74 that one takes a file which was cut off for a complete one.
class ZstdDecoder final : public ByteStream::Decoder {
 public:
  explicit ZstdDecoder(const std::filesystem::path& path)
      : Decoder(path), stream_(ZSTD_createDStream()), compressed_(ZSTD_DStreamInSize()) {
    NIBBLE_REQUIRE(
        stream_ && ZSTD_isError(ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kLargestWindowLog)) == 0,
        FormatError, "'{}': cannot set up zstd", path.string());
  }
  std::size_t read(std::span<char> buffer) override {
    ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
    while (out.pos == 0) {
      if (input_.pos == input_.size && !more_output_) {
        input_ = {compressed_.data(), file_.read(compressed_.data(), compressed_.size()), 0};
        if (input_.size == 0) {
          NIBBLE_REQUIRE(frame_complete_, FormatError, "'{}': the zstd file is cut off", file_.path().string());
          return 0;
        }
      }
      const std::size_t status = ZSTD_decompressStream(stream_.get(), &out, &input_);
      require_decoded(status);
      frame_complete_ = status == 0;
      more_output_ = !frame_complete_ && out.pos == out.size;
    }
    return out.pos;
  }

 private:
  void require_decoded(std::size_t status) const {
    NIBBLE_REQUIRE(ZSTD_getErrorCode(status) != ZSTD_error_frameParameter_windowTooLarge, FormatError,
                   "'{}': compressed by `zstd --long` with a window of more than {} MiB, which reading it takes of "
                   "memory; compress it again without --long, or with --long={} at most",
                   file_.path().string(), (1u << kLargestWindowLog) >> 20, kLargestWindowLog);
    NIBBLE_REQUIRE(ZSTD_isError(status) == 0, FormatError, "'{}': not a zstd file or corrupt: {}",
                   file_.path().string(), ZSTD_getErrorName(status));
  }

  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  std::vector<char> compressed_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  bool frame_complete_ = false, more_output_ = false;
};

std::unique_ptr<ByteStream::Decoder> make_decoder(const std::filesystem::path& path) {
  if (path.extension() == ".gz") return std::make_unique<GzipDecoder>(path);
  if (path.extension() == ".zst") return std::make_unique<ZstdDecoder>(path);
  return std::make_unique<ByteStream::Decoder>(path);
}

}  // namespace

void require_regular_file(const std::filesystem::path& path) {
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  NIBBLE_REQUIRE(!error, FormatError, "cannot open '{}': {}", path.string(), error.message());
  NIBBLE_REQUIRE(regular, FormatError, "cannot read '{}': expected a regular file, since it is read more than once",
                 path.string());
}

ByteStream::ByteStream(std::filesystem::path path) : path_(std::move(path)), decoder_(make_decoder(path_)) {}
ByteStream::~ByteStream() = default;
ByteStream::ByteStream(ByteStream&&) noexcept = default;
ByteStream& ByteStream::operator=(ByteStream&&) noexcept = default;

std::size_t ByteStream::read(std::span<char> buffer) {
  const std::size_t count = decoder_->read(buffer);
  bytes_ += count;
  NIBBLE_REQUIRE(bytes_ <= kFreeExpansion || bytes_ / kLargestExpansion <= decoder_->file_bytes_read(), FormatError,
                 "'{}': {} bytes of the file expand to more than {}; no text compresses more than {} times",
                 path_.string(), decoder_->file_bytes_read(), bytes_, kLargestExpansion);
  return count;
}

std::uint64_t ByteStream::file_bytes_read() const { return decoder_->file_bytes_read(); }

}  // namespace nibble::datasets
