#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "tests/support/files.h"

namespace nibble::test {

/// Directories of tests/data/families or ../shared/golden/families: a small model of each family, of some that see as
/// well, and what another implementation computes.
// clang-format off
inline constexpr const char* kGoldenFamilies[] = {
    "arcee", "aya_vision-sees", "bloom", "cohere", "cohere2", "cwm", "dots1", "ernie4_5", "ernie4_5_moe", "exaone4",
    "falcon", "gemma", "gemma2", "gemma3", "gemma3-sees", "glm", "glm4", "glm4_moe", "gpt2", "gpt_neo", "gpt_neox",
    "gpt_oss", "gptj", "granite", "granitemoe", "granitemoehybrid", "helium", "hunyuan_v1_dense", "hyperclovax",
    "internlm3", "internvl-sees", "iquestcoder", "llama", "llama-linear", "llama-yarn", "llama3", "llava-sees",
    "mellum", "minimax_m2", "ministral", "ministral3", "mistral", "mistral3-sees", "mixtral", "nanochat", "nemotron",
    "olmo", "olmo2", "olmo3", "olmoe", "opt", "phi", "phi3", "qwen2", "qwen2_5_vl-old", "qwen2_5_vl-sees",
    "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_vl-sees", "seed_oss", "smollm3", "smolvlm-sees", "stablelm",
    "starcoder2", "vaultgemma"};
// clang-format on

inline std::filesystem::path golden_family(const std::string& name) {
  const std::filesystem::path own = source_path("tests/data/families/" + name);
  return std::filesystem::exists(own) ? own : shared_path("golden/families/" + name);
}

/// The name of a test instance.
inline std::string family_test_name(const testing::TestParamInfo<const char*>& instance) {
  std::string name = instance.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace nibble::test

/// As NIBBLE_NEEDS_SHARED, of a golden family.
#define NIBBLE_NEEDS_FAMILY(name) \
  if (!std::filesystem::exists(::nibble::test::golden_family(name))) GTEST_SKIP() << "needs family " << (name)
