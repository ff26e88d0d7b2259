#include "model/checkpoint/safetensors_writer.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include "core/error.h"
#include "model/checkpoint/safetensors_file.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"
#include "tests/support/tiny_checkpoint.h"

namespace nibble::model {
namespace {

using test::read_file;
using test::TempDir;
using test::throws_with;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(SafetensorsWriter, WritesTheLayoutByteForByte) {
  const TempDir directory;
  SafetensorsWriter writer(directory / "x", {{"b", DType::kU8, {3}}, {"a", DType::kF16, {1, 2}}}, {{"k", "v\"w"}});
  writer.write(bytes_of("xyz"));
  writer.write(bytes_of("AB"));
  writer.write(bytes_of("CD"));
  writer.commit();
  std::string header = R"({"__metadata__":{"k":"v\"w"},"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                       R"("a":{"dtype":"F16","shape":[1,2],"data_offsets":[3,7]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(directory / "x"), test::raw_safetensors(header, "xyzABCD"));
}

TEST(SafetensorsWriter, StartsTheDataAtAMultipleOf8WhateverTheNames) {
  const TempDir directory;
  for (std::size_t length = 1; length <= 9; ++length) {
    SafetensorsWriter writer(directory / "x", {{std::string(length, 'n'), DType::kU8, {1}}});
    writer.write(bytes_of("x"));
    writer.commit();
    EXPECT_EQ((read_file(directory / "x").size() - 1) % 8, 0u);
  }
}

TEST(SafetensorsWriter, WritesWhatTheReaderReadsForEveryDtype) {
  const TempDir directory;
  std::vector<TensorDeclaration> declarations;
  std::string data;
  for (const char* name : {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"}) {
    const DType dtype = dtype_from_name(name).value();
    declarations.push_back({name, dtype, {3}});
    data += std::string(3 * dtype_size(dtype), name[0]);
  }
  declarations.push_back({"none", DType::kF32, {0, 5}});
  declarations.push_back({"scalar \"ü\"", DType::kU8, {}});
  data += "s";
  SafetensorsWriter writer(directory / "x", declarations);
  std::size_t at = 0;
  for (const TensorDeclaration& tensor : declarations) {
    std::size_t size = dtype_size(tensor.dtype);
    for (const std::uint64_t extent : tensor.shape) size *= extent;
    writer.write(bytes_of(std::string_view(data).substr(at, size)));
    at += size;
  }
  writer.commit();

  const std::string file = read_file(directory / "x");
  const SafetensorsContents contents = parse_safetensors(bytes_of(file), "x");
  ASSERT_EQ(contents.tensors.size(), declarations.size());
  for (const TensorDeclaration& expected : declarations) {
    const auto found = std::find_if(contents.tensors.begin(), contents.tensors.end(),
                                    [&](const TensorView& tensor) { return tensor.name == expected.name; });
    ASSERT_NE(found, contents.tensors.end()) << expected.name;
    EXPECT_EQ(found->dtype, expected.dtype);
    EXPECT_EQ(found->shape, expected.shape);
    if (expected.shape == std::vector<std::uint64_t>{3}) {
      EXPECT_EQ(std::to_integer<char>(found->data.back()), expected.name[0]);
    }
  }
}

TEST(SafetensorsWriter, OfNoTensorsWritesAnEmptyObject) {
  const TempDir directory;
  SafetensorsWriter(directory / "x", {}).commit();
  EXPECT_EQ(read_file(directory / "x"), test::raw_safetensors("{}      ", ""));
}

TEST(SafetensorsWriter, RefusesImpossibleNamesAndMetadata) {
  const TempDir directory;
  const auto refused = [&](std::vector<TensorDeclaration> tensors, std::string_view word) {
    return throws_with<InvalidArgument>([&] { SafetensorsWriter writer(directory / "x", tensors); }, word);
  };
  EXPECT_TRUE(refused({{"a", DType::kU8, {1}}, {"a", DType::kF32, {2}}}, "'a' is declared twice"));
  EXPECT_TRUE(refused({{"", DType::kU8, {1}}}, "no tensor can be named ''"));
  EXPECT_TRUE(refused({{"__metadata__", DType::kU8, {1}}}, "no tensor can be named '__metadata__'"));
  EXPECT_TRUE(refused({{"a\nb", DType::kU8, {1}}}, "no tensor can be named 'a?b'"));
  EXPECT_TRUE(refused({{"\xFF", DType::kU8, {1}}}, "is not UTF-8"));
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] {
        SafetensorsWriter writer(directory / "x", {}, {{"k", "\xFF"}});
      },
      "is not UTF-8"));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(SafetensorsWriter, RefusesSizesThatOverflow) {
  const TempDir directory;
  const std::uint64_t half = std::uint64_t{1} << 63;
  EXPECT_TRUE(throws_with<FormatError>(
      [&] {
        SafetensorsWriter writer(directory / "x", {{"a", DType::kU8, {half, 2}}});
      },
      "a", "overflows 64 bits"));
  EXPECT_TRUE(throws_with<FormatError>(
      [&] {
        SafetensorsWriter writer(directory / "x", {{"a", DType::kU8, {half}}, {"b", DType::kU8, {half}}});
      },
      "b", "overflows 64 bits"));
}

TEST(SafetensorsWriter, RefusesMoreBytesThanDeclared) {
  const TempDir directory;
  SafetensorsWriter writer(directory / "x", {{"a", DType::kU8, {2}}, {"b", DType::kU8, {1}}});
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { writer.write(bytes_of("123")); }, "'a' has room for 2 more", "got 3"));
  writer.write(bytes_of("12"));
  writer.write(bytes_of("3"));
  writer.write({});
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { writer.write(bytes_of("4")); }, "after the last declared tensor"));
  writer.commit();
}

TEST(SafetensorsWriter, CommitsNoIncompleteTensorAndLeavesNoFile) {
  const TempDir directory;
  {
    SafetensorsWriter writer(directory / "x", {{"a", DType::kU8, {2}}, {"b", DType::kF32, {2}}});
    writer.write(bytes_of("12"));
    writer.write(bytes_of("123"));
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { writer.commit(); }, "'b' is incomplete", "5 bytes are missing"));
    EXPECT_FALSE(std::filesystem::exists(directory / "x"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(SafetensorsWriter, NeedsADirectoryThatExists) {
  const TempDir directory;
  EXPECT_TRUE(throws_with<FormatError>([&] { SafetensorsWriter writer(directory / "absent/x", {}); }, "absent/x",
                                       "No such file"));
}

TEST(SafetensorsWriter, ReportsADiskThatTakesNoMoreAndLeavesNoFile) {
  const TempDir directory;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100000, before.rlim_max};
  {
    SafetensorsWriter writer(directory / "x", {{"a", DType::kU8, {200000}}});
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const std::string data(200000, 'x');
    const auto outcome =
        throws_with<FormatError>([&] { writer.write(bytes_of(data)); }, "cannot write", "File too large");
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_TRUE(outcome);
    EXPECT_THROW(writer.commit(), InvalidArgument) << "what failed cannot be committed";
  }
  signal(SIGXFSZ, old_handler);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

}  // namespace
}  // namespace nibble::model
