#include <array>

#include "datasets/document_reader.h"
#include "tests/fuzz/fuzz.h"

// The first byte says what kind of file the rest is. Little files may hold much text: a piece of it shows what all do.
NIBBLE_FUZZ(input) {
  constexpr std::array kNames{"in.jsonl", "in.txt", "in.jsonl.gz", "in.txt.gz", "in.jsonl.zst", "in.txt.zst"};
  constexpr std::uint64_t kEnough = 4 << 20;
  constexpr std::size_t kMostRecords = 10'000;
  if (input.empty()) return;
  const std::size_t kind = static_cast<unsigned char>(input[0]) % kNames.size();
  nibble::datasets::DocumentReader reader({nibble::fuzz::file(kNames[kind], input.substr(1))}, "text");
  for (std::size_t i = 0; i < kMostRecords && reader.counts().text_bytes < kEnough && reader.next(); ++i)
    reader.document();
}
