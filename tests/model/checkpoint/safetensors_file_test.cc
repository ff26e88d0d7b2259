#include "model/checkpoint/safetensors_file.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/throws.h"
#include "tests/support/tiny_checkpoint.h"

namespace nibble::model {
namespace {

using test::raw_safetensors;
using test::throws_with;
using test::TinyTensor;

SafetensorsContents parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "m.safetensors");
}

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The file is refused with a FormatError that names it and holds all of `words`.
template <class... Words>
testing::AssertionResult refuses(const std::string& file, Words... words) {
  return throws_with<FormatError>([&] { parse(file); }, "m.safetensors", words...);
}

/// A file with one tensor `x` of 4 bytes of data, described by `entry`.
std::string with_entry(std::string_view entry) { return raw_safetensors("{\"x\":" + std::string(entry) + "}", "abcd"); }

TEST(Safetensors, OfEveryDtypeAreReadBack) {
  const std::vector<std::pair<std::string, std::size_t>> dtypes{
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"I32", 4}, {"I16", 2},
      {"I8", 1},  {"U64", 8}, {"U32", 4}, {"U16", 2},  {"U8", 1},  {"BOOL", 1}};
  Random random(1);
  std::vector<TinyTensor> tensors;
  for (const auto& [dtype, size] : dtypes) {
    std::string bytes(6 * size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.below(256));
    tensors.push_back({"t." + dtype, dtype, {2, 3}, bytes});
  }
  const std::string file = safetensors_bytes(tensors);
  const SafetensorsContents contents = parse(file);
  ASSERT_EQ(contents.tensors.size(), dtypes.size());
  for (const TinyTensor& expected : tensors) {
    SCOPED_TRACE(expected.name);
    const auto found = std::find_if(contents.tensors.begin(), contents.tensors.end(),
                                    [&](const TensorView& tensor) { return tensor.name == expected.name; });
    ASSERT_NE(found, contents.tensors.end());
    EXPECT_EQ(dtype_name(found->dtype), expected.dtype);
    EXPECT_THAT(found->shape, testing::ElementsAre(2, 3));
    EXPECT_EQ(found->element_count(), 6u);
    EXPECT_EQ(text(found->data), expected.bytes);
  }
}

TEST(Safetensors, HoldTheBytesOfEachTensorAtAnyAlignment) {
  for (std::size_t shift = 0; shift < 8; ++shift) {
    const std::vector<TinyTensor> tensors{
        {"odd", "U8", {shift}, std::string(shift, '#')}, {"b", "F32", {2}, "abcdefgh"}, {"a", "F64", {}, "ABCDEFGH"}};
    const std::string file = safetensors_bytes(tensors);
    const SafetensorsContents contents = parse(file);
    ASSERT_EQ(contents.tensors.size(), 3u);
    EXPECT_EQ(contents.tensors[0].name, "a") << "in name order";
    EXPECT_EQ(text(contents.tensors[0].data), "ABCDEFGH");
    EXPECT_EQ(contents.tensors[0].element_count(), 1u) << "a scalar has an empty shape";
    EXPECT_EQ(text(contents.tensors[1].data), "abcdefgh");
    EXPECT_EQ(contents.tensors[2].data.size(), shift);
  }
}

TEST(Safetensors, MayHoldNoTensorMetadataAndPadding) {
  EXPECT_TRUE(parse(raw_safetensors("{}", "")).tensors.empty());
  const SafetensorsContents contents = parse(raw_safetensors(
      R"({"__metadata__":{"format":"pt","k":""},"x":{"shape":[0,7],"data_offsets":[0,0],"dtype":"F16"}}   )", ""));
  EXPECT_THAT(contents.metadata, testing::ElementsAre(testing::Pair("format", "pt"), testing::Pair("k", "")));
  ASSERT_EQ(contents.tensors.size(), 1u);
  EXPECT_EQ(contents.tensors[0].element_count(), 0u);
}

// Hostile and broken files.

TEST(Safetensors, ShorterThanTheSizeOfTheHeaderAreRefused) {
  EXPECT_TRUE(refuses("", "at least 8 bytes", "got 0", "Incomplete download?"));
  EXPECT_TRUE(refuses("1234567", "got 7"));
}

