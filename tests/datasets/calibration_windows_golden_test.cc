#include <gtest/gtest.h>

#include <chrono>

#include "core/machine/memory.h"
#include "datasets/calibration_windows.h"
#include "tests/support/files.h"
#include "tests/support/sanitizers.h"

namespace nibble::datasets {
namespace {

TEST(CalibrationWindowsGolden, OfTheNovelsAreDrawnQuicklyInBoundedMemory) {
  NIBBLE_NEEDS_SHARED("data/novels/calibration.jsonl.gz");
  const auto tokenizer = model::Tokenizer::open(test::shared_path("models/gpt2-novels"));
  const std::vector<std::filesystem::path> files{test::shared_path("data/novels/calibration.jsonl.gz")};
  const SamplingOptions options{.samples = 100, .length = 512, .seed = 7};

  const std::uint64_t before = memory_use().anonymous_bytes;
  PeakAnonymousMemory peak;
  const auto start = std::chrono::steady_clock::now();
  const auto windows = sample_calibration_windows(files, *tokenizer, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  RecordProperty("seconds", std::to_string(seconds.count()));
  RecordProperty("peak_mebibytes", std::to_string((peak.bytes() - before) >> 20));

  EXPECT_EQ(windows.documents.documents, 2322u);
  EXPECT_EQ(windows.documents.text_bytes, 12'543'874u);
  EXPECT_EQ(windows.documents.empty + windows.documents.invalid_utf8 + windows.documents.missing_field, 0u);
  EXPECT_EQ(windows.tokens.size(), 100u * 512u);
  // No window is all of one token, as padding would be.
  for (std::size_t i = 0; i < windows.samples; ++i)
    EXPECT_FALSE(std::all_of(windows.window(i).begin(), windows.window(i).end(),
                             [&](TokenId id) { return id == windows.window(i).front(); }));
  const auto again = sample_calibration_windows(files, *tokenizer, options);
  EXPECT_EQ(again.tokens, windows.tokens);
  EXPECT_EQ(again.fingerprint, windows.fingerprint);
  if (test::kAddressSanitizer) return;
  EXPECT_LT(seconds.count(), 15.0);  // about 1 s on an idle machine
  // The text is 12.5 MB; held are the windows, the longest document (1.1 MB) with its JSON and its tokens, and the
  // tokenizer's cache of words.
  EXPECT_LT(peak.bytes() - before, std::uint64_t{40} << 20);
}

TEST(CalibrationWindowsGolden, FixedOnesAreThoseOfTheTokenFile) {
  NIBBLE_NEEDS_SHARED("golden/windows/calibration-64x512.u16");
  const auto windows =
      fixed_calibration_windows(test::shared_path("golden/windows/calibration-64x512.u16"), 8192, 512, 0);
  EXPECT_EQ(windows.samples, 64u);
  EXPECT_EQ(windows.unused_tokens, 0u);
}

}  // namespace
}  // namespace nibble::datasets
