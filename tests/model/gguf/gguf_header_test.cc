#include "model/gguf/gguf_header.h"

#include <gmock/gmock.h>

#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "tests/model/gguf/tiny_gguf.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using test::gguf_bytes;
using test::gguf_head;
using test::info;
using test::le;
using test::pair;
using test::text;
using test::throws_with;
using test::TinyGgufTensor;
using test::u32;
using test::u64;

GgufContents parse(const std::string& file) { return parse_gguf(std::as_bytes(std::span(file)), "m.gguf"); }

/// The file is refused with a FormatError that names it and holds all of `words`.
template <class... Words>
testing::AssertionResult refuses(const std::string& file, Words... words) {
  return throws_with<FormatError>([&] { parse(file); }, "m.gguf", words...);
}

/// A file with this one pair and no tensor.
std::string with_pair(std::string_view pair) { return gguf_bytes({std::string(pair)}, {}, ""); }
/// An array's type, size and elements.
std::string array(std::uint32_t type, std::uint64_t size, std::string_view elements) {
  return u32(type) + u64(size) + std::string(elements);
}

std::string every_type() {
  return gguf_bytes(
      {pair("a.u8", 0, le<std::uint8_t>(200)), pair("a.i8", 1, le<std::int8_t>(-5)),
       pair("a.u16", 2, le<std::uint16_t>(60000)), pair("a.i16", 3, le<std::int16_t>(-600)), pair("a.u32", 4, u32(7)),
       pair("a.i32", 5, le<std::int32_t>(-7)), pair("a.f32", 6, le(0.1f)), pair("a.bool", 7, "\x01"),
       pair("a.string", 8, text("llama")), pair("a.array", 9, array(8, 3, text("x") + text("") + text("yz"))),
       pair("a.u64", 10, u64(std::uint64_t{1} << 63)), pair("a.i64", 11, le<std::int64_t>(-1)),
       pair("a.f64", 12, le(0.1)), pair("b.floats", 9, array(6, 2, le(1.5f) + le(-2.0f))),
       pair("b.ints", 9, array(3, 2, le<std::int16_t>(-3) + le<std::int16_t>(4))),
       pair("b.truths", 9, array(7, 2, std::string("\x01\x00", 2))),
       pair("b.nested", 9, array(9, 2, array(0, 1, "\x07") + array(9, 1, array(4, 0, "")))),
       pair("b.empty", 9, array(8, 0, ""))},
      {}, "");
}

TEST(Gguf, MetadataOfEveryTypeAreReadBack) {
  const GgufMetadata metadata = parse(every_type()).metadata;
  EXPECT_EQ(metadata.natural("a.u8"), 200u);
  EXPECT_EQ(metadata.integer("a.i8"), -5);
  EXPECT_EQ(metadata.natural("a.u16"), 60000u);
  EXPECT_EQ(metadata.integer("a.i16"), -600);
  EXPECT_EQ(metadata.need_natural("a.u32"), 7u);
  EXPECT_EQ(metadata.integer("a.i32"), -7);
  EXPECT_EQ(metadata.number("a.f32"), static_cast<double>(0.1f));
  EXPECT_EQ(metadata.truth("a.bool"), true);
  EXPECT_EQ(metadata.need_text("a.string"), "llama");
  EXPECT_EQ(metadata.natural("a.u64"), std::uint64_t{1} << 63);
  EXPECT_EQ(metadata.integer("a.i64"), -1);
  EXPECT_EQ(metadata.need_number("a.f64"), 0.1);
  EXPECT_EQ(metadata.number("a.u32"), 7.0) << "a whole number is a number";
  const GgufArray& strings = *metadata.array("a.array", GgufType::kString);
  ASSERT_EQ(strings.size, 3u);
  EXPECT_EQ(strings.text(0), "x");
  EXPECT_EQ(strings.text(1), "");
  EXPECT_EQ(strings.text(2), "yz");
  EXPECT_TRUE(test::near(metadata.array("b.floats", GgufType::kF32)->number(1), -2.0, {}));
  EXPECT_EQ(metadata.array_of_integers("b.ints")->integer(0), -3);
  EXPECT_TRUE(metadata.array("b.truths", GgufType::kBool)->truth(0));
  EXPECT_FALSE(metadata.array("b.truths", GgufType::kBool)->truth(1));
  const GgufArray& nested = *metadata.array("b.nested", GgufType::kArray);
  ASSERT_EQ(nested.items.size(), 2u);
  EXPECT_EQ(nested.items[0].array()->integer(0), 7);
  EXPECT_EQ(metadata.array("b.empty", GgufType::kString)->size, 0u);
  EXPECT_EQ(metadata.items().size(), 18u);
  EXPECT_EQ(metadata.items()[3].first, "a.i16") << "in the order of the file";
}