TEST(Safetensors, WithAHeaderSizeBeyondTheLimitAreRefused) {
  EXPECT_TRUE(refuses(std::string(8, '\xFF') + "{}", "claims 18446744073709551615 bytes", "limit is 100000000"));
  EXPECT_TRUE(refuses(std::string("\x01\xE1\xF5\x05\0\0\0\0", 8) + "{}", "claims 100000001 bytes"));
}

TEST(Safetensors, WithAHeaderBeyondTheEndOfTheFileAreRefused) {
  EXPECT_TRUE(refuses(std::string("\x03\0\0\0\0\0\0\0", 8) + "{}", "claims 3 bytes", "only 2 follow", "Incomplete"));
}

TEST(Safetensors, ThatAreGitLfsPointersAreRecognised) {
  EXPECT_TRUE(refuses("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer", "git lfs pull"));
}

TEST(Safetensors, WhoseHeaderIsNoJsonObjectAreRefused) {
  EXPECT_TRUE(refuses(raw_safetensors("", ""), "does not start with '{'"));
  EXPECT_TRUE(refuses(raw_safetensors("[]", ""), "does not start with '{'"));
  EXPECT_TRUE(refuses(raw_safetensors(" {}", ""), "does not start with '{'"));
}

TEST(Safetensors, WhoseHeaderIsBrokenJsonAreRefused) {
  EXPECT_TRUE(refuses(raw_safetensors("{", ""), "not valid JSON"));
  EXPECT_FALSE(refuses(raw_safetensors("{", ""), "json.exception")) << "names of the library say nothing to users";
  EXPECT_TRUE(refuses(raw_safetensors("{}{}", ""), "not valid JSON"));
  EXPECT_TRUE(refuses(raw_safetensors(std::string("{}\0x", 4), ""), "zero byte"));
  EXPECT_TRUE(refuses(raw_safetensors("{\"\xFF\":1}", ""), "not valid JSON"));
}

TEST(Safetensors, WithAMegabyteOfRubbishGetAShortMessage) {
  try {
    parse(raw_safetensors("{\"" + std::string(1 << 20, 'x'), ""));
    FAIL() << "nothing was thrown";
  } catch (const FormatError& error) {
    EXPECT_LT(std::string_view(error.what()).size(), 400u);
  }
}

TEST(Safetensors, NestedWithoutEndAreRefusedAtTheFirstLevelTooMany) {
  EXPECT_TRUE(refuses(raw_safetensors("{\"x\":" + std::string(1 << 20, '['), ""), "'x' should be an object", "array"));
  EXPECT_TRUE(refuses(with_entry(R"({"dtype":{"a":1}})"), "'x'", "dtype is an object"));
  EXPECT_TRUE(refuses(with_entry(R"({"shape":[[2]]})"), "'x'", "shape contains an array"));
}

TEST(Safetensors, WithATensorListedTwiceAreRefused) {
  const std::string entry = R"("x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  EXPECT_TRUE(refuses(raw_safetensors("{" + entry + "," + entry + "}", "abcd"), "tensor 'x' is listed twice"));
}

TEST(Safetensors, WithDuplicateKeysInAnEntryAreRefused) {
  EXPECT_TRUE(refuses(with_entry(R"({"dtype":"U8","dtype":"U8"})"), "'x'", "duplicate key 'dtype'"));
  EXPECT_TRUE(refuses(with_entry(R"({"shape":[4],"shape":[4]})"), "duplicate key 'shape'"));
  EXPECT_TRUE(refuses(with_entry(R"({"data_offsets":[0,4],"data_offsets":[0,4]})"), "duplicate key 'data_offsets'"));
}

TEST(Safetensors, WithWrongMetadataAreRefused) {
  EXPECT_TRUE(refuses(raw_safetensors(R"({"__metadata__":{"a":1}})", ""), "only hold strings", "'a' is a number"));
  EXPECT_TRUE(refuses(raw_safetensors(R"({"__metadata__":{"a":{}}})", ""), "'a' is an object"));
  EXPECT_TRUE(refuses(raw_safetensors(R"({"__metadata__":"a"})", ""), "'__metadata__' should be an object"));
  EXPECT_TRUE(refuses(raw_safetensors(R"({"__metadata__":{"a":"1","a":"2"}})", ""), "duplicate key 'a'"));
  EXPECT_TRUE(refuses(raw_safetensors(R"({"__metadata__":{},"__metadata__":{}})", ""), "duplicate key '__metadata__'"));
}

