#include "quant/job/shards/kept_state.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/support/files.h"

namespace nibble::quant {
namespace {

std::uint64_t tokens_of(const nlohmann::json& json) {
  const auto tokens = json.at("tokens").get<std::uint64_t>();
  NIBBLE_REQUIRE(tokens > 0, FormatError, "expected tokens");
  return tokens;
}

TEST(KeptState, IsWhatTheFileSaysOrNothing) {
  const test::TempDir dir;
  const auto kept = [&](const std::string& text) {
    test::write_file(dir / "state.json", text);
    return kept_state(dir / "state.json", 64, tokens_of);
  };
  EXPECT_EQ(kept_state(dir / "absent.json", 64, tokens_of), std::nullopt);
  EXPECT_EQ(kept(R"({"tokens": 7})"), 7u);
  for (const char* damaged : {"", R"({"tokens": 7)", "[7]", R"({"tokens": "seven"})", R"({"tokens": 0})"})
    EXPECT_EQ(kept(damaged), std::nullopt) << damaged;
  EXPECT_EQ(kept(R"({"tokens": 7})" + std::string(64, ' ')), std::nullopt) << "larger than any such file";
}

}  // namespace
}  // namespace nibble::quant
