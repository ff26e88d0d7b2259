#include "eval/storage/byte_codecs.h"

#include <brotli/decode.h>
#include <brotli/encode.h>

#include <array>
#include <boost/iostreams/device/array.hpp>
#include <boost/iostreams/device/back_inserter.hpp>
#include <boost/iostreams/filter/bzip2.hpp>
#include <boost/iostreams/filter/lzma.hpp>
#include <boost/iostreams/filter/zlib.hpp>
#include <boost/iostreams/filter/zstd.hpp>
#include <boost/iostreams/filtering_stream.hpp>

#include "core/error.h"

namespace nibble::eval {
namespace {

namespace io = boost::iostreams;

constexpr std::streamsize kBuffer = 1 << 16;

template <class Filter>
std::vector<std::byte> through(const Filter& filter, std::span<const std::byte> bytes) {
  std::vector<char> out;
  {
    io::filtering_ostream stream;
    stream.push(filter, kBuffer);
    stream.push(io::back_inserter(out));
    stream.exceptions(std::ios::badbit);
    stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    io::close(stream);
  }
  const auto* data = reinterpret_cast<const std::byte*>(out.data());
  return {data, data + out.size()};
}

// Reads at most one byte more than `size`, so a damaged stream cannot fill the memory.
template <class Filter>
std::vector<std::byte> expanded(const Filter& filter, std::span<const std::byte> bytes, std::size_t size) {
  std::vector<std::byte> out(size + 1);
  std::streamsize got = 0;
  try {
    io::filtering_istream stream;
    stream.push(filter, kBuffer);
    stream.push(io::array_source(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    stream.exceptions(std::ios::badbit);
    stream.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
    got = stream.gcount();
  } catch (const std::exception& error) {
    throw FormatError(fmt::format("compressed stream: damaged ({})", error.what()));
  }
  NIBBLE_REQUIRE(static_cast<std::size_t>(got) == size, FormatError,
                 "compressed stream: expected {} bytes in it, got {}", size, got);
  out.pop_back();
  return out;
}

using Bytes = std::vector<std::byte>;
using View = std::span<const std::byte>;

constexpr int kBrotliQuality = 11;

Bytes brotli(View bytes) {
  Bytes out(BrotliEncoderMaxCompressedSize(bytes.size()) + 1);
  std::size_t size = out.size();
  const auto done = BrotliEncoderCompress(kBrotliQuality, BROTLI_DEFAULT_WINDOW, BROTLI_MODE_GENERIC, bytes.size(),
                                          reinterpret_cast<const std::uint8_t*>(bytes.data()), &size,
                                          reinterpret_cast<std::uint8_t*>(out.data()));
  NIBBLE_REQUIRE(done == BROTLI_TRUE, NumericalError, "brotli: could not compress {} bytes", bytes.size());
  out.resize(size);
  return out;
}

Bytes unbrotli(View bytes, std::size_t size) {
  Bytes out(size + 1);
  std::size_t got = out.size();
  const auto result = BrotliDecoderDecompress(bytes.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()), &got,
                                              reinterpret_cast<std::uint8_t*>(out.data()));
  NIBBLE_REQUIRE(result == BROTLI_DECODER_RESULT_SUCCESS && got == size, FormatError,
                 "brotli stream: damaged, or not {} bytes long", size);
  out.resize(size);
  return out;
}

template <std::uint32_t level>
Bytes zstd(View bytes) {
  return through(io::zstd_compressor(io::zstd_params(level)), bytes);
}
Bytes unzstd(View bytes, std::size_t size) { return expanded(io::zstd_decompressor(), bytes, size); }

constexpr std::array<ByteCodec, 6> kCodecs = {{
    {"zlib 6", [](View bytes) { return through(io::zlib_compressor(io::zlib_params(6)), bytes); },
     [](View bytes, std::size_t size) { return expanded(io::zlib_decompressor(), bytes, size); }},
    {"bzip2 9", [](View bytes) { return through(io::bzip2_compressor(io::bzip2_params(9)), bytes); },
     [](View bytes, std::size_t size) { return expanded(io::bzip2_decompressor(), bytes, size); }},
    {"lzma 6", [](View bytes) { return through(io::lzma_compressor(io::lzma_params(6)), bytes); },
     [](View bytes, std::size_t size) { return expanded(io::lzma_decompressor(), bytes, size); }},
    {"zstd 3", zstd<3>, unzstd},
    {"zstd 19", zstd<19>, unzstd},
    {"brotli 11", brotli, unbrotli},
}};

}  // namespace

std::span<const ByteCodec> byte_codecs() { return kCodecs; }

}  // namespace nibble::eval
