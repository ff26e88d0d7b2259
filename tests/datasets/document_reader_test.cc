#include "datasets/document_reader.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/machine/memory.h"
#include "tests/datasets/compress.h"
#include "tests/support/anonymous_memory.h"
#include "tests/support/files.h"
#include "tests/support/sanitizers.h"
#include "tests/support/throws.h"

namespace nibble::datasets {
namespace {

using test::throws_with;
using testing::ElementsAre;

class Documents : public testing::Test {
 protected:
  std::filesystem::path file(std::string_view name, std::string_view bytes) {
    test::write_file(dir_ / name, bytes);
    return dir_ / name;
  }
  std::vector<std::string> read(std::vector<std::filesystem::path> files, std::string field = "text") {
    DocumentReader reader(std::move(files), std::move(field));
    std::vector<std::string> texts;
    while (reader.next())
      if (auto text = reader.document()) texts.push_back(*text);
    EXPECT_FALSE(reader.next()) << "the end stays the end";
    EXPECT_EQ(reader.bytes_read(), reader.bytes_total());
    counts_ = reader.counts();
    keys_instead_ = reader.keys_instead();
    return texts;
  }
  testing::AssertionResult refuses(std::string_view name, std::string_view bytes, std::string_view word,
                                   std::string_view word2 = "") {
    return throws_with<FormatError>([&] { read({file(name, bytes)}); }, name, word, word2);
  }
  test::TempDir dir_;
  DocumentCounts counts_;
  std::string keys_instead_;
};

TEST_F(Documents, OfJsonLinesAreTheStringsUnderTheField) {
  const auto path = file(
      "a.jsonl", "{\"text\": \"one\\n\\u00e9\", \"id\": 1}\n{\"id\": 2, \"text\": \"two\"}\r\n{\"text\":\"three\"}");
  EXPECT_THAT(read({path}), ElementsAre("one\n\xC3\xA9", "two", "three"));
  EXPECT_EQ(counts_.documents, 3u);
  EXPECT_EQ(counts_.text_bytes, 6u + 3u + 5u);
  EXPECT_THAT(read({file("b.json", "{\"body\": \"x\", \"text\": \"y\"}\n")}, "body"), ElementsAre("x"));
}

TEST_F(Documents, OfManyFilesFollowEachOther) {
  const auto a = file("a.jsonl", "{\"text\": \"1\"}\n{\"text\": \"2\"}\n"), empty = file("b.txt", ""),
             c = file("c.txt", "3\n"), d = file("d.jsonl.gz", test::gzip("{\"text\": \"4\"}\n{\"text\": \"5\"}")),
             e = file("e.txt.zst", test::zstd("6"));
  EXPECT_THAT(read({a, empty, c, d, e, a}), ElementsAre("1", "2", "3\n", "4", "5", "6", "1", "2"));
}

TEST_F(Documents, ThatAreNoneAreCountedByWhatIsWrong) {
  const auto path = file("a.jsonl",
                         "{\"text\": \"good\"}\n"
                         "\n"
                         "  \r\n"
                         "{\"text\": \" \\n \"}\n"
                         "{\"text\": \"\xFF\"}\n"
                         "{\"title\": \"x\", \"url\": \"y\"}\n"
                         "{}\n"
                         "{\"text\": null}\n"
                         "{\"text\": [\"list\"]}\n"
                         "{\"text\": 7}\n"
                         "{\"text\": \"good too\"}\n");
  EXPECT_THAT(read({path}), ElementsAre("good", "good too"));
  EXPECT_EQ(counts_.documents, 2u);
  EXPECT_EQ(counts_.empty, 3u);
  EXPECT_EQ(counts_.invalid_utf8, 1u);
  EXPECT_EQ(counts_.missing_field, 2u);
  EXPECT_EQ(counts_.not_text, 3u);
  EXPECT_EQ(keys_instead_, "title, url");
}

TEST_F(Documents, RecordsThatAreNotAskedForAreNeitherParsedNorCounted) {
  const auto path = file("a.jsonl", "{\"text\": \"0\"}\nnot json\n{\"text\": \"2\"}\n");
  DocumentReader reader({path}, "text");
  while (reader.next()) {
    if (reader.record() == 1) continue;
    EXPECT_EQ(reader.document(), std::to_string(reader.record()));
  }
  EXPECT_EQ(reader.counts().documents, 2u);
}

TEST_F(Documents, MalformedLinesAreRefusedWithTheirNumber) {
  EXPECT_TRUE(refuses("a.jsonl", "{\"text\": \"ok\"}\n\n{\"text\": \n", "line 3", "JSON"));
  EXPECT_TRUE(refuses("a.jsonl", "plain text\n", "line 1", "JSON"));
  EXPECT_TRUE(refuses("a.jsonl", "[\"a\"]\n", "line 1", "object"));
  EXPECT_TRUE(refuses("a.jsonl", "{\"text\": \"a\", \"text\": \"b\"}\n", "line 1", "duplicate key"));
  EXPECT_TRUE(refuses("a.jsonl", "{\"text\": \"a\"} {\"text\": \"b\"}\n", "line 1", "JSON"));
  EXPECT_TRUE(refuses("a.jsonl", std::string(1000, '['), "line 1", "nested"));
  EXPECT_TRUE(refuses("a.jsonl", "{\"text\": \"ok\"}\n{\"text\": \"a\", \"score\": NaN}\n",
                      "a.jsonl', line 2: not valid JSON at column 24", "has no NaN"));
  EXPECT_TRUE(
      refuses("a.jsonl", "{\"text\": \"\\ud83d\"}\n", "line 1: not valid JSON at column 17", "half of a character"));
}

TEST_F(Documents, OverlongLinesAreRefusedInBoundedMemory) {
  std::string line;
  line.reserve(DocumentReader::kMaxLineBytes + 4096);
  line = "{\"text\": \"";
  while (line.size() <= DocumentReader::kMaxLineBytes) line += "no end of it ";
  const auto path = file("a.jsonl", line);
  EXPECT_TRUE(throws_with<FormatError>([&] { read({path}); }, "a.jsonl", "line 1", "longer than 67108864 bytes"));
}

TEST_F(Documents, OfPlainTextAreWholeFiles) {
  const std::string text = "\n  first line\n\nsecond paragraph\n";
  EXPECT_THAT(read({file("a.txt", text), file("b.raw", "x")}), ElementsAre(text, "x"));
  EXPECT_THAT(read({file("c.txt", " \n\t\n")}), ElementsAre());
  EXPECT_EQ(counts_.empty, 1u);
}

TEST_F(Documents, LongPlainTextsAreCutAtLineEnds) {
  constexpr std::size_t kMost = DocumentReader::kMaxTextBytes;
  std::string text;
  while (text.size() < 3 * kMost) text += "a line of the text, number " + std::to_string(text.size()) + "\n";
  for (const auto& path : {file("a.txt", text), file("a.txt.gz", test::gzip(text))}) {
    const auto pieces = read({path});
    EXPECT_EQ(pieces.size(), 4u);
    std::string joined;
    for (const auto& piece : pieces) {
      EXPECT_LE(piece.size(), kMost);
      EXPECT_EQ(piece.back(), '\n');
      joined += piece;
    }
    EXPECT_TRUE(joined == text);
  }
  EXPECT_THAT(read({file("b.txt", text.substr(0, kMost))}), testing::SizeIs(1));
}

// Each is as likely to be drawn as another.
TEST_F(Documents, TheRestOfALongTextIsNoShortDocument) {
  constexpr std::size_t kMost = DocumentReader::kMaxTextBytes;
  std::string line = "a line of the text\n", text;
  while (text.size() < kMost + 3000) text += line;
  const auto pieces = read({file("a.txt", text)});
  ASSERT_EQ(pieces.size(), 2u);
  for (const auto& piece : pieces) EXPECT_GT(piece.size(), text.size() / 2 - line.size());
  // A line end far before the middle is no place to cut.
  std::string lines = "short\n" + std::string(kMost + 3000, 'a');
  EXPECT_GT(read({file("b.txt", lines)})[0].size(), kMost / 4);
}

// Though it would fit into the next document: what ends in front of it would be short.
TEST_F(Documents, ALineThatBeginsBeforeTheMiddleIsCut) {
  constexpr std::size_t kMost = DocumentReader::kMaxTextBytes;
  const std::string rest = std::string(3 * kMost, 'c');
  for (const std::size_t first : {kMost / 2 - 1, kMost / 2}) {
    const std::string text = std::string(first, 'a') + '\n' + std::string(kMost * 3 / 4, 'b') + '\n' + rest;
    const auto pieces = read({file("a.txt", text)});
    EXPECT_EQ(pieces[0].size(), first < kMost / 2 ? kMost : first + 1);
    EXPECT_EQ(pieces[0].back(), first < kMost / 2 ? 'b' : '\n');
  }
}

TEST_F(Documents, LongLinesOfPlainTextAreCutBetweenCharacters) {
  constexpr std::size_t kMost = DocumentReader::kMaxTextBytes;
  for (std::size_t shift = 0; shift < 4; ++shift) {
    std::string text(shift, 'a');
    while (text.size() <= 2 * kMost) text += "\xF0\x9F\x98\x80";
    const auto pieces = read({file("a.txt", text)});
    ASSERT_EQ(pieces.size(), 3u);
    EXPECT_GT(pieces[0].size(), kMost - 4);
    EXPECT_TRUE(pieces[0] + pieces[1] + pieces[2] == text);
  }
}

TEST_F(Documents, InvalidUtf8InPlainTextIsRefusedWithItsPosition) {
  EXPECT_TRUE(refuses("a.txt", "abc\xFF", "UTF-8", "byte 3"));
  std::string text(DocumentReader::kMaxTextBytes + 100, 'a');
  text[50] = '\n';
  text[DocumentReader::kMaxTextBytes + 7] = '\x80';
  EXPECT_TRUE(refuses("a.txt", text, "UTF-8", "byte 1048583"));
  // All continuation bytes: the cut must not walk back for ever.
  EXPECT_TRUE(refuses("a.txt", std::string(2 * DocumentReader::kMaxTextBytes, '\x80'), "UTF-8", "byte 0"));
}

TEST_F(Documents, FilesOfOtherKindsOrMissingOnesAreRefusedAtOnce) {
  EXPECT_TRUE(refuses("a.csv", "x", ".jsonl", "'.csv'"));
  EXPECT_TRUE(refuses("a.gz", "x", ".jsonl", "''"));
  EXPECT_TRUE(throws_with<FormatError>([&] { DocumentReader({dir_ / "no.txt"}, "text"); }, "no.txt"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { DocumentReader({}, "text"); }, "at least one file"));
}

TEST_F(Documents, PipesAreRefusedSinceFilesAreReadAgain) {
  const std::string pipe = dir_ / "pipe.txt";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(throws_with<FormatError>([&] { DocumentReader({pipe}, "text"); }, "pipe.txt': expected a regular file"));
}

TEST_F(Documents, TakeNoMoreMemoryThanOneOfThem) {
  // Held are a few buffers of 256 KiB and zstd's window (8 MiB here); a sanitizer's quarantine holds freed blocks back,
  // and reads slowly.
  constexpr int kLines = test::kAddressSanitizer ? 4'000 : 40'000;
  constexpr std::uint64_t kMost = std::uint64_t{test::kAddressSanitizer ? 300 : 16} << 20;
  const auto path = [&] {
    std::string text;
    for (int i = 0; i < kLines; ++i) text += "{\"text\": \"" + std::string(1000, 'x') + "\"}\n";
    return file("a.jsonl.zst", test::zstd(text));
  }();
  const auto before = static_cast<std::uint64_t>(test::anonymous_bytes());
  const PeakAnonymousMemory peak;
  DocumentReader reader({path, path, path}, "text");
  while (reader.next()) EXPECT_EQ(reader.document()->size(), 1000u);
  EXPECT_LT(peak.bytes(), before + kMost);
}

}  // namespace
}  // namespace nibble::datasets
