#include "export/coreml/mil.h"

#include <gtest/gtest.h>

#include <cctype>
#include <string>

#include "core/error.h"
#include "export/coreml/graph.h"
#include "tests/support/throws.h"

namespace nibble::coreml {
namespace {

std::string bytes_of(std::string_view hex) {
  std::string bytes, digits;
  for (const char c : hex)
    if (std::isxdigit(static_cast<unsigned char>(c)) != 0) digits.push_back(c);
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

// What Google's library writes for the same messages.
TEST(CoreMlMil, EncodesTypesAsGooglesLibraryDoes) {
  EXPECT_EQ(encode_value_type({{DataType::kInt32, {1, kUnknown}}, false}),
            bytes_of("0a 0e 08 17 10 02 1a 04 0a 02 08 01 1a 02 12 00"));
  EXPECT_EQ(encode_value_type({{DataType::kFloat16, {}}, false}), bytes_of("0a 02 08 0a"));
  EXPECT_EQ(
      encode_value_type({{DataType::kFloat16, {2, 1, 2, 32, 16}}, true}),
      bytes_of("2a 26 0a 24 0a 22 08 0a 10 05 1a 04 0a 02 08 02 1a 04 0a 02 08 01 1a 04 0a 02 08 02 1a 04 0a 02 08 20"
               "1a 04 0a 02 08 10"));
  EXPECT_EQ(encode_feature_type({"x", DataType::kInt32, {1, 1}, {{1, 1}, {1, 32}}}, false),
            bytes_of("2a 17 0a 02 01 01 10 a0 80 08 fa 01 0c 0a 04 08 01 10 01 0a 04 08 01 10 20"));
  EXPECT_EQ(encode_feature_type({"x", DataType::kFloat16, {2, 1, 2, 32, 16}, {}}, true),
            bytes_of("42 0d 0a 0b 0a 05 02 01 02 20 10 10 90 80 04"));
}

TEST(CoreMlMil, EncodesValuesAsGooglesLibraryDoes) {
  EXPECT_EQ(encode_value({{DataType::kString, {}}, std::vector<std::string>{"q"}}),
            bytes_of("12 04 0a 02 08 02 1a 07 0a 05 22 03 0a 01 71"));
  EXPECT_EQ(encode_value({{DataType::kInt32, {}}, std::vector<std::int32_t>{0}}),
            bytes_of("12 04 0a 02 08 17 1a 07 0a 05 12 03 0a 01 00"));
  EXPECT_EQ(
      encode_value({{DataType::kInt32, {1}}, std::vector<std::int32_t>{-1}}),
      bytes_of("12 0c 0a 0a 08 17 10 01 1a 04 0a 02 08 01 1a 10 0a 0e 12 0c 0a 0a ff ff ff ff ff ff ff ff ff 01"));
  EXPECT_EQ(encode_value({{DataType::kBool, {2}}, std::vector<bool>{true, false}}),
            bytes_of("12 0c 0a 0a 08 01 10 01 1a 04 0a 02 08 02 1a 08 0a 06 1a 04 0a 02 01 00"));
  EXPECT_EQ(encode_value({{DataType::kFloat16, {}}, RawBytes{std::string("\x00\x3c", 2)}}),
            bytes_of("12 04 0a 02 08 0a 1a 08 0a 06 3a 04 0a 02 00 3c"));
  EXPECT_EQ(
      encode_value({{DataType::kInt4, {2, 32}}, BlobReference{64}}),
      bytes_of("12 12 0a 10 08 19 10 02 1a 04 0a 02 08 02 1a 04 0a 02 08 20 2a 22 0a 1e 40 6d 6f 64 65 6c 5f 70 61 74"
               "68 2f 77 65 69 67 68 74 73 2f 77 65 69 67 68 74 2e 62 69 6e 10 40"));
  Model model;
  model.specification_version = 9;
  EXPECT_EQ(encode_model(model), bytes_of("08 09"));
}

Model small_model() {
  ConstantPool pool;
  Graph graph(pool);
  const Var ids = graph.input("ids", {DataType::kInt32, {1, kUnknown}});
  const Var cache = graph.state("cache", {DataType::kFloat16, {2, 3}});
  const Var read = graph.op("read_state", {{"input", {cache}}}, "read");
  const Var sum = graph.op("add", {{"x", {read}}, {"y", {graph.half(0.5)}}}, "sum");
  graph.effect("write_state", {{"input", {cache}}, {"data", {sum}}}, "write");
  const Var shape = graph.op("shape", {{"x", {ids}}}, "shape");
  static_cast<void>(graph.op("reshape", {{"x", {read}}, {"shape", {graph.integers({3, -1})}}}, "turned"));
  Model model;
  model.specification_version = 9;
  model.functions["main"] = graph.finish({shape.name});
  model.interfaces["main"] = {{{"ids", DataType::kInt32, {1, 1}, {{1, 1}, {1, 8}}}},
                              {{shape.name, DataType::kInt32, {2}, {}}},
                              {{"cache", DataType::kFloat16, {2, 3}, {}}}};
  model.metadata["key"] = "value";
  model.short_description = "a test";
  return model;
}

TEST(CoreMlMil, ReadsBackWhatItWrites) {
  Model model = small_model();
  EXPECT_EQ(encode_model(decode_model(encode_model(model), "m")), encode_model(model));
  model.functions["other"] = model.functions["main"];
  model.interfaces["other"] = model.interfaces["main"];
  model.default_function = "other";
  const Model back = decode_model(encode_model(model), "m");
  EXPECT_EQ(encode_model(back), encode_model(model));
  EXPECT_EQ(back.default_function, "other");
  EXPECT_EQ(back.functions.at("main").operations.size(), model.functions.at("main").operations.size());
  EXPECT_EQ(back.interfaces.at("main"), model.interfaces.at("main"));
}

TEST(CoreMlMil, RefusesShapesOfMoreElementsThan64BitsCount) {
  ConstantPool pool;
  Graph graph(pool);
  const Var x = graph.input("x", {DataType::kFloat16, {2, 3}});
  const Var shape = graph.integers({65536, 65536, 65536, 65536, -1});  // 2^64: none, if they are not counted with care
  EXPECT_TRUE(test::throws_with<FormatError>(
      [&] {
        static_cast<void>(graph.op("reshape", {{"x", {x}}, {"shape", {shape}}}, "turned"));
      },
      "overflows"));
}

TEST(CoreMlMil, RefusesBytesThatAreNoModel) {
  const std::string good = encode_model(small_model());
  std::size_t whole = 0;
  for (std::size_t size = 1; size < good.size(); ++size) {
    // Cut anywhere but between the fields of the model itself, it is a broken message.
    try {
      static_cast<void>(decode_model(std::string_view(good).substr(0, size), "cut"));
    } catch (const FormatError&) {
      continue;
    }
    ++whole;
  }
  EXPECT_EQ(whole, 2u);  // the version alone, and with the description
  EXPECT_TRUE(test::throws_with<FormatError>([&] { decode_model(bytes_of("08 09 18 01"), "odd"); }, "odd", "field 3"));
  // A tensor of rank 3 with one dimension, a type that is not there, a constant whose bytes do not fit.
  const auto with_value = [](std::string_view hex) {
    std::string value = bytes_of(hex), operation;
    const auto wrap = [](unsigned field, const std::string& inside) {
      return std::string(1, static_cast<char>(field << 3u | 2u)) + static_cast<char>(inside.size()) + inside;
    };
    operation = wrap(5, wrap(1, "val") + wrap(2, value));
    const std::string function = wrap(2, "o") + wrap(3, wrap(1, "o") + wrap(2, wrap(3, operation)));
    const std::string program = bytes_of("08 01") + wrap(2, wrap(1, "f") + wrap(2, function));
    return bytes_of("08 09 b2 1f") + static_cast<char>(program.size()) + program;
  };
  EXPECT_NO_THROW(decode_model(with_value("12 04 0a 02 08 17 1a 07 0a 05 12 03 0a 01 00"), "m"));
  for (const auto& [hex, word] : {std::pair{"12 0a 0a 08 08 17 10 03 1a 02 12 00", "rank 3"},
                                  std::pair{"12 04 0a 02 08 32 1a 07 0a 05 12 03 0a 01 00", "data type 50"},
                                  std::pair{"12 04 0a 02 08 17 1a 08 0a 06 12 04 0a 02 00 00", "other values"},
                                  std::pair{"12 04 0a 02 08 0a 1a 09 0a 07 3a 05 0a 03 00 3c 00", "3 bytes"},
                                  std::pair{"12 04 0a 02 08 17", "without type or values"}})
    EXPECT_TRUE(test::throws_with<FormatError>([&] { decode_model(with_value(hex), "m"); }, word)) << hex;
}

TEST(CoreMlMil, MakesIdentifiers) {
  EXPECT_EQ(identifier("h.0.attn"), "h_0_attn");
  EXPECT_EQ(identifier("0x"), "v_0x");
  EXPECT_EQ(identifier("state"), "v_state");
  EXPECT_FALSE(is_identifier("a.b"));
  EXPECT_FALSE(is_identifier("fp16"));
}

}  // namespace
}  // namespace nibble::coreml
