#include "model/tokenizer/split/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <new>
#include <optional>

#include "core/error.h"
#include "model/tokenizer/utf8.h"

namespace nibble::model {
namespace {

constexpr std::size_t kMaxRegexBytes = 16384;
// Steps of one match. A run of white space that no line break ends costs `\s*[\r\n]+` a step per character.
constexpr std::uint32_t kMatchLimit = 10'000'000;
constexpr std::uint32_t kDepthLimit = 1'000'000;
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};
template <class T>
using Handle = std::unique_ptr<T, Free>;

template <class T>
Handle<T> own(T* pointer) {
  if (pointer == nullptr) throw std::bad_alloc();
  return Handle<T>(pointer);
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

struct Regex::Compiled {
  Handle<pcre2_code> code;
  Handle<pcre2_match_context> limits;
};

Regex::Regex(std::string_view pattern, std::string where) : where_(std::move(where)) {
  NIBBLE_REQUIRE(pattern.size() <= kMaxRegexBytes, FormatError, "{}: the pattern has {} bytes, more than {}", where_,
                 pattern.size(), kMaxRegexBytes);
  NIBBLE_REQUIRE(valid_utf8_prefix(pattern) == pattern.size(), FormatError, "{}: the pattern is not UTF-8", where_);
  const auto context = own(pcre2_compile_context_create(nullptr));
  // Lines end at "\n" alone, and ^ and $ know them: as in Oniguruma.
  const std::uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE;
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  Handle<pcre2_code> code(pcre2_compile(units(pattern), pattern.size(), options, &error, &offset, context.get()));
  NIBBLE_REQUIRE(code != nullptr, FormatError, "{}: cannot compile the pattern '{}': {} at byte {}", where_, pattern,
                 error_text(error), offset);
  // Where machine code may not be made, the interpreter does the same work slowly: no error.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  auto limits = own(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(limits.get(), kMatchLimit);
  pcre2_set_depth_limit(limits.get(), kDepthLimit);
  pcre2_set_heap_limit(limits.get(), kHeapLimitKib);
  compiled_ = std::make_shared<const Compiled>(Compiled{std::move(code), std::move(limits)});
}

void Regex::for_each_match(std::string_view text,
                           const std::function<void(std::size_t begin, std::size_t end)>& on_match) const {
  const auto data = own(pcre2_match_data_create(1, nullptr));
  const auto match = [&](std::size_t start, std::uint32_t options) {
    return pcre2_match(compiled_->code.get(), units(text), text.size(), start, options, data.get(),
                       compiled_->limits.get());
  };
  std::optional<std::size_t> last_end;
  for (std::size_t start = 0; start <= text.size();) {
    int result = match(start, PCRE2_NO_UTF_CHECK);
    // The machine code has a small stack; the interpreter keeps its frames on the heap.
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(start, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) return;
    NIBBLE_REQUIRE(result >= 0, FormatError, "{}: matching the pattern at byte {} failed: {}", where_, start,
                   error_text(result));
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
    // \K in a lookahead may put the match's begin behind its end, or before where the search began.
    NIBBLE_REQUIRE(start <= ends[0] && ends[0] <= ends[1], FormatError,
                   "{}: the pattern moved the start of a match (\\K), which is not supported", where_);
    if (ends[0] < ends[1] || last_end != ends[1]) {
      start = ends[1];
      last_end = ends[1];
      on_match(ends[0], ends[1]);
    } else {
      if (ends[1] == text.size()) return;
      start = ends[1] + decode_utf8(text, ends[1]).length;
    }
  }
}

}  // namespace nibble::model
