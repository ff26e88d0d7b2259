#include "quant/recipe/name_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/error.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kMaxPattern = 1024;
// Names have some 40 bytes, and sane patterns take some hundred steps on them.
constexpr std::uint32_t kMatchLimit = 100'000, kDepthLimit = 1'000, kHeapLimitKib = 1'024;

std::string error_text(int code) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

PCRE2_SPTR bytes_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

NamePattern::NamePattern(std::string text) : text_(std::move(text)) {
  NIBBLE_REQUIRE(!text_.empty() && text_.size() <= kMaxPattern, InvalidArgument,
                 "match: expected a pattern of 1 to {} bytes, got {}", kMaxPattern, text_.size());
  int code = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* compiled = pcre2_compile(bytes_of(text_), text_.size(), PCRE2_NEVER_BACKSLASH_C, &code, &offset, nullptr);
  NIBBLE_REQUIRE(compiled != nullptr, InvalidArgument, "match: the pattern '{}' fails at byte {}: {}", text_, offset,
                 error_text(code));
  compiled_ = std::shared_ptr<const void>(
      compiled, [](const void* owned) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(owned))); });
}

bool NamePattern::found_in(std::string_view name) const {
  const auto* compiled = static_cast<const pcre2_code*>(compiled_.get());
  const std::unique_ptr<pcre2_match_data, FreeMatch> data(pcre2_match_data_create_from_pattern(compiled, nullptr));
  const std::unique_ptr<pcre2_match_context, FreeMatch> context(pcre2_match_context_create(nullptr));
  NIBBLE_REQUIRE(data && context, InvalidArgument, "match: no memory for the pattern '{}'", text_);
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_depth_limit(context.get(), kDepthLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);
  const int status = pcre2_match(compiled, bytes_of(name), name.size(), 0, 0, data.get(), context.get());
  NIBBLE_REQUIRE(status >= 0 || status == PCRE2_ERROR_NOMATCH, InvalidArgument, "match: the pattern '{}' on '{}': {}",
                 text_, name, error_text(status));
  return status >= 0;
}

}  // namespace nibble::quant