TEST(Gguf, MetadataOfEveryTypeAreWrittenBackAsTheyWere) {
  const std::string file = every_type();
  const GgufMetadata metadata = parse(file).metadata;
  std::string again = gguf_head(0, metadata.items().size());
  for (const auto& [key, value] : metadata.items()) {
    std::string bytes;
    value.append_to(bytes);
    again += pair(key, static_cast<std::uint32_t>(value.type()), bytes);
  }
  again.resize((again.size() + 31) / 32 * 32);
  EXPECT_EQ(again, file);
}

TEST(Gguf, MetadataOfAnotherKindThanAskedForAreRefusedByKey) {
  const GgufMetadata metadata = parse(every_type()).metadata;
  const auto refuses_to = [&](auto&& ask, auto... words) {
    return throws_with<FormatError>([&] { ask(); }, "metadata of m.gguf", words...);
  };
  EXPECT_TRUE(
      refuses_to([&] { metadata.natural("a.i32"); }, "'a.i32' should be a whole number from 0, but is INT32 -7"));
  EXPECT_TRUE(refuses_to([&] { metadata.natural("a.string"); }, "but is STRING 'llama'"));
  EXPECT_TRUE(refuses_to([&] { metadata.integer("a.u64"); }, "below 2^63", "UINT64 9223372036854775808"));
  EXPECT_TRUE(refuses_to([&] { metadata.number("a.bool"); }, "a number, but is BOOL true"));
  EXPECT_TRUE(refuses_to([&] { metadata.truth("a.u8"); }, "true or false, but is UINT8 200"));
  EXPECT_TRUE(refuses_to([&] { metadata.text("a.array"); }, "a string, but is ARRAY [STRING; 3]"));
  EXPECT_TRUE(refuses_to([&] { metadata.array("b.floats", GgufType::kString); }, "an array of STRING, but is ARRAY"));
  EXPECT_TRUE(refuses_to([&] { metadata.array("a.u8", GgufType::kU8); }, "an array of UINT8, but is UINT8 200"));
  EXPECT_TRUE(refuses_to([&] { metadata.array_of_integers("b.floats"); }, "an array of whole numbers"));
  EXPECT_TRUE(refuses_to([&] { metadata.per_layer("b.ints", 3); }, "one number for each of 3 layers, but has 2"));
  EXPECT_TRUE(refuses_to([&] { metadata.per_layer("b.ints", 2); }, "whole numbers from 0"));
  EXPECT_TRUE(refuses_to([&] { metadata.need_natural("none"); }, "expected a key 'none' with a whole number from 0"));
  EXPECT_TRUE(refuses_to([&] { metadata.need_text("none"); }, "a string, there is none"));
  EXPECT_TRUE(refuses_to([&] { metadata.need_number("none"); }, "a number, there is none"));
  EXPECT_EQ(metadata.natural("none"), std::nullopt);
  EXPECT_EQ(metadata.text("none"), nullptr);
  EXPECT_THAT(*metadata.per_layer("a.u32", 3), testing::ElementsAre(7, 7, 7));
  const GgufArray& strings = *metadata.array("a.array", GgufType::kString);
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)strings.text(3); }, "element 3 of 3"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { (void)strings.integer(0); }, "asked of an array of STRING"));
}