TEST(Safetensors, WithMissingOrUnknownKeysAreRefused) {
  EXPECT_TRUE(refuses(with_entry("{}"), "tensor 'x' has no dtype"));
  EXPECT_TRUE(refuses(with_entry(R"({"dtype":"U8"})"), "tensor 'x' has no shape"));
  EXPECT_TRUE(refuses(with_entry(R"({"dtype":"U8","shape":[4]})"), "tensor 'x' has no data_offsets"));
  EXPECT_TRUE(refuses(with_entry(R"({"type":"U8"})"), "unknown key 'type'", "expected dtype"));
  EXPECT_TRUE(refuses(with_entry("null"), "'x' should be an object", "null"));
}

TEST(Safetensors, OfAnUnknownDtypeAreRefusedByItsName) {
  EXPECT_TRUE(refuses(with_entry(R"({"dtype":"F4","shape":[4],"data_offsets":[0,4]})"), "'x'", "'F4'"));
  EXPECT_TRUE(refuses(with_entry(R"({"dtype":7})"), "dtype is a number", "expected a string"));
}

TEST(Safetensors, WhoseShapeIsNotOfNaturalNumbersAreRefused) {
  EXPECT_TRUE(refuses(with_entry(R"({"shape":[-1]})"), "shape contains -1"));
  EXPECT_TRUE(refuses(with_entry(R"({"shape":[1.5]})"), "shape contains 1.5"));
  EXPECT_TRUE(refuses(with_entry(R"({"shape":[4e0]})"), "shape contains 4e0"));
  EXPECT_TRUE(refuses(with_entry(R"({"shape":[18446744073709551616]})"), "shape contains 18446744073709551616"));
  EXPECT_TRUE(refuses(with_entry(R"({"shape":["4"]})"), "shape contains a string"));
  EXPECT_TRUE(refuses(with_entry(R"({"shape":4})"), "shape is a number", "expected an array"));
  EXPECT_TRUE(refuses(with_entry(R"({"shape":[true]})"), "shape contains true or false"));
}

TEST(Safetensors, OfARankBeyondReasonAreRefused) {
  std::string ones = "1";
  for (int i = 0; i < 32; ++i) ones += ",1";
  EXPECT_TRUE(refuses(with_entry(R"({"dtype":"U8","shape":[)" + ones + "]}"), "'x'", "more than 32 dimensions"));
}

TEST(Safetensors, WhoseShapeOverflowsAreRefused) {
  EXPECT_TRUE(refuses(with_entry(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,4]})"),
                      "tensor x:", "overflows 64 bits"));
  EXPECT_TRUE(refuses(with_entry(R"({"dtype":"F64","shape":[2305843009213693953],"data_offsets":[0,8]})"),
                      "tensor x:", "overflows 64 bits"));
}

TEST(Safetensors, WhoseShapeDoesNotFitTheirBytesAreRefused) {
  EXPECT_TRUE(refuses(with_entry(R"({"dtype":"BF16","shape":[11008,2048],"data_offsets":[0,45088640]})"), "tensor 'x'",
                      "needs 45088768 bytes", "(11008, 2048) BF16", "span 45088640", "Incomplete download?"));
  EXPECT_TRUE(refuses(with_entry(R"({"dtype":"U8","shape":[3],"data_offsets":[0,4]})"), "needs 3 bytes", "span 4"));
  EXPECT_TRUE(refuses(with_entry(R"({"dtype":"F32","shape":[0],"data_offsets":[0,4]})"), "needs 0 bytes"));
}

TEST(Safetensors, WithWrongNumbersOfOffsetsAreRefused) {
  EXPECT_TRUE(refuses(with_entry(R"({"data_offsets":[4]})"), "data_offsets needs 2 numbers, has 1"));
  EXPECT_TRUE(refuses(with_entry(R"({"data_offsets":[0,4,8]})"), "data_offsets needs 2 numbers, has more"));
  EXPECT_TRUE(refuses(with_entry(R"({"data_offsets":[-4,4]})"), "data_offsets contains -4"));
  EXPECT_TRUE(refuses(with_entry(R"({"data_offsets":"0,4"})"), "data_offsets is a string"));
}

