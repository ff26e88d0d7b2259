#include "datasets/calibration_windows.h"

#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "core/error.h"
#include "tests/datasets/byte_tokenizer.h"
#include "tests/datasets/compress.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::datasets {
namespace {

using test::throws_with;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::string_literals;

class CalibrationText : public testing::Test {
 protected:
  std::filesystem::path file(std::string_view name, std::string_view bytes) {
    test::write_file(dir_ / name, bytes);
    return dir_ / name;
  }
  // Document d (below 26) is `sizes[d]` characters; each character tells d and, modulo 10, where it stands.
  static std::string document(std::size_t d, std::size_t size) {
    std::string text;
    for (std::size_t i = 0; i < size; ++i)
      text += i % 2 == 0 ? static_cast<char>('A' + d) : static_cast<char>('0' + i / 2 % 10);
    return text;
  }
  static std::string lines(const std::vector<std::size_t>& sizes) {
    std::string text;
    for (std::size_t d = 0; d < sizes.size(); ++d) text += "{\"text\": \"" + document(d, sizes[d]) + "\"}\n";
    return text;
  }
  std::vector<std::string> texts(const CalibrationWindows& windows) const {
    std::vector<std::string> result;
    for (std::size_t i = 0; i < windows.samples; ++i) result.push_back(tokenizer_.decode(windows.window(i)));
    return result;
  }
  test::TempDir dir_;
  test::ByteTokenizer tokenizer_;
};

TEST_F(CalibrationText, WindowsAreSlicesOfDocuments) {
  const std::vector<std::size_t> sizes{100, 12, 40};
  const auto windows =
      sample_calibration_windows({file("a.jsonl", lines(sizes))}, tokenizer_, {.samples = 200, .length = 12});
  EXPECT_EQ(windows.samples, 200u);
  EXPECT_EQ(windows.length, 12u);
  EXPECT_EQ(windows.tokens.size(), 200u * 12u);
  EXPECT_EQ(windows.short_documents, 0u);
  EXPECT_EQ(windows.documents.documents, 3u);
  for (const std::string& text : texts(windows)) {
    bool found = false;
    for (std::size_t d = 0; d < sizes.size(); ++d)
      found = found || document(d, sizes[d]).find(text) != std::string::npos;
    EXPECT_TRUE(found) << text;
  }
}

TEST_F(CalibrationText, DocumentsAndSlicesAreDrawnEvenly) {
  // One document has one slice, the other three: each document is drawn half of the time, each slice evenly within.
  const auto path = file("a.jsonl", "{\"text\": \"abcd\"}\n{\"text\": \"uvwxyz\"}\n");
  const auto windows = sample_calibration_windows({path}, tokenizer_, {.samples = 6000, .length = 4, .seed = 3});
  std::map<std::string, int> counts;
  for (const std::string& text : texts(windows)) ++counts[text];
  // Five standard deviations of a binomial of 6000: 5 · √(6000 / 4) < 200.
  EXPECT_NEAR(counts["abcd"], 3000, 200);
  for (const char* slice : {"uvwx", "vwxy", "wxyz"}) EXPECT_NEAR(counts[slice], 1000, 200) << slice;
  EXPECT_EQ(counts.size(), 4u);
}

TEST_F(CalibrationText, TheSeedDecidesAndCompressionDoesNot) {
  const std::string text = lines({50, 3, 70, 200, 5, 90});
  const auto plain = file("a.jsonl", text), gz = file("a.jsonl.gz", test::gzip(text)),
             zst = file("a.jsonl.zst", test::zstd(text));
  const auto sample = [&](const std::filesystem::path& path, std::uint64_t seed) {
    return sample_calibration_windows({path}, tokenizer_, {.samples = 20, .length = 16, .seed = seed});
  };
  const auto expected = sample(plain, 1);
  for (const auto& path : {plain, gz, zst}) {
    EXPECT_EQ(sample(path, 1).tokens, expected.tokens);
    EXPECT_EQ(sample(path, 1).fingerprint, expected.fingerprint);
  }
  EXPECT_NE(sample(plain, 2).tokens, expected.tokens);
  EXPECT_EQ(sample(plain, 2).fingerprint, expected.fingerprint) << "the hash is of the text";
}

TEST_F(CalibrationText, TheFingerprintIsOfTheDocumentsInOrder) {
  const auto fingerprint = [&](std::string_view text) {
    return sample_calibration_windows({file("a.jsonl", text)}, tokenizer_, {.samples = 1, .length = 2}).fingerprint;
  };
  const std::string expected = fingerprint("{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  EXPECT_EQ(fingerprint("\n{\"id\": 4, \"text\": \"one\"}\n{\"text\":\"tw\\u006f\"}"), expected);
  EXPECT_NE(fingerprint("{\"text\": \"two\"}\n{\"text\": \"one\"}\n"), expected);
  EXPECT_NE(fingerprint("{\"text\": \"onetwo\"}\n"), expected);
}

TEST_F(CalibrationText, ShortDocumentsAreDrawnAgainAndCounted) {
  // Twenty documents too short, one long enough: all windows come from it.
  std::vector<std::size_t> sizes(20, 9);
  sizes.push_back(10);
  const auto windows =
      sample_calibration_windows({file("a.jsonl", lines(sizes))}, tokenizer_, {.samples = 300, .length = 10});
  EXPECT_THAT(texts(windows), testing::Each(document(20, 10)));
  // 9 bytes might have been 10 tokens: these were found short as they were drawn.
  EXPECT_GT(windows.short_documents, 15u);
  EXPECT_LE(windows.short_documents, 20u);
  EXPECT_THAT(warnings(windows), ElementsAre(HasSubstr("shorter than 10 tokens")));
}

// Rounds that found nothing are followed by larger ones: with as many draws in each, 4,000 documents took 58.
TEST_F(CalibrationText, ManyShortDocumentsAreFoundInFewPasses) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += lines(std::vector<std::size_t>(20, 9));
  const auto path = file("a.jsonl", text);
  std::size_t passes = 0;
  double last = std::numeric_limits<double>::infinity();
  SamplingOptions options{.samples = 1, .length = 10};
  options.progress = [&](const ProgressUpdate& update) {
    if (update.stage != "drawing windows") return;
    passes += update.done <= last ? 1 : 0;
    last = update.done;
  };
  EXPECT_TRUE(throws_with<FormatError>([&] { sample_calibration_windows({path}, tokenizer_, options); },
                                       "none of 4000 documents has 10 tokens"));
  EXPECT_GT(passes, 1u);
  EXPECT_LE(passes, 16u);
}