TEST(Gguf, TensorsAreViewsOfTheirBytes) {
  const std::string data = std::string(32, 'a') + std::string(36, 'b') + std::string(28, '\0') + "cdef";
  const std::string file = gguf_bytes(
      {}, {{"z", {8}, 0, 0}, {"blk.0.attn_q.weight", {32, 2}, 2, 32}, {"scalar", {}, 0, 96}, {"none", {0, 7}, 1, 0}},
      data);
  const GgufContents contents = parse(file);
  ASSERT_EQ(contents.tensors.size(), 4u);
  EXPECT_EQ(contents.version, 3u);
  EXPECT_EQ(contents.alignment, 32u);
  EXPECT_EQ(contents.tensors[0].name, "z") << "in the order of the file";
  const GgufTensor& q = contents.tensors[1];
  EXPECT_EQ(q.type, BlockType::kQ4_0);
  EXPECT_THAT(q.shape, testing::ElementsAre(2, 32)) << "row-major";
  EXPECT_EQ(q.rows(), 2u);
  EXPECT_EQ(q.cols(), 32u);
  EXPECT_EQ(q.element_count(), 64u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(q.data.data()), q.data.size()), std::string(36, 'b'));
  EXPECT_EQ(contents.tensors[2].data.size(), 4u);
  EXPECT_EQ(contents.tensors[2].rows(), 1u);
  EXPECT_TRUE(contents.tensors[3].data.empty());
}

TEST(Gguf, OfVersion2WithOtherAlignmentsGapsAndAnyOrderAreRead) {
  const std::string data = "....!!!!" + std::string(56, '.') + "abcd";
  const std::string file =
      gguf_bytes({pair("general.alignment", 4, u32(4))}, {{"b", {1}, 0, 64}, {"a", {1}, 0, 4}}, data, 4, 2);
  const GgufContents contents = parse(file);
  EXPECT_EQ(contents.version, 2u);
  EXPECT_EQ(contents.alignment, 4u);
  EXPECT_EQ(std::to_integer<char>(contents.tensors[0].data[0]), 'a');
  EXPECT_EQ(std::to_integer<char>(contents.tensors[1].data[0]), '!');
}

// Hostile and broken files.

TEST(Gguf, WithoutTheMagicAreRefused) {
  EXPECT_TRUE(refuses("", "at least 4 bytes", "got 0", "Incomplete download?"));
  EXPECT_TRUE(refuses("GGU", "got 3"));
  EXPECT_TRUE(refuses("PK\x03\x04 and more", "begin with 'GGUF', got 'PK?"));
  EXPECT_TRUE(refuses("version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer", "git lfs pull"));
  EXPECT_TRUE(refuses("tjgg\x01\0\0\0", "from before GGUF", "'tjgg'", "convert the model again"));
  EXPECT_TRUE(refuses("lmggxxxx", "from before GGUF"));
  EXPECT_TRUE(refuses("FUGGxxxx", "written backwards"));
}

TEST(Gguf, OfVersionsThatAreNotReadAreRefusedByName) {
  EXPECT_TRUE(refuses("GGUF", "ends inside the version", "4 bytes needed at byte 4, 0 are left"));
  EXPECT_TRUE(refuses(gguf_head(0, 0, 0), "version 0"));
  EXPECT_TRUE(refuses(gguf_head(0, 0, 1), "version 1, of August 2023", "expected 2 or 3"));
  EXPECT_TRUE(refuses(gguf_head(0, 0, 4), "version 4; expected 2 or 3"));
  EXPECT_TRUE(
      refuses(std::string("GGUF\0\0\0\x03", 8) + u64(0) + u64(0), "0x03000000", "big-endian", "gguf_convert_endian"));
  EXPECT_TRUE(refuses(std::string("GGUF\0\0\0\x02", 8), "big-endian"));
}

