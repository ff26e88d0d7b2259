#include "core/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <new>

#include "core/error.h"
#include "core/text/excerpt.h"

namespace nibble {
namespace {

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

Handle<pcre2_code> compile(std::string_view pattern, Pattern::Over over) {
  const auto context = own(pcre2_compile_context_create(nullptr));
  std::uint32_t options = PCRE2_NEVER_BACKSLASH_C;
  if (over == Pattern::Over::kUtf8) {  // lines as in Oniguruma
    options |= PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE;
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  Handle<pcre2_code> code(pcre2_compile(units(pattern), pattern.size(), options, &error, &offset, context.get()));
  NIBBLE_REQUIRE(code != nullptr, FormatError, "cannot compile the pattern {}: {} at byte {}", in_quotes(pattern),
                 error_text(error), offset);
  return code;
}

}  // namespace

struct Pattern::Compiled {
  Handle<pcre2_code> code;
  Handle<pcre2_match_context> limits;
  std::string text;
};

Pattern::Pattern(std::string_view pattern, Over over, const Limits& limits) {
  NIBBLE_REQUIRE(!pattern.empty() && pattern.size() <= limits.pattern_bytes, FormatError,
                 "expected a pattern of 1 to {} bytes, got {}", limits.pattern_bytes, pattern.size());
  Handle<pcre2_code> code = compile(pattern, over);
  // Where machine code may not be made, the interpreter does the same work slowly: no error.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  auto context = own(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), limits.steps);
  pcre2_set_depth_limit(context.get(), limits.depth);
  pcre2_set_heap_limit(context.get(), limits.heap_kib);
  compiled_ = std::make_shared<const Compiled>(Compiled{std::move(code), std::move(context), std::string(pattern)});
}

const std::string& Pattern::text() const { return compiled_->text; }

std::optional<Pattern::Match> Pattern::search(std::string_view text, std::size_t start) const {
  // A search needs a place for its result: one for each thread, as texts have millions of words.
  thread_local const Handle<pcre2_match_data> data = own(pcre2_match_data_create(1, nullptr));
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(compiled_->code.get(), units(text), text.size(), start, options, data.get(),
                       compiled_->limits.get());
  };
  int result = match(PCRE2_NO_UTF_CHECK);
  // The machine code has a small stack; the interpreter keeps its frames on the heap.
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  NIBBLE_REQUIRE(result >= 0, FormatError, "matching the pattern {} at byte {} failed: {}", in_quotes(compiled_->text),
                 start, error_text(result));
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
  return Match{.begin = ends[0], .end = ends[1]};
}

}  // namespace nibble
