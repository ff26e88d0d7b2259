#include "export/coreml/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "core/error.h"
#include "core/files/output_file.h"
#include "export/coreml/network.h"
#include "tests/export/coreml/mil_interpreter.h"
#include "tests/export/coreml/packages.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::coreml {
namespace {

using test::TempDir;
using Integers = std::vector<std::int32_t>;

class CoreMlVerify : public testing::Test {
 protected:
  CoreMlVerify() {
    test::tiny_llama().write(dir_ / "model");
    test::write_test_package(dir_ / "model", dir_ / "gpu", {{"main", {Layout::kGpu, 24, 0, 0}}});
    test::write_test_package(dir_ / "model", dir_ / "ane",
                             {{"prompt", {Layout::kAne, 24, 4, 8}}, {"extend", {Layout::kAne, 24, 1, 8}}});
  }

  /// Whether a package that `change` changed, written to disk and read again, is refused with these words.
  template <class... Words>
  testing::AssertionResult refused(const char* package, const std::function<void(Model&)>& change, Words... words) {
    Model model = read_package(dir_ / package).model;
    const std::string before = encode_model(model);
    change(model);
    const std::string after = encode_model(model);
    if (before == after) return testing::AssertionFailure() << "nothing was changed";
    const std::string good = test::read_file(model_path(dir_ / package));
    test::write_file(model_path(dir_ / package), after);
    const auto result = test::throws_with<FormatError>([&] { verify_package(read_package(dir_ / package)); }, words...);
    test::write_file(model_path(dir_ / package), good);
    return result;
  }

  static Function& main(Model& model) { return model.functions.at("main"); }
  static Operation& operation(Function& function, std::string_view name) {
    for (Operation& one : function.operations)
      for (const NamedType& output : one.outputs)
        if (output.name == name) return one;
    throw std::runtime_error("no operation makes " + std::string(name));
  }
  static Operation& first(Function& function, std::string_view type) {
    for (Operation& one : function.operations)
      if (one.type == type) return one;
    throw std::runtime_error("no operation " + std::string(type));
  }
  /// A new constant with other numbers in front of everything, for one operand to be bound to.
  static Binding constant(Function& function, const Integers& values) {
    Operation made{"const", {}, {{"changed", {{DataType::kInt32, {values.size()}}, false}}}, {}};
    made.attributes["name"] = Value{{DataType::kString, {}}, std::vector<std::string>{"changed"}};
    made.attributes["val"] = Value{{DataType::kInt32, {values.size()}}, values};
    function.operations.insert(function.operations.begin(), made);
    return std::string("changed");
  }

