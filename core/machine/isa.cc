#include "core/machine/isa.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#if defined(__x86_64__)
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "core/error.h"

namespace nibble {
namespace {

enum Feature : unsigned {
  kFeatureAvx2 = 1,  // with FMA and F16C
  kFeatureAvxVnni = 2,
  kFeatureAvx512 = 4,  // F, BW, VL and DQ
  kFeatureAvx512Vnni = 8,
  kFeatureAvx512Vbmi = 16,
  kFeatureAvx512Vbmi2 = 32,
  kFeatureAvx512Bf16 = 64,
  kFeatureNeon = 128,
  kFeatureNeonDotprod = 256,
  kFeatureNeonI8mm = 512,
  kFeatureAmx = 1024,       // of bytes and of bfloat16, with tiles that the system keeps
  kFeatureFullBf16 = 2048,  // AVX-512 BF16 that multiplies twice as many numbers per cycle as float32
};
struct FeatureName {
  Feature feature;
  const char* name;
};
constexpr FeatureName kFeatureNames[] = {
    {kFeatureAvx2, "AVX2 with FMA and F16C"},
    {kFeatureAvxVnni, "AVX-VNNI"},
    {kFeatureAvx512, "AVX-512 F BW VL DQ"},
    {kFeatureAvx512Vnni, "AVX-512 VNNI"},
    {kFeatureAvx512Vbmi, "AVX-512 VBMI"},
    {kFeatureAvx512Vbmi2, "AVX-512 VBMI2"},
    {kFeatureAvx512Bf16, "AVX-512 BF16"},
    {kFeatureAmx, "AMX with bytes and bfloat16"},
    {kFeatureNeon, "Advanced SIMD of Arm"},
    {kFeatureNeonDotprod, "dot products of Arm"},
    {kFeatureNeonI8mm, "int8 matrix products of Arm"},
};

// What a tier asks for and is good for. Its files: cmake/isa.cmake.
struct Tier {
  Isa isa;
  const char* name;
  unsigned features;
  const char* vectors;
  const char* uses;
};
constexpr unsigned kAvx512Features = kFeatureAvx2 | kFeatureAvx512,
                   kVnniFeatures = kAvx512Features | kFeatureAvx512Vnni,
                   kVbmiFeatures = kVnniFeatures | kFeatureAvx512Vbmi | kFeatureAvx512Vbmi2,
                   kDotprodFeatures = kFeatureNeon | kFeatureNeonDotprod;
constexpr Tier kTiers[] = {
    {Isa::kScalar, "scalar", 0, "scalar", "the compiler's baseline"},
    {Isa::kAvx2, "avx2", kFeatureAvx2, "avx2", "256 bits; vpmaddubsw, lookups by vpshufb"},
    {Isa::kAvx2Vnni, "avx2-vnni", kFeatureAvx2 | kFeatureAvxVnni, "avx2", "256 bits; vpdpbusd, lookups by vpshufb"},
    {Isa::kAvx512, "avx512-base", kAvx512Features, "avx512", "512 bits; no VNNI: vpmaddubsw, lookups by vpshufb"},
    {Isa::kAvx512Vnni, "avx512-vnni", kVnniFeatures, "avx512", "512 bits; vpdpbusd, no VBMI: lookups by vpshufb"},
    {Isa::kAvx512Vbmi, "avx512-vbmi", kVbmiFeatures, "avx512",
     "512 bits; vpdpbusd, lookups by vpermb, windows by vpmultishiftqb"},
    {Isa::kAmx, "amx", kVbmiFeatures | kFeatureAvx512Bf16 | kFeatureAmx, "avx512",
     "512 bits; prompts by tdpbsud, tdpbssd and tdpbf16ps, lookups by vpermb, windows by vpmultishiftqb"},
    {Isa::kNeon, "neon", kFeatureNeon, "neon", "128 bits; smull, lookups by tbl"},
    {Isa::kNeonDotprod, "neon-dotprod", kDotprodFeatures, "neon", "128 bits; sdot, lookups by tbl"},
    {Isa::kNeonI8mm, "neon-i8mm", kDotprodFeatures | kFeatureNeonI8mm, "neon",
     "128 bits; usdot, prompts by usmmla, lookups by tbl"},
};
constexpr std::size_t kTierCount = std::size(kTiers);

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTierCount; ++i)
    if (static_cast<std::size_t>(kTiers[i].isa) != i) return false;
  return true;
}
static_assert(in_order());