TEST(Gguf, CutShortAnywhereAreRefused) {
  const std::string file =
      gguf_bytes({pair("k", 9, array(8, 2, text("ab") + text("c"))), pair("general.alignment", 4, u32(32))},
                 {{"x", {8, 2}, 0, 0}}, std::string(64, 'd'));
  ASSERT_EQ(parse(file).tensors.size(), 1u);
  for (std::size_t size = 0; size < file.size(); ++size)
    EXPECT_TRUE(refuses(file.substr(0, size), "Incomplete download?")) << size;
}

TEST(Gguf, WithCountsThatTheFileCannotHoldAreRefused) {
  EXPECT_TRUE(refuses(gguf_head(~std::uint64_t{0}, 0), "the number of tensors is 18446744073709551615, the limit"));
  EXPECT_TRUE(refuses(gguf_head(0, ~std::uint64_t{0}), "the number of keys is 18446744073709551615, the limit"));
  EXPECT_TRUE(refuses(gguf_head(1000, 0), "the list of tensors claims 1000 elements"));
  EXPECT_TRUE(refuses(gguf_head(0, 1000), "the metadata claims 1000 elements"));
}

TEST(Gguf, WithKeysThatAreNoneAreRefused) {
  EXPECT_TRUE(refuses(with_pair(pair("", 4, u32(1))), "key 1 of 1 has 0 bytes"));
  EXPECT_TRUE(refuses(with_pair(pair(std::string(65536, 'k'), 4, u32(1))), "65536 bytes; expected 1 to 65535"));
  EXPECT_TRUE(refuses(with_pair(pair("a\nb", 4, u32(1))), "'a?b', contains a control character"));
  EXPECT_TRUE(refuses(gguf_head(0, 1) + u64(~std::uint64_t{0}) + "key....", "ends inside key 1 of 1"));
  EXPECT_TRUE(refuses(gguf_bytes({pair("k", 4, u32(1)), pair("k", 6, le(1.0f))}, {}, ""), "key 'k' is there twice"));
}

TEST(Gguf, WithValuesThatAreNoneAreRefused) {
  EXPECT_TRUE(refuses(with_pair(pair("k", 13, u32(1))), "the value of 'k' has type 13; expected 0 (UINT8) to 12"));
  EXPECT_TRUE(refuses(with_pair(pair("k", ~0u, u32(1))), "has type 4294967295"));
  EXPECT_TRUE(refuses(with_pair(pair("k", 7, "\x02")), "a BOOL should be 0 or 1, but is 2"));
  EXPECT_TRUE(refuses(with_pair(pair("k", 7, "\xFF")), "but is 255"));
  EXPECT_TRUE(refuses(with_pair(pair("k", 8, u64(std::uint64_t{1} << 62) + "x")), "ends inside the value of 'k'"));
  EXPECT_TRUE(refuses(gguf_head(0, 1) + text("kkkkkkkkkk") + u32(10) + "1234567", "8 bytes needed", "7 are left"));
}

TEST(Gguf, WithArraysThatTheFileCannotHoldAreRefused) {
  const std::uint64_t huge = std::uint64_t{1} << 61;
  EXPECT_TRUE(refuses(with_pair(pair("k", 9, array(8, huge, text("x")))), "elements of at least 8 bytes"));
  EXPECT_TRUE(refuses(with_pair(pair("k", 9, array(10, huge, ""))), "the value of 'k' claims 2305843009213693952"));
  EXPECT_TRUE(refuses(with_pair(pair("k", 9, array(0, ~std::uint64_t{0}, ""))), "of at least 1 bytes"));
  EXPECT_TRUE(refuses(with_pair(pair("k", 9, array(13, 1, u32(1)))), "has type 13"));
  EXPECT_TRUE(refuses(with_pair(pair("k", 9, array(7, 2, std::string("\x01\x05", 2)))), "but is 5"));
  EXPECT_TRUE(refuses(with_pair(pair("k", 9, array(8, 3, text("x") + text("y") + u64(1000)))), "ends inside"));
  EXPECT_TRUE(refuses(with_pair(pair("k", 9, array(9, huge, ""))), "of at least 12 bytes"));
}