TEST_F(CalibrationText, FewerWindowsAreTheFirstOfMore) {
  std::vector<std::size_t> sizes(12, 9);  // drawn in vain, by small samples and large ones at different moments
  for (std::size_t d = 0; d < 8; ++d) sizes.push_back(20 + d);
  const auto path = file("a.jsonl", lines(sizes));
  const auto sample = [&](std::size_t samples) {
    return texts(sample_calibration_windows({path}, tokenizer_, {.samples = samples, .length = 10, .seed = 5}));
  };
  const auto most = sample(400);
  for (const std::size_t samples : std::vector<std::size_t>{1, 3, 17, 64, 399}) {
    const auto first = most.begin() + static_cast<std::ptrdiff_t>(samples);
    EXPECT_EQ(sample(samples), std::vector<std::string>(most.begin(), first)) << samples;
  }
}

TEST_F(CalibrationText, DocumentsTooShortByTheirBytesAreNeverTokenized) {
  const auto windows =
      sample_calibration_windows({file("a.jsonl", lines({3, 3, 3, 20}))}, tokenizer_, {.samples = 5, .length = 10});
  EXPECT_EQ(windows.short_documents, 3u);
}

TEST_F(CalibrationText, TooLittleTextIsAnErrorNotAShortfall) {
  const auto path = file("a.jsonl", lines({9, 5, 9, 9}));
  EXPECT_TRUE(
      throws_with<FormatError>([&] { sample_calibration_windows({path}, tokenizer_, {.samples = 2, .length = 10}); },
                               "none of 4 documents has 10 tokens"));
  const auto blank = file("b.jsonl", "\n\n{\"text\": \"\"}\n");
  EXPECT_TRUE(
      throws_with<FormatError>([&] { sample_calibration_windows({blank}, tokenizer_, {.samples = 2, .length = 10}); },
                               "no usable document", "3 blank"));
  const auto empty = file("c.txt", "");
  EXPECT_TRUE(throws_with<FormatError>(
      [&] { sample_calibration_windows({empty}, tokenizer_, {.samples = 2, .length = 10}); }, "no usable document"));
}

