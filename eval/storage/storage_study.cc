#include "eval/storage/storage_study.h"

#include <sys/resource.h>

#include <algorithm>
#include <functional>

#include "core/error.h"
#include "eval/storage/byte_codecs.h"
#include "eval/storage/rans.h"
#include "eval/storage/specialist_codecs.h"

namespace nibble::eval {
namespace {

using Bytes = std::vector<std::byte>;
using Values = std::vector<std::uint32_t>;

// Compresses values that a step has been applied to.
struct ValueCodec {
  std::string name, layout;
  std::function<Bytes(const Values& values)> compress;
  std::function<Values(const Bytes& bytes, std::size_t count)> expand;
};

ValueCodec general_codec(const ByteCodec& codec, Layout layout, unsigned width) {
  return {std::string(codec.name), std::string(layout_name(layout)),
          [=](const Values& values) { return codec.compress(lay_out(layout, values, width)); },
          [=](const Bytes& bytes, std::size_t count) {
            const std::size_t size = lay_out(layout, Values(count), width).size();
            return pick_up(layout, codec.expand(bytes, size), count, width);
          }};
}

// A stream per byte of the values, each after its length in 8 bytes.
Bytes rans_planes(const Values& values, unsigned width) {
  Bytes all;
  std::vector<std::uint8_t> plane(values.size());
  for (unsigned shift = 0; shift < width; shift += 8) {
    std::transform(values.begin(), values.end(), plane.begin(),
                   [=](std::uint32_t v) { return static_cast<std::uint8_t>(v >> shift); });
    const Bytes coded = rans_encode(plane);
    for (unsigned b = 0; b < 8; ++b) all.push_back(static_cast<std::byte>(coded.size() >> (8 * b)));
    all.insert(all.end(), coded.begin(), coded.end());
  }
  return all;
}

Values unrans_planes(std::span<const std::byte> bytes, std::size_t count, unsigned width) {
  Values values(count);
  for (unsigned shift = 0; shift < width; shift += 8) {
    std::uint64_t size = 0;
    for (unsigned b = 0; b < 8; ++b) size |= std::to_integer<std::uint64_t>(bytes[b]) << (8 * b);
    const std::vector<std::uint8_t> plane = rans_decode(bytes.subspan(8, size), count);
    for (std::size_t i = 0; i < count; ++i) values[i] |= std::uint32_t{plane[i]} << shift;
    bytes = bytes.subspan(8 + size);
  }
  return values;
}

std::vector<ValueCodec> codecs_for(unsigned width) {
  std::vector<ValueCodec> codecs;
  for (const ByteCodec& codec : byte_codecs()) {
    codecs.push_back(general_codec(codec, Layout::kPacked, width));
    if (width != 8) codecs.push_back(general_codec(codec, Layout::kBytePlanes, width));  // at 8 bits the same
    codecs.push_back(general_codec(codec, Layout::kBitPlanes, width));
  }
  codecs.push_back({"rANS", "", [=](const Values& values) { return rans_planes(values, width); },
                    [=](const Bytes& bytes, std::size_t count) { return unrans_planes(bytes, count, width); }});
  codecs.push_back({"simple8b", "", [](const Values& values) { return simple8b_encode(values); },
                    [](const Bytes& bytes, std::size_t count) { return simple8b_decode(bytes, count); }});
  if (width == 16 || width == 32)
    codecs.push_back({"gorilla", "", [=](const Values& values) { return gorilla_encode(values, width); },
                      [=](const Bytes& bytes, std::size_t count) { return gorilla_decode(bytes, count, width); }});
  return codecs;
}

std::string transform_text(ValueStep step, const std::string& layout) {
  const std::string name(step_name(step));
  if (layout.empty()) return name.empty() ? "plain" : name;
  return name.empty() ? layout : fmt::format("{}, {}", name, layout);
}

constexpr double kClockStep = 1e-6;  // seconds

// Of the whole process: Boost's lzma compresses on a thread of its own. Linux's clock of processes goes by ticks of
// milliseconds where a limit is set (ulimit -t); this one does not.
double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * kClockStep;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

CompressionResult measure(const ValueStream& stream, ValueStep step, const ValueCodec& codec) {
  const BitPatterns& patterns = stream.patterns;
  const std::size_t count = patterns.values.size();
  const double start = processor_seconds();
  const Bytes bytes = codec.compress(apply_step(step, patterns));
  const double compressed = processor_seconds();
  Values back = codec.expand(bytes, count);
  undo_step(step, patterns.width, patterns.offset_binary, back);
  const double expanded = processor_seconds();
  NIBBLE_REQUIRE(back == patterns.values, NumericalError, "storage study: {} ({}) does not give back '{}'", codec.name,
                 transform_text(step, codec.layout), stream.name);

  const auto packed = static_cast<double>(packed_bytes(count, patterns.width));
  const auto rate = [&](double seconds) { return packed * 1e-6 / std::max(seconds, kClockStep); };
  return {.codec = codec.name,
          .transform = transform_text(step, codec.layout),
          .bytes = bytes.size(),
          .ratio = packed / static_cast<double>(bytes.size()),
          .bits_per_value = static_cast<double>(bytes.size()) * 8.0 / static_cast<double>(count),
          .compress_megabytes_per_second = rate(compressed - start),
          .decompress_megabytes_per_second = rate(expanded - compressed)};
}

}  // namespace

std::vector<StreamStudy> study_storage(const std::filesystem::path& model, const StorageStudyOptions& options) {
  const std::vector<ValueStream> streams = collect_value_streams(model, options.sample_bytes);
  struct Task {
    std::size_t stream;
    ValueCodec codec;
    ValueStep step;
  };
  std::vector<StreamStudy> studies;
  std::vector<Task> tasks;
  for (const ValueStream& stream : streams) {
    const BitPatterns& patterns = stream.patterns;
    studies.push_back({.stream = stream.name,
                       .width = patterns.width,
                       .tensors = stream.tensors,
                       .values_in_model = stream.values_in_model,
                       .values = patterns.values.size(),
                       .bytes = packed_bytes(patterns.values.size(), patterns.width),
                       .entropies = entropies(patterns.values, stream.rows, patterns.width),
                       .results = {}});
    for (const ValueCodec& codec : codecs_for(patterns.width))
      for (const ValueStep step : {ValueStep::kNone, ValueStep::kDelta, ValueStep::kZigzag, ValueStep::kDeltaZigzag})
        tasks.push_back({studies.size() - 1, codec, step});
  }
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const Task& task = tasks[t];
    studies[task.stream].results.push_back(measure(streams[task.stream], task.step, task.codec));
    if (options.progress)
      options.progress({"compressing", static_cast<double>(t + 1), static_cast<double>(tasks.size()), "runs"});
  }
  return studies;
}

}  // namespace nibble::eval