TEST(Gguf, WithArraysInArraysBeyondReasonAreRefused) {
  std::string deep = array(0, 1, "\x07");
  for (int level = 1; level < 4; ++level) deep = array(9, 1, deep);
  EXPECT_EQ(parse(with_pair(pair("k", 9, deep))).metadata.items().size(), 1u) << "four deep";
  EXPECT_TRUE(refuses(with_pair(pair("k", 9, array(9, 1, deep))), "more than 4 deep"));
  std::string deepest;
  for (int level = 0; level < 100000; ++level) deepest += u32(9) + u64(1);
  EXPECT_TRUE(refuses(with_pair(pair("k", 9, deepest)), "more than 4 deep"));
  std::string wide;
  for (int i = 0; i < 70000; ++i) wide += array(0, 0, "");
  EXPECT_TRUE(refuses(with_pair(pair("k", 9, array(9, 70000, wide))), "the limit of 65536"));
}

TEST(Gguf, WithAlignmentsThatAreNoneAreRefused) {
  for (const std::uint32_t alignment : {0u, 3u, 48u, 1u << 21})
    EXPECT_TRUE(refuses(with_pair(pair("general.alignment", 4, u32(alignment))), "a power of two up to 1048576, but is",
                        std::to_string(alignment)));
  EXPECT_TRUE(refuses(with_pair(pair("general.alignment", 8, text("32"))), "'general.alignment' should be"));
}

/// A file with one tensor as described and 4096 bytes of data.
std::string with_tensor(const TinyGgufTensor& tensor) { return gguf_bytes({}, {tensor}, std::string(4096, '\0')); }

TEST(Gguf, WithTensorNamesThatAreNoneAreRefused) {
  EXPECT_TRUE(refuses(with_tensor({"", {8}, 0, 0}), "expected 1 to 1024 bytes without control characters, got 0"));
  EXPECT_TRUE(refuses(with_tensor({std::string(1025, 'n'), {8}, 0, 0}), "got 1025"));
  EXPECT_TRUE(refuses(with_tensor({"a\x1b[2J", {8}, 0, 0}), "'a?[2J'"));
  EXPECT_TRUE(refuses(gguf_bytes({}, {{"x", {8}, 0, 0}, {"x", {8}, 0, 32}}, std::string(64, '\0')),
                      "the tensor 'x' is there twice"));
  EXPECT_TRUE(refuses(gguf_head(1, 0) + u64(std::uint64_t{1} << 63) + std::string(64, 'n'),
                      "ends inside the name of tensor 1 of 1"));
}

TEST(Gguf, WithShapesThatAreNoneAreRefused) {
  EXPECT_TRUE(refuses(with_tensor({"x", {1, 1, 1, 1, 1}, 0, 0}), "tensor 'x' has 5 dimensions; expected at most 4"));
  EXPECT_TRUE(refuses(gguf_head(1, 0) + text("x") + u32(~0u) + std::string(64, '\0'), "has 4294967295 dimensions"));
  const std::uint64_t large = std::uint64_t{1} << 32;
  EXPECT_TRUE(refuses(with_tensor({"x", {large, large}, 0, 0}), "'x'", "overflows 64 bits"));
  EXPECT_TRUE(refuses(with_tensor({"x", {std::uint64_t{1} << 62, 1}, 0, 0}), "'x'", "overflows 64 bits"));
  EXPECT_TRUE(refuses(with_tensor({"x", {0, large, large}, 0, 32}), "'x'", "overflows 64 bits"));
  EXPECT_TRUE(
      refuses(with_tensor({"x", {33}, 2, 0}), "rows of 33 weights cannot be Q4_0, which comes in blocks of 32"));
  EXPECT_TRUE(refuses(with_tensor({"x", {128, 2}, 12, 0}), "rows of 128 weights cannot be Q4_K", "blocks of 256"));
}