TEST_F(CalibrationText, AWrongFieldIsNamedWithTheFieldsThatAreThere) {
  const auto path = file("a.jsonl", "{\"content\": \"x\", \"id\": 1}\n");
  EXPECT_TRUE(throws_with<FormatError>(
      [&] { sample_calibration_windows({path}, tokenizer_, {.samples = 1, .length = 1}); }, "'text'", "content, id"));
}

TEST_F(CalibrationText, SkippedLinesBecomeWarnings) {
  const auto path = file("a.jsonl", lines({30}) + "\n{\"text\": \"\xFF\"}\n{\"text\": 1}\n{}\n");
  const auto windows = sample_calibration_windows({path}, tokenizer_, {.samples = 1, .length = 8});
  EXPECT_THAT(warnings(windows), ElementsAre(HasSubstr("1 lines were skipped: invalid UTF-8"), HasSubstr("missing"),
                                             HasSubstr("not a string"), HasSubstr("blank")));
}

TEST_F(CalibrationText, PlainTextServesAsWell) {
  const std::string text = document(0, 500);
  const auto windows = sample_calibration_windows({file("a.txt", text)}, tokenizer_, {.samples = 50, .length = 30});
  std::set<std::size_t> starts;
  for (const std::string& window : texts(windows)) {
    ASSERT_NE(text.find(window), std::string::npos);
    starts.insert(text.find(window));
  }
  EXPECT_GT(starts.size(), 5u);  // the text repeats after 20 characters
  EXPECT_TRUE(warnings(windows).empty());
}

TEST_F(CalibrationText, ProgressStaysWithinTheBytesOfTheFiles) {
  const std::string text = lines(std::vector<std::size_t>(26, 40'000));
  std::set<std::string> stages;
  SamplingOptions options{.samples = 10, .length = 8};
  options.progress = [&](const ProgressUpdate& update) {
    stages.emplace(update.stage);
    EXPECT_EQ(update.total, static_cast<double>(text.size()));
    EXPECT_LE(update.done, update.total);
    EXPECT_EQ(update.unit, "bytes");
  };
  sample_calibration_windows({file("a.jsonl", text)}, tokenizer_, options);
  EXPECT_THAT(stages, ElementsAre("drawing windows", "reading text"));
}

TEST_F(CalibrationText, NothingAskedForIsRefused) {
  const auto path = file("a.txt", "text");
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] { sample_calibration_windows({path}, tokenizer_, {.samples = 0, .length = 1}); }, "0 of 1"));
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] { sample_calibration_windows({path}, tokenizer_, {.samples = 1, .length = 0}); }, "1 of 0"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { sample_calibration_windows({}, tokenizer_, {}); }, "file"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { fixed_calibration_windows(path, 9, 0, 1); }, "length"));
}

TEST_F(CalibrationText, FixedWindowsFollowEachOther) {
  const auto path = file("a.u16", "\1\0\2\0\3\0\4\0\5\0\6\0\7\0"s);
  const auto all = fixed_calibration_windows(path, 9, 3, 0);
  EXPECT_EQ(all.samples, 2u);
  EXPECT_THAT(all.tokens, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(all.window(1), ElementsAre(4, 5, 6));
  EXPECT_EQ(all.unused_tokens, 1u);
  EXPECT_THAT(warnings(all), ElementsAre(HasSubstr("1 tokens after the last whole window")));

  const auto one = fixed_calibration_windows(path, 9, 3, 1);
  EXPECT_THAT(one.tokens, ElementsAre(1, 2, 3));
  EXPECT_TRUE(warnings(one).empty());
  EXPECT_NE(one.fingerprint, all.fingerprint);
  EXPECT_EQ(one.fingerprint, fixed_calibration_windows(file("b.u16", "\1\0\2\0\3\0"s), 9, 3, 0).fingerprint);
}

TEST_F(CalibrationText, TooFewTokensForTheFixedWindowsAreRefused) {
  const auto path = file("a.u16", "\1\0\2\0\3\0\4\0\5\0"s);
  EXPECT_TRUE(
      throws_with<FormatError>([&] { fixed_calibration_windows(path, 9, 3, 2); }, "2 windows of 3", "5 tokens"));
  EXPECT_TRUE(
      throws_with<FormatError>([&] { fixed_calibration_windows(path, 9, 6, 0); }, "1 windows of 6", "5 tokens"));
  EXPECT_TRUE(throws_with<FormatError>(
      [&] { fixed_calibration_windows(path, 9, std::size_t{1} << 40, std::size_t{1} << 40); }, "overflow"));
}

}  // namespace
}  // namespace nibble::datasets
