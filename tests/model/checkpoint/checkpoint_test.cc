#include "model/checkpoint/checkpoint.h"

#include <gmock/gmock.h>

#include <chrono>
#include <set>
#include <thread>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"
#include "tests/support/tiny_checkpoint.h"

namespace nibble::model {
namespace {

using test::TempDir;
using test::throws_with;
using test::TinyTensor;
using test::write_checkpoint;
using test::write_file;
using test::write_sharded_checkpoint;

const std::vector<TinyTensor> kTensors{{"c", "U8", {3}, "xyz"},
                                       {"a", "F32", {2}, "abcdefgh"},
                                       {"b", "F16", {2, 2}, "ABCDEFGH"},
                                       {"d", "I32", {1}, "IIII"}};

std::string text(const TensorView& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
}

std::string fingerprint_of(const std::filesystem::path& directory) {
  return Checkpoint::open(directory)->fingerprint();
}

TEST(Checkpoint, OfASingleFileShowsItsTensors) {
  const TempDir directory;
  write_checkpoint(directory.path(), "{\"k\":1}", kTensors);
  const auto checkpoint = Checkpoint::open(directory.path());
  EXPECT_EQ(checkpoint->directory(), directory.path());
  EXPECT_EQ(checkpoint->metadata(), "{\"k\":1}");
  EXPECT_THAT(checkpoint->tensor_names(), testing::ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(checkpoint->tensor_bytes(), 23u);
  EXPECT_TRUE(checkpoint->contains("b"));
  EXPECT_FALSE(checkpoint->contains("e"));
  const TensorView tensor = checkpoint->tensor("b");
  EXPECT_EQ(tensor.dtype, DType::kF16);
  EXPECT_THAT(tensor.shape, testing::ElementsAre(2, 2));
  EXPECT_EQ(text(tensor), "ABCDEFGH");
  checkpoint->release(tensor);
  EXPECT_EQ(text(tensor), "ABCDEFGH");
  EXPECT_NO_THROW(checkpoint->check_intact(tensor));
}

TEST(Checkpoint, InShardsShowsTheSameTensors) {
  const TempDir directory;
  write_sharded_checkpoint(directory.path(), "{}", {{kTensors[0], kTensors[1]}, {kTensors[2]}, {kTensors[3]}});
  const auto checkpoint = Checkpoint::open(directory.path());
  EXPECT_THAT(checkpoint->tensor_names(), testing::ElementsAre("a", "b", "c", "d"));
  for (const TinyTensor& tensor : kTensors) EXPECT_EQ(text(checkpoint->tensor(tensor.name)), tensor.bytes);
  EXPECT_EQ(checkpoint->tensor_bytes(), 23u);
}

TEST(Checkpoint, NamesTheNearestTensorWhenOneIsMissing) {
  const TempDir directory;
  write_checkpoint(directory.path(), "{}", {{"h.0.ln_1.weight", "F32", {1}, "aaaa"}});
  const auto checkpoint = Checkpoint::open(directory.path());
  EXPECT_TRUE(throws_with<FormatError>([&] { checkpoint->tensor("h.0.ln_1.weigth"); },
                                       "missing tensor 'h.0.ln_1.weigth'", "did you mean 'h.0.ln_1.weight'?"));
}

TEST(Checkpoint, RefusesAViewThatIsNotItsOwn) {
  const TempDir directory;
  write_checkpoint(directory / "a", "{}", kTensors);
  write_checkpoint(directory / "b", "{}", kTensors);
  const auto a = Checkpoint::open(directory / "a"), b = Checkpoint::open(directory / "b");
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { a->check_intact(b->tensor("a")); }, "'a'", "is not from checkpoint"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { a->release(b->tensor("a")); }, "is not from checkpoint"));
}

TEST(Checkpoint, HasTheSameFingerprintHoweverItIsShardedAndOrdered) {
  const TempDir directory;
  write_checkpoint(directory / "single", "{}", kTensors);
  write_checkpoint(directory / "reversed", "{}", {kTensors.rbegin(), kTensors.rend()});
  write_sharded_checkpoint(directory / "two", "{}", {{kTensors[3], kTensors[0]}, {kTensors[1], kTensors[2]}});
  const std::string fingerprint = fingerprint_of(directory / "single");
  EXPECT_EQ(fingerprint.size(), 32u);
  EXPECT_EQ(fingerprint_of(directory / "reversed"), fingerprint);
  EXPECT_EQ(fingerprint_of(directory / "two"), fingerprint);
}

TEST(Checkpoint, HasAnotherFingerprintWhenAnythingDiffers) {
  const TempDir directory;
  std::set<std::string> fingerprints;
  const auto add = [&](const std::string& config, const TinyTensor& tensor) {
    write_checkpoint(directory.path(), config, {tensor});
    fingerprints.insert(fingerprint_of(directory.path()));
  };
  add("{}", {"a", "F32", {2}, "abcdefgh"});
  add("{} ", {"a", "F32", {2}, "abcdefgh"});
  add("{}", {"b", "F32", {2}, "abcdefgh"});
  add("{}", {"a", "I32", {2}, "abcdefgh"});
  add("{}", {"a", "F32", {2, 1}, "abcdefgh"});
  add("{}", {"a", "F32", {2}, "abcdefgi"});
  EXPECT_EQ(fingerprints.size(), 6u);
}

// The thread outside needs the thread pool for its hashes, which is taken until the body inside has its own: neither
// may hold a lock that the other waits for.
TEST(Checkpoint, CanBeAskedForItsFingerprintInsideAndOutsideOfAParallelLoop) {
  const TempDir directory;
  write_checkpoint(directory.path(), "{}", kTensors);
  const std::string expected = fingerprint_of(directory.path());
  const auto checkpoint = Checkpoint::open(directory.path());
  std::vector<std::string> found(3);
  std::thread outside;
  parallel_for(2, [&](std::size_t i) {
    if (i == 0) outside = std::thread([&] { found[2] = checkpoint->fingerprint(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the one outside comes first
    found[i] = checkpoint->fingerprint();
  });
  outside.join();
  EXPECT_THAT(found, testing::Each(expected));
}

TEST(Checkpoint, ThatShrinksShowsAsFormatError) {
  const TempDir directory;
  write_checkpoint(directory.path(), "{}", {{"x", "U8", {1 << 20}, std::string(1 << 20, 'x')}});
  const auto checkpoint = Checkpoint::open(directory.path());
  std::filesystem::resize_file(directory / "model.safetensors", 4096);

  EXPECT_TRUE(throws_with<FormatError>([&] { checkpoint->fingerprint(); }, "model.safetensors", "cut short"));
  EXPECT_TRUE(throws_with<FormatError>([&] { checkpoint->check_intact(checkpoint->tensor("x")); }, "cut short"));
}

TEST(Checkpoint, MayBeMadeOfSymbolicLinksAsDownloadCachesAre) {
  const TempDir directory;
  write_checkpoint(directory / "blobs", "{}", kTensors);
  std::filesystem::create_directory(directory / "snapshot");
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::create_symlink(std::filesystem::path("..") / "blobs" / name, directory / "snapshot" / name);
  EXPECT_EQ(fingerprint_of(directory / "snapshot"), fingerprint_of(directory / "blobs"));
}

// Directories that are no checkpoints.

testing::AssertionResult refuses(const std::filesystem::path& directory, std::string_view a, std::string_view b = "",
                                 std::string_view c = "") {
  return throws_with<FormatError>([&] { Checkpoint::open(directory); }, a, b, c);
}

TEST(Checkpoint, RefusesWhatIsNoDirectory) {
  const TempDir directory;
  write_file(directory / "model.safetensors", "");
  EXPECT_TRUE(refuses(directory / "absent", "absent", "does not exist"));
  EXPECT_TRUE(refuses(directory / "model.safetensors", "expected a directory", "got a file"));
}

TEST(Checkpoint, RefusesADirectoryWithoutConfig) {
  const TempDir directory;
  write_file(directory / "model.safetensors", test::safetensors_bytes(kTensors));
  EXPECT_TRUE(refuses(directory.path(), "config.json", "No such file"));
}

TEST(Checkpoint, WithoutSafetensorsHintsAtWhatLiesThereInstead) {
  const TempDir directory;
  write_file(directory / "config.json", "{}");
  EXPECT_TRUE(refuses(directory.path(), "neither model.safetensors nor", "download complete?"));
  write_file(directory / "pytorch_model.bin", "x");
  EXPECT_TRUE(refuses(directory.path(), "'pytorch_model.bin' is a PyTorch pickle", "safe_serialization"));
  std::filesystem::rename(directory / "pytorch_model.bin", directory / "llama-q4.gguf");
  EXPECT_TRUE(refuses(directory.path(), "'llama-q4.gguf' is a GGUF file", "its own path"));
}

TEST(Checkpoint, NamesTheFileThatIsBroken) {
  const TempDir directory;
  write_sharded_checkpoint(directory.path(), "{}", {{kTensors[0]}, {kTensors[1]}});
  std::filesystem::resize_file(directory / "model-2-of-2.safetensors", 4);
  EXPECT_TRUE(refuses(directory.path(), "model-2-of-2.safetensors", "Incomplete download?"));
}

class ShardIndexTest : public testing::Test {
 protected:
  ShardIndexTest() { write_sharded_checkpoint(directory_.path(), "{}", {{kTensors[0]}, {kTensors[1]}}); }
  /// Opening fails with `index` in place of the good one, with these words.
  testing::AssertionResult refuses_index(std::string_view index, std::string_view a, std::string_view b = "",
                                         std::string_view c = "") {
    write_file(directory_ / "model.safetensors.index.json", index);
    return refuses(directory_.path(), a, b, c);
  }
  TempDir directory_;
};

TEST_F(ShardIndexTest, ThatIsBrokenJsonIsRefused) {
  EXPECT_TRUE(refuses_index("{\"weight_map\":{", "index.json", "not valid JSON"));
  EXPECT_TRUE(refuses_index(std::string(100000, '['), "index.json", "nested"));
}

TEST_F(ShardIndexTest, WithoutAWeightMapIsRefused) {
  EXPECT_TRUE(refuses_index("{}", "index.json", "'weight_map'"));
  EXPECT_TRUE(refuses_index("[]", "index.json", "'weight_map'"));
  EXPECT_TRUE(refuses_index(R"({"weight_map":["c"]})", "index.json", "'weight_map'"));
  EXPECT_TRUE(refuses_index(R"({"weight_map":{}})", "index.json", "empty"));
}

TEST_F(ShardIndexTest, WithDuplicateNamesIsRefused) {
  EXPECT_TRUE(refuses_index(R"({"weight_map":{"c":"model-1-of-2.safetensors","c":"model-2-of-2.safetensors"}})",
                            "duplicate key 'c'"));
}

TEST_F(ShardIndexTest, WithAShardThatIsNoStringIsRefused) {
  EXPECT_TRUE(refuses_index(R"({"weight_map":{"c":1}})", "tensor 'c'", "should be a string", "number"));
}

TEST_F(ShardIndexTest, WithShardsOutsideTheDirectoryIsRefused) {
  std::filesystem::create_directory(directory_ / "sub");
  for (const char* shard :
       {"../x.safetensors", "/etc/passwd", "sub/x.safetensors", "..", ".", "", "a\\\\b", "a\\u0000b"})
    EXPECT_TRUE(refuses_index(fmt::format(R"({{"weight_map":{{"c":"{}"}}}})", shard), "tensor 'c'",
                              "plain name of a file in the same directory"))
        << shard;
}

TEST_F(ShardIndexTest, WithAShardThatIsMissingIsRefused) {
  EXPECT_TRUE(refuses_index(R"({"weight_map":{"c":"model-3-of-2.safetensors"}})",
                            "missing shard 'model-3-of-2.safetensors'", "tensor 'c'", "Incomplete download?"));
}

TEST_F(ShardIndexTest, WithATensorThatItsShardLacksIsRefused) {
  EXPECT_TRUE(refuses_index(R"({"weight_map":{"c":"model-1-of-2.safetensors","zz":"model-2-of-2.safetensors"}})",
                            "missing tensor 'zz'", "'model-2-of-2.safetensors'", "does not hold it"));
  EXPECT_TRUE(refuses_index(R"({"weight_map":{"c":"model-2-of-2.safetensors","a":"model-1-of-2.safetensors"}})",
                            "missing tensor 'a'", "'model-1-of-2.safetensors'", "does not hold it"))
      << "it is in the other shard, so the index is wrong";
}

TEST_F(ShardIndexTest, WithADirectoryAsShardIsRefused) {
  std::filesystem::create_directory(directory_ / "sub");
  EXPECT_TRUE(refuses_index(R"({"weight_map":{"c":"sub"}})", "sub", "regular file"));
}

TEST_F(ShardIndexTest, WithATensorInTwoShardsIsRefused) {
  write_file(directory_ / "model-2-of-2.safetensors", test::safetensors_bytes({kTensors[1], kTensors[0]}));
  EXPECT_TRUE(refuses(directory_.path(), "tensor 'c' is in two shards", "model-1-of-2", "model-2-of-2"));
}

TEST_F(ShardIndexTest, NeedNotListEveryTensorOfAShard) {
  write_file(directory_ / "model-2-of-2.safetensors", test::safetensors_bytes({kTensors[1], kTensors[2]}));
  EXPECT_TRUE(Checkpoint::open(directory_.path())->contains("b"));
}

// Chat models list more ends there than config.json does.
TEST(Checkpoint, TextsEndAlsoWithWhatGenerationConfigJsonNames) {
  constexpr const char* kConfig = R"({"model_type": "llama", "vocab_size": 9, "hidden_size": 4, "eos_token_id": 3,
    "intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2})";
  const TempDir directory;
  const auto stops_with = [&](const char* generation) {
    write_checkpoint(directory.path(), kConfig, kTensors);
    write_file(directory / "generation_config.json", generation);
    return Checkpoint::open(directory.path())->architecture().stop_tokens;
  };
  EXPECT_THAT(stops_with("{}"), testing::ElementsAre(3));
  EXPECT_THAT(stops_with(R"({"eos_token_id": [5, 3], "temperature": 0.6})"), testing::ElementsAre(3, 5));
  EXPECT_THAT(stops_with(R"({"eos_token_id": 8})"), testing::ElementsAre(3, 8));
  // A long list is not looked through for each of its ids.
  constexpr int kIds = 300'000;
  constexpr const char* kWide = R"({"model_type": "llama", "vocab_size": 16777216, "hidden_size": 4, "eos_token_id": 3,
    "intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2})";
  std::string ids = "[0";
  for (int id = 1; id < kIds; ++id) ids += "," + std::to_string(id);
  write_checkpoint(directory.path(), kWide, kTensors);
  write_file(directory / "generation_config.json", R"({"eos_token_id": )" + ids + "]}");
  EXPECT_EQ(Checkpoint::open(directory.path())->architecture().stop_tokens.size(), 64u);
  // What no token is ends no text, and keeps nobody from the network.
  EXPECT_THAT(stops_with(R"({"eos_token_id": [9, -1, "5", null, 4]})"), testing::ElementsAre(3, 4));
  EXPECT_THAT(stops_with((R"({"eos_token_id": )" + std::string(4'000'000, '[')).c_str()), testing::ElementsAre(3));
  const std::string deep = R"({"eos_token_id": )" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}";
  EXPECT_THAT(stops_with(deep.c_str()), testing::ElementsAre(3));
  for (const char* odd : {"[5]", "{", R"({"eos_token_id": NaN})", ""})
    EXPECT_THAT(stops_with(odd), testing::ElementsAre(3)) << odd;
}

TEST(Checkpoint, OfAModelThatSeesIsItsLanguageModel) {
  const TempDir directory;
  write_checkpoint(directory.path(), R"({"model_type": "mistral3", "text_config": {"hidden_size": 2}})",
                   {{"language_model.model.norm.weight", "F32", {1}, "abcd"},
                    {"language_model.lm_head.weight", "F32", {1}, "efgh"},
                    {"vision_tower.norm.weight", "F32", {2}, "ijklmnop"},
                    {"multi_modal_projector.norm.weight", "F32", {1}, "qrst"}});
  const auto checkpoint = Checkpoint::open(directory.path());
  EXPECT_THAT(checkpoint->tensor_names(), testing::ElementsAre("lm_head.weight", "model.norm.weight"));
  EXPECT_EQ(checkpoint->tensors_of_other_parts(), 2u);
  EXPECT_EQ(checkpoint->tensor_bytes(), 8u);
  EXPECT_EQ(checkpoint->tensor("model.norm.weight").name, "model.norm.weight");
  EXPECT_EQ(text(checkpoint->tensor("lm_head.weight")), "efgh");
  EXPECT_THAT(checkpoint->metadata(), testing::HasSubstr("\"tie_word_embeddings\": false"));
}

// Qwen2-VL's, as they were published.
TEST(Checkpoint, OfAModelThatSeesMayHaveShortNames) {
  const TempDir directory;
  write_checkpoint(directory.path(), R"({"model_type": "qwen2_vl", "hidden_size": 2, "vision_config": {}})",
                   {{"model.norm.weight", "F32", {1}, "abcd"},
                    {"model.odd", "F32", {1}, "abcd"},
                    {"lm_head.weight", "F32", {1}, "efgh"},
                    {"visual.merger.ln_q.weight", "F32", {1}, "ijkl"}});
  const auto checkpoint = Checkpoint::open(directory.path());
  EXPECT_THAT(checkpoint->tensor_names(), testing::ElementsAre("lm_head.weight", "model.norm.weight", "model.odd"));
  EXPECT_EQ(checkpoint->tensors_of_other_parts(), 1u);
  EXPECT_THAT(checkpoint->metadata(), testing::HasSubstr("\"model_type\": \"qwen2\""));
}

// As transformers 5 has them in memory.
TEST(Checkpoint, OfQwenHasLongNamesToo) {
  const TempDir directory;
  write_checkpoint(directory.path(), R"({"model_type": "qwen2_5_vl", "text_config": {"hidden_size": 2}})",
                   {{"model.language_model.norm.weight", "F32", {1}, "abcd"},
                    {"lm_head.weight", "F32", {1}, "efgh"},
                    {"model.visual.merger.ln_q.weight", "F32", {1}, "ijkl"}});
  const auto checkpoint = Checkpoint::open(directory.path());
  EXPECT_THAT(checkpoint->tensor_names(), testing::ElementsAre("lm_head.weight", "model.norm.weight"));
  EXPECT_EQ(checkpoint->tensors_of_other_parts(), 1u);
}

// A family that is read says nothing of pictures that others left in its config.json.
TEST(Checkpoint, OfAModelThatDoesNotSeeStaysAsItIs) {
  constexpr const char* kConfig = R"({"model_type": "llama", "vision_config": {}})";
  const TempDir directory;
  write_checkpoint(directory.path(), kConfig, {{"visual.a", "F32", {1}, "abcd"}});
  const auto checkpoint = Checkpoint::open(directory.path());
  EXPECT_THAT(checkpoint->tensor_names(), testing::ElementsAre("visual.a"));
  EXPECT_EQ(checkpoint->metadata(), kConfig);
}

TEST(Checkpoint, OfAModelThatSeesHasEachTensorOnce) {
  const TempDir directory;
  write_checkpoint(directory.path(), R"({"model_type": "mistral3", "text_config": {}})",
                   {{"language_model.model.a", "F32", {1}, "abcd"}, {"model.language_model.a", "F32", {1}, "abcd"}});
  EXPECT_TRUE(throws_with<FormatError>([&] { Checkpoint::open(directory.path()); }, "tensor 'model.a'",
                                       "under two names, one of them 'model.language_model.a'"));
}

}  // namespace
}  // namespace nibble::model