TEST(Safetensors, WhoseOffsetsRunBackwardsAreRefused) {
  EXPECT_TRUE(refuses(with_entry(R"({"dtype":"U8","shape":[4],"data_offsets":[4,0]})"), "[4, 0]", "before they begin"));
}

TEST(Safetensors, WhoseOffsetsLeaveTheFileAreRefused) {
  EXPECT_TRUE(refuses(with_entry(R"({"dtype":"U8","shape":[5],"data_offsets":[0,5]})"), "tensor 'x' ends at byte 5",
                      "4 bytes of data", "Incomplete download?"));
  EXPECT_TRUE(
      refuses(with_entry(R"({"dtype":"U8","shape":[4],"data_offsets":[18446744073709551611,18446744073709551615]})"),
              "ends at byte 18446744073709551615"));
}

std::string two_tensors(std::string_view offsets_a, std::string_view offsets_b) {
  const std::string entry = R"({"dtype":"U8","shape":[2],"data_offsets":)";
  return raw_safetensors(
      "{\"a\":" + entry + std::string(offsets_a) + "},\"b\":" + entry + std::string(offsets_b) + "}}", "abcdef");
}

TEST(Safetensors, WhoseTensorsOverlapAreRefused) {
  EXPECT_TRUE(refuses(two_tensors("[0,2]", "[1,3]"), "tensor 'b' begins at byte 1", "inside 'a'", "ends at 2"));
  EXPECT_TRUE(refuses(two_tensors("[0,2]", "[0,2]"), "begins at byte 0", "ends at 2"));
}

TEST(Safetensors, WithBytesThatBelongToNoTensorAreRefused) {
  EXPECT_TRUE(refuses(two_tensors("[0,2]", "[4,6]"), "gap of 2 bytes", "'a'", "'b'"));
  EXPECT_TRUE(refuses(two_tensors("[2,4]", "[4,6]"), "gap of 2 bytes", "the header", "'a'"));
  EXPECT_TRUE(refuses(two_tensors("[2,4]", "[0,2]"), "2 bytes after the last tensor"));
  EXPECT_TRUE(refuses(raw_safetensors("{}", "x"), "1 bytes after the last tensor"));
}

TEST(Safetensors, WithImpossibleTensorNamesAreRefused) {
  EXPECT_TRUE(refuses(raw_safetensors(R"({"":{}})", ""), "expected 1 to 1024 bytes", "got 0"));
  EXPECT_TRUE(refuses(raw_safetensors("{\"" + std::string(1025, 'n') + "\":{}}", ""), "got 1025"));
  EXPECT_TRUE(refuses(raw_safetensors("{\"\\u001b[2J\":{}}", ""), "'?[2J'", "control characters"));
}

TEST(Safetensors, DamagedAnywhereAreRefusedOrStayWithinTheirBytes) {
  const std::vector<TinyTensor> tensors{{"weight", "F16", {2, 3}, "abcdefghijkl"}, {"b", "U8", {3}, "xyz"}};
  const std::string intact = safetensors_bytes(tensors);
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    std::string file = intact;
    for (std::uint64_t i = 0; i < 1 + random.below(3); ++i) {
      const std::size_t position = random.below(file.size());
      constexpr std::string_view kLikely = "0123456789[]{},:\"-.eE \\";
      file[position] =
          random.below(2) != 0 ? kLikely[random.below(kLikely.size())] : static_cast<char>(random.below(256));
    }
    if (random.below(4) == 0) file.resize(random.below(file.size()));
    try {
      const SafetensorsContents contents = parse(file);
      std::size_t total = 0;
      for (const TensorView& tensor : contents.tensors) {
        total += tensor.data.size();
        ASSERT_EQ(tensor.element_count() * dtype_size(tensor.dtype), tensor.data.size());
        ASSERT_TRUE(tensor.data.empty() || (tensor.data.data() >= std::as_bytes(std::span(file)).data() &&
                                            &tensor.data.back() <= &std::as_bytes(std::span(file)).back()));
      }
      ASSERT_LE(total, file.size());
    } catch (const FormatError&) {  // what is wanted; any other exception fails the test
    }
  }
}

}  // namespace
}  // namespace nibble::model