  TempDir dir_;
};

TEST_F(CoreMlVerify, TakesWhatIsWritten) {
  EXPECT_NO_THROW(verify_package(read_package(dir_ / "gpu")));
  EXPECT_NO_THROW(verify_package(read_package(dir_ / "ane")));
}

TEST_F(CoreMlVerify, CatchesOneWrongSlot) {
  // Block 1 writes its keys over block 0's.
  EXPECT_TRUE(refused(
      "gpu",
      [](Model& m) {
        const Binding zero = constant(main(m), {0});
        operation(main(m), "block1_keys_begin").inputs.at("values")[0] = zero;
      },
      "keyCache", "block + 1"));
  EXPECT_TRUE(refused(
      "gpu",
      [](Model& m) {
        const Binding zero = constant(main(m), {0});
        operation(main(m), "block1_keys_begin").inputs.at("values")[0] = zero;
        operation(main(m), "block1_keys_end").inputs.at("values")[0] =
            operation(main(m), "block0_keys_end").inputs.at("values")[0];
      },
      "keyCache", "written twice"));
  // New rows go where the call before put its last ones.
  EXPECT_TRUE(refused(
      "gpu",
      [](Model& m) {
        auto& values = operation(main(m), "block0_values_begin").inputs.at("values");
        values[3] = operation(main(m), "block0_values_end").inputs.at("values")[3];
      },
      "valueCache", "S - T"));
  EXPECT_TRUE(refused(
      "gpu",
      [](Model& m) { std::swap(operation(main(m), "past").inputs.at("x"), operation(main(m), "past").inputs.at("y")); },
      "S - T"));
  // A block reads another's rows.
  EXPECT_TRUE(refused(
      "gpu",
      [](Model& m) {
        operation(main(m), "block1_values_all").inputs.at("begin") =
            operation(main(m), "block0_values_all").inputs.at("begin");
      },
      "another part is read"));
  // What is written is an older state: block 0's rows are lost.
  EXPECT_TRUE(refused(
      "gpu",
      [](Model& m) { operation(main(m), "block1_keys_updated").inputs.at("x") = {std::string("keyCache_read")}; },
      "last read"));
  // Masks that open the slot.
  EXPECT_TRUE(refused(
      "gpu",
      [](Model& m) {
        operation(main(m), "block1_keys_updated").inputs.at("begin_mask") =
            operation(main(m), "block0_keys_all").inputs.at("begin_mask");
      },
      "masks"));
  // A write that is left out.
  EXPECT_TRUE(refused(
      "gpu",
      [](Model& m) {
        auto& all = main(m).operations;
        all.erase(std::find_if(all.begin(), all.end(), [](const Operation& o) { return o.type == "write_state"; }));
      },
      "state"));
}

TEST_F(CoreMlVerify, CatchesAWindowThatSlidesWrongly) {
  EXPECT_TRUE(refused(
      "ane",
      [](Model& m) {
        Function& f = m.functions.at("prompt");
        const Binding eight = constant(f, {0, 0, 8, 0});
        Operation& slice = operation(f, "block0_values_newest");
        // The oldest rows stay, the new ones are dropped.
        slice.inputs.at("end") = {eight};
        std::swap(slice.inputs.at("begin_mask"), slice.inputs.at("end_mask"));
      },
      "newest"));
  EXPECT_TRUE(refused(
      "ane",
      [](Model& m) {
        Function& f = m.functions.at("prompt");
        auto& values = operation(f, "block0_values_all").inputs.at("values");
        std::swap(values[0], values[1]);
      },
      "must come first"));
}

// What the verifier cannot know, the interpreter shows: here that positions are one off.
TEST_F(CoreMlVerify, TheInterpreterSeesWhatStructureDoesNotShow) {
  Model model = read_package(dir_ / "gpu").model;
  Function& function = main(model);
  Operation& positions = operation(function, "positions");
  positions.inputs.at("start") = {std::string("shifted")};
  Operation shifted = operation(function, "past");
  shifted.outputs.front().name = "shifted";
  shifted.attributes["name"] = Value{{DataType::kString, {}}, std::vector<std::string>{"shifted"}};
  shifted.inputs.at("y") = {std::string("tokens_less")};
  Operation less = operation(function, "past");
  less.outputs.front().name = "tokens_less";
  less.attributes["name"] = Value{{DataType::kString, {}}, std::vector<std::string>{"tokens_less"}};
  less.inputs.at("x") = {std::string("tokens")};
  less.inputs.at("y") = {std::string("tokens")};
  auto& all = function.operations;
  const auto at = std::find_if(all.begin(), all.end(), [](const Operation& o) {
    return !o.outputs.empty() && o.outputs.front().name == "positions";
  });
  all.insert(all.insert(at, shifted), less);
  // S - (T - T) … S: no positions at all, which no product fits any more.
  test::write_file(model_path(dir_ / "gpu"), encode_model(model));
  const Package changed = read_package(dir_ / "gpu");
  EXPECT_NO_THROW(verify_package(changed));
  test::MilInterpreter interpreter(changed);
  EXPECT_ANY_THROW(static_cast<void>(interpreter.extend_gpu({1, 2, 3})));
}

TEST_F(CoreMlVerify, CatchesWhatLoadersLetPass) {
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { m.specification_version = 8; }, "version 8"));
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { main(m).opset = "CoreML9"; }, "CoreML9"));
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { m.interfaces.at("main").inputs[0].name = "ids"; }, "no input"));
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { m.interfaces.at("main").states.pop_back(); }, "not described"));
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { m.interfaces.at("main").inputs[1].ranges.clear(); }, "ranges"));
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { m.interfaces.at("main").inputs[0].ranges[1].first = 2; }, "range 2"));
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { m.interfaces.at("main").states[0].shape[3] = 25; }, "keyCache"));
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { m.interfaces.at("main").outputs[0].name = "scores"; }, "not described"));
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { m.interfaces.at("main").outputs[0].type = DataType::kFloat32; }, "logits"));
  EXPECT_TRUE(refused(
      "ane", [](Model& m) { m.interfaces.at("prompt").inputs[0].shape[1] = 5; }, "inputIds"));
  EXPECT_TRUE(refused(
      "ane", [](Model& m) { m.default_function = "other"; }, "other"));
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { first(main(m), "linear").outputs[0].name = "a.b"; }, "identifier"));
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { first(main(m), "linear").outputs[0].name = "past"; }, "twice"));
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { first(main(m), "linear").attributes.clear(); }, "'name'"));
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { first(main(m), "linear").outputs[0].type.tensor.shape[2] = 17; }, "declares"));
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { first(main(m), "linear").inputs.erase("bias"); }, "'bias' is missing"));
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { first(main(m), "const").outputs[0].type.tensor.shape.push_back(2); }, "declares"));
  EXPECT_TRUE(refused(
      "gpu",
      [](Model& m) {
        main(m).outputs = {"block0_keys_updated"};
        m.interfaces.at("main").outputs[0].name = "block0_keys_updated";
      },
      "is described"));
  EXPECT_TRUE(refused(
      "gpu", [](Model& m) { std::swap(main(m).operations.front(), main(m).operations.back()); }, "before it is used"));
  const auto weight = [](Model& m) -> Value& { return operation(main(m), "model_norm_weight").attributes.at("val"); };
  EXPECT_TRUE(refused(
      "gpu", [&](Model& m) { weight(m).data = BlobReference{128}; }, "no blob record"));
  EXPECT_TRUE(refused(
      "gpu",
      [&](Model& m) {
        Value& value = operation(main(m), "model_norm_weight").attributes.at("val");
        value.type.shape = {8};
        operation(main(m), "model_norm_weight").outputs[0].type.tensor.shape = {8};
      },
      "elements"));
}