TEST(Gguf, WithBlockTypesThatAreNoneAreRefusedByName) {
  EXPECT_TRUE(refuses(with_tensor({"x", {32}, 4, 0}), "tensor 'x' has type 4, Q4_2, which its makers withdrew"));
  EXPECT_TRUE(refuses(with_tensor({"x", {32}, 31, 0}), "Q4_0_4_4", "quantize the model again"));
  EXPECT_TRUE(refuses(with_tensor({"x", {32}, 38, 0}), "IQ4_NL_8_8"));
  EXPECT_TRUE(refuses(with_tensor({"x", {32}, 42, 0}), "type 42, which is unknown; the last known one is 41"));
  EXPECT_TRUE(refuses(with_tensor({"x", {32}, ~0u, 0}), "type 4294967295, which is unknown"));
}

TEST(Gguf, WithTensorsInTheWrongPlaceAreRefused) {
  EXPECT_TRUE(
      refuses(with_tensor({"x", {8}, 0, 4}), "begins at byte 4 of the data; expected a multiple of the alignment 32"));
  EXPECT_TRUE(refuses(with_tensor({"x", {1025}, 0, 0}), "'x' ends at byte 4100 of the data, but the file has 4096"));
  EXPECT_TRUE(refuses(with_tensor({"x", {8}, 0, 4096}), "ends at byte 4128", "Incomplete download?"));
  EXPECT_TRUE(refuses(with_tensor({"x", {8}, 0, ~std::uint64_t{31}}), "'x'", "overflows 64 bits"));
  const auto two = [](std::uint64_t a, std::uint64_t b) {
    return gguf_bytes({}, {{"a", {16}, 0, a}, {"b", {16}, 0, b}}, std::string(256, '\0'));
  };
  EXPECT_EQ(parse(two(64, 0)).tensors.size(), 2u);
  EXPECT_TRUE(refuses(two(0, 32), "tensor 'b' begins at byte 32 of the data, inside 'a', which ends at 64"));
  EXPECT_TRUE(refuses(two(32, 0), "tensor 'a' begins at byte 32 of the data, inside 'b'"));
  EXPECT_TRUE(refuses(two(64, 64), "begins at byte 64 of the data, inside"));
}

TEST(Gguf, WithAMegabyteOfRubbishGetAShortMessage) {
  try {
    parse(with_pair(pair(std::string(60000, 'k'), 99, "")));
    FAIL() << "nothing was thrown";
  } catch (const FormatError& error) {
    EXPECT_LT(std::string_view(error.what()).size(), 400u);
  }
}

// Whatever one byte becomes, the file is read or refused with a FormatError; nothing else happens (under the
// sanitizers).
TEST(Gguf, WithAnyByteChangedAreReadOrRefused) {
  const std::string file =
      gguf_bytes({pair("k", 9, array(8, 2, text("ab") + text("c"))), pair("n", 9, array(9, 1, array(5, 1, u32(3)))),
                  pair("general.alignment", 4, u32(32)), pair("t", 7, "\x01")},
                 {{"x", {8, 2}, 0, 0}, {"y", {32}, 2, 64}}, std::string(64 + 18, 'd'));
  Random random(5);
  std::size_t read = 0;
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (const int round : {0, 1, 2, 3}) {
      std::string changed = file;
      changed[at] = static_cast<char>(round == 0   ? 0xFFu
                                      : round == 1 ? static_cast<unsigned char>(file[at]) ^ 1u
                                                   : random.below(256));
      try {
        read += parse(changed).tensors.size() == 2 ? 1u : 0u;
      } catch (const FormatError&) {
      }
    }
  }
  EXPECT_GT(read, 100u) << "changes of data and of values leave a good file";
}

}  // namespace
}  // namespace nibble::model