const Tier& tier_of(Isa isa) { return kTiers[static_cast<std::size_t>(isa)]; }

#if defined(__x86_64__)
#ifdef __linux__
// ARCH_GET_XCOMP_SUPP and ARCH_REQ_XCOMP_PERM, which older headers do not have; a bit of XCR0.
constexpr int kWhatSystemKeeps = 0x1021, kRequestPermission = 0x1023, kTileData = 18;
#endif

// Whether the system saves the registers of AMX when it switches threads: bits 17 and 18 of XCR0, and what Linux says
// that processes may ask for. Requires AVX, which vouches for the instruction.
bool system_keeps_tiles() {
#ifdef __linux__
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTileConfigurationAndData = 3u << 17;
  std::uint64_t kept = 0;
  return (low & kTileConfigurationAndData) == kTileConfigurationAndData &&
         syscall(SYS_arch_prctl, kWhatSystemKeeps, &kept) == 0 && (kept >> kTileData & 1) != 0;
#else
  return false;
#endif
}
#endif

// Linux wants to be asked before a process uses the registers of AMX. It cannot be taken back, and signal stacks that
// threads set up have to be larger afterwards, so only who uses them asks; a sandbox, or a small stack that is there
// already, is a refusal.
bool may_use(Isa isa) {
#if defined(__x86_64__) && defined(__linux__)
  return isa != Isa::kAmx || syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return isa != Isa::kAmx;
#endif
}

unsigned ask_processor() {
  unsigned features = 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const auto add = [&](bool has, Feature feature) { features |= has ? feature : 0u; };
  // Names that __builtin_cpu_supports() of Clang 16 does not know are asked for by hand; AVX2 vouches for the system,
  // which has to keep the registers.
  unsigned int a = 0, b = 0, c = 0, d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c;
  add(avx2, kFeatureAvx2);
  constexpr unsigned kAvxVnniOfLeaf7Part1 = 1u << 4;
  add(avx2 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvxVnniOfLeaf7Part1) != 0, kFeatureAvxVnni);
  add(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
          __builtin_cpu_supports("avx512dq"),
      kFeatureAvx512);
  add(__builtin_cpu_supports("avx512vnni"), kFeatureAvx512Vnni);
  add(__builtin_cpu_supports("avx512vbmi"), kFeatureAvx512Vbmi);
  add(__builtin_cpu_supports("avx512vbmi2"), kFeatureAvx512Vbmi2);
  const bool bf16 = __builtin_cpu_supports("avx512bf16");
  add(bf16, kFeatureAvx512Bf16);
  // Zen 4 and 5 multiply pairs of bfloat16 numbers as often as floats; Intel's cores half as often, which is no faster.
  add(bf16 && __builtin_cpu_is("amd"), kFeatureFullBf16);
  constexpr unsigned kAmxOfLeaf7 = (1u << 25) | (1u << 24) | (1u << 22);  // bytes, tiles, bfloat16
  add(__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmxOfLeaf7) == kAmxOfLeaf7 && system_keeps_tiles(),
      kFeatureAmx);
#elif defined(__aarch64__) && defined(__linux__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  const unsigned long capabilities = getauxval(AT_HWCAP), more = getauxval(AT_HWCAP2);
  if ((capabilities & HWCAP_ASIMD) != 0) features |= kFeatureNeon;
  if ((capabilities & HWCAP_ASIMDDP) != 0) features |= kFeatureNeonDotprod;
  if ((more & HWCAP2_I8MM) != 0) features |= kFeatureNeonI8mm;
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__  // other systems: what the compiler may assume
  features |= kFeatureNeon;
