#pragma once

#include <zstd.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wrestrict"  // a false alarm of GCC 12 inside Boost (GCC bug 105651)
#include <boost/iostreams/copy.hpp>
#include <boost/iostreams/device/array.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filtering_streambuf.hpp>
#pragma GCC diagnostic pop
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace nibble::test {

/// `text` as a gzip file of one member.
inline std::string gzip(std::string_view text) {
  namespace io = boost::iostreams;
  std::ostringstream packed;
  io::filtering_streambuf<io::input> in;
  in.push(io::gzip_compressor());
  in.push(io::array_source(text.data(), text.size()));
  io::copy(in, packed);
  return packed.str();
}

/// `text` as a zstd file of one frame.
inline std::string zstd(std::string_view text, bool checksum = true) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum ? 1 : 0);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress2(context, packed.data(), packed.size(), text.data(), text.size());
  ZSTD_freeCCtx(context);
  if (ZSTD_isError(size)) throw std::runtime_error(ZSTD_getErrorName(size));
  packed.resize(size);
  return packed;
}

}  // namespace nibble::test