TEST_F(CoreMlVerify, CatchesABlobThatNobodyUses) {
  test::write_test_package(dir_ / "model", dir_ / "gpu2", {{"main", {Layout::kGpu, 24, 0, 0}}});
  Model model = read_package(dir_ / "gpu2").model;
  // The head's weight becomes the embedding's, which has the same shape: its own blob is an orphan then.
  operation(main(model), "lm_head").attributes.at("val").data =
      operation(main(model), "model_embed_tokens").attributes.at("val").data;
  test::write_file(model_path(dir_ / "gpu2"), encode_model(model));
  EXPECT_TRUE(test::throws_with<FormatError>([&] { verify_package(read_package(dir_ / "gpu2")); }, "no constant uses"));
}

TEST_F(CoreMlVerify, ReadsManifestsStrictly) {
  const std::string good = test::read_file(dir_ / "gpu/Manifest.json");
  const auto with = [&](std::string_view from, std::string_view to, std::string_view word) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    test::write_file(dir_ / "gpu/Manifest.json", text);
    return test::throws_with<FormatError>([&] { read_package(dir_ / "gpu"); }, word);
  };
  EXPECT_TRUE(with("1.0.0", "1.1.0", "1.0.0"));
  EXPECT_TRUE(with("\"author\"", "\"writer\"", "author"));
  EXPECT_TRUE(with("com.apple.CoreML/weights", "../weights", "weights"));
  EXPECT_TRUE(with("rootModelIdentifier", "root", "rootModelIdentifier"));
}

}  // namespace
}  // namespace nibble::coreml