#ifdef __ARM_FEATURE_DOTPROD
  features |= kFeatureNeonDotprod;
#endif
#ifdef __ARM_FEATURE_MATMUL_INT8
  features |= kFeatureNeonI8mm;
#endif
#endif
  return features;
}

unsigned processor_features() {
  static const unsigned features = ask_processor();
  return features;
}

// "NIBBLE_FORCE_ISA: 'avx2-vnni' needs AVX-VNNI, which this processor lacks; …"
std::string what_is_lacking(Isa isa) {
  std::string lacking, supported;
  for (const auto& [feature, name] : kFeatureNames)
    if ((tier_of(isa).features & ~processor_features() & feature) != 0)
      lacking += (lacking.empty() ? "" : ", ") + std::string(name);
  for (const Tier& tier : kTiers)
    if (supports_isa(tier.isa)) supported += (supported.empty() ? "" : ", ") + std::string(tier.name);
  return fmt::format("needs {}, which this processor lacks; it has {}", lacking, supported);
}

Isa best_usable_isa() {
  const auto all = all_isas();
  return *std::find_if(all.rbegin(), all.rend(), [](Isa isa) { return supports_isa(isa) && may_use(isa); });
}

Isa choose_isa() {
  const char* forced = std::getenv("NIBBLE_FORCE_ISA");
  if (forced == nullptr || *forced == '\0') return best_usable_isa();
  const std::string_view name(forced);
  if (name == "avx512") {
    NIBBLE_REQUIRE(supports_isa(Isa::kAvx512), InvalidArgument, "NIBBLE_FORCE_ISA: 'avx512' {}",
                   what_is_lacking(Isa::kAvx512));
    return best_usable_isa();  // which is one of its tiers, being the best
  }
  std::string known;
  for (const Tier& tier : kTiers) {
    known += std::string(tier.name) + ", ";
    if (name != tier.name) continue;
    NIBBLE_REQUIRE(supports_isa(tier.isa), InvalidArgument, "NIBBLE_FORCE_ISA: '{}' {}", name,
                   what_is_lacking(tier.isa));
    NIBBLE_REQUIRE(may_use(tier.isa), InvalidArgument,
                   "NIBBLE_FORCE_ISA: '{}' needs registers that the system does not let this process use", name);
    return tier.isa;
  }
  throw InvalidArgument(
      fmt::format("NIBBLE_FORCE_ISA: expected {}or avx512 (the best of its tiers), got '{}'", known, name));
}

}  // namespace

std::span<const Isa> all_isas() {
  static constexpr auto kAll = [] {
    std::array<Isa, kTierCount> all{};
    for (std::size_t i = 0; i < kTierCount; ++i) all[i] = kTiers[i].isa;
    return all;
  }();
  return kAll;
}

std::string_view isa_name(Isa isa) { return tier_of(isa).name; }

bool isa_includes(Isa isa, Isa part) { return (tier_of(part).features & ~tier_of(isa).features) == 0; }

bool supports_isa(Isa isa) { return (tier_of(isa).features & ~processor_features()) == 0; }

Isa best_supported_isa() {
  const auto all = all_isas();
  return *std::find_if(all.rbegin(), all.rend(), supports_isa);  // scalar, if nothing else
}

Isa active_isa() {
  static const Isa isa = choose_isa();
  return isa;
}

std::string active_isa_uses() {
  return std::string(tier_of(active_isa()).uses) + (has_avx512_bf16() ? "; AVX-512 BF16" : "");
}

std::string_view active_vectors_name() { return tier_of(active_isa()).vectors; }

bool has_avx512_bf16() {
  return isa_includes(active_isa(), Isa::kAvx512Vnni) && (processor_features() & kFeatureAvx512Bf16) != 0;
}

bool has_fast_bf16() { return has_avx512_bf16() && (processor_features() & kFeatureFullBf16) != 0; }

}  // namespace nibble
