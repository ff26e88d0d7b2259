#include "model/tokenizer/normalize/unicode_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <span>

#include "core/error.h"
#include "model/tokenizer/utf8.h"

namespace nibble::model {
namespace {

constexpr char32_t kCodePoints = 0x110000;
constexpr std::size_t kMaxDecomposition = 32;  // the longest is 18 (U+FDFA)
using Decomposition = std::array<utf8proc_int32_t, kMaxDecomposition>;

struct Range {
  char32_t first;
  char32_t last;
};
/// Got a decomposition after Unicode 12.0, whose tables Hugging Face's tokenizers use for these forms: stay as they
/// are.
constexpr std::array<Range, 20> kLaterDecompositions{
    {{0x32FF, 0x32FF},   {0xA7F1, 0xA7F4},   {0xAB69, 0xAB69},   {0x105C9, 0x105C9}, {0x105E4, 0x105E4},
     {0x10781, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x11383, 0x11383}, {0x11385, 0x11385},
     {0x1138E, 0x1138E}, {0x11391, 0x11391}, {0x113C5, 0x113C8}, {0x11938, 0x11938}, {0x16121, 0x16128},
     {0x16D68, 0x16D6A}, {0x1CCD6, 0x1CCF9}, {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}}};

/// Became combining marks after Unicode 9.0, whose tables Hugging Face's tokenizers use for marks: characters like any
/// other there, neither sorted nor stripped. What lies between those of a range never was a mark before.
constexpr std::array<Range, 55> kLaterMarks{
    {{0x07FD, 0x07FD},   {0x0897, 0x08D3},   {0x09FE, 0x09FE},   {0x0AFA, 0x0AFF},   {0x0B55, 0x0B55},
     {0x0C04, 0x0C04},   {0x0C3C, 0x0C3C},   {0x0CF3, 0x0D00},   {0x0D3B, 0x0D3C},   {0x0D81, 0x0D81},
     {0x0EBA, 0x0EBA},   {0x0ECE, 0x0ECE},   {0x1715, 0x1715},   {0x180F, 0x180F},   {0x1ABF, 0x1AEB},
     {0x1CF7, 0x1CF7},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0xA8FF, 0xA8FF},   {0x10D24, 0x10D27},
     {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC}, {0x10EFA, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
     {0x11070, 0x11074}, {0x110C2, 0x110C2}, {0x11145, 0x11146}, {0x111C9, 0x111C9}, {0x111CE, 0x111CF},
     {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x113B8, 0x113E2}, {0x1145E, 0x1145E}, {0x1182C, 0x1183A},
     {0x11930, 0x11943}, {0x119D1, 0x11A99}, {0x11B60, 0x11B67}, {0x11D31, 0x11D47}, {0x11D8A, 0x11D97},
     {0x11EF3, 0x11F03}, {0x11F34, 0x11F5A}, {0x13440, 0x13455}, {0x1611E, 0x1612F}, {0x16F4F, 0x16F4F},
     {0x16F7F, 0x16F87}, {0x16FE4, 0x16FF1}, {0x1CF00, 0x1CF46}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
     {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}, {0x1E6E3, 0x1E6F5}}};
constexpr Range kFormerMarks{0x1CF2, 0x1CF3};  // marks in 9.0, letters today

/// Whether one of the ranges, which are in order, has the code point.
bool is_in(std::span<const Range> ranges, char32_t code_point) {
  const auto range = std::ranges::lower_bound(ranges, code_point, {}, &Range::last);
  return range != ranges.end() && range->first <= code_point;
}

bool is_later_mark(char32_t code_point) { return is_in(kLaterMarks, code_point); }

/// The full decomposition of one code point: how many it is.
std::size_t decompose(char32_t code_point, bool compatible, utf8proc_int32_t* out, std::size_t room) {
  if (is_in(kLaterDecompositions, code_point)) {
    out[0] = static_cast<utf8proc_int32_t>(code_point);
    return 1;
  }
  int boundary = 0;
  const int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  const auto count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), out, static_cast<utf8proc_ssize_t>(room),
                              static_cast<utf8proc_option_t>(options), &boundary);
  NIBBLE_REQUIRE(count > 0 && static_cast<std::size_t>(count) <= room, FormatError,
                 "cannot normalise the character U+{:04X}", static_cast<std::uint32_t>(code_point));
  return static_cast<std::size_t>(count);
}

int combining_class(utf8proc_int32_t code_point) {
  const int known = utf8proc_get_property(code_point)->combining_class;
  return known == 0 || is_later_mark(static_cast<char32_t>(code_point)) ? 0 : known;
}

bool is_mark(char32_t code_point) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  const bool known =
      category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
  return known ? !is_later_mark(code_point) : kFormerMarks.first <= code_point && code_point <= kFormerMarks.last;
}

/// Code points that decompose to themselves, begin a new sequence, and (if `compose`) never join one before them.
std::vector<bool> read_inert(bool compose, bool compatible) {
  std::vector<bool> inert(kCodePoints);
  std::vector<bool> joins(kCodePoints);
  for (char32_t c = 0x1161; c <= 0x1175; ++c) joins[c] = true;  // Hangul vowels
  for (char32_t c = 0x11A8; c <= 0x11C2; ++c) joins[c] = true;  // and finals
  for (char32_t c = 0; c < kCodePoints; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    Decomposition parts;
    const std::size_t count = decompose(c, compatible, parts.data(), parts.size());
    inert[c] = count == 1 && parts[0] == static_cast<utf8proc_int32_t>(c) &&
               combining_class(static_cast<utf8proc_int32_t>(c)) == 0;
    const std::size_t canonical = decompose(c, false, parts.data(), parts.size());
    for (std::size_t i = 1; i < canonical; ++i) joins[static_cast<std::size_t>(parts[i])] = true;
  }
  for (char32_t c = 0; compose && c < kCodePoints; ++c) inert[c] = inert[c] && !joins[c];
  return inert;
}

std::shared_ptr<const std::vector<bool>> inert_table(bool compose, bool compatible) {
  static std::mutex mutex;
  static std::array<std::shared_ptr<const std::vector<bool>>, 4> tables;
  const std::lock_guard lock(mutex);
  auto& table = tables[(compose ? 2u : 0u) + (compatible ? 1u : 0u)];
  if (table == nullptr) table = std::make_shared<const std::vector<bool>>(read_inert(compose, compatible));
  return table;
}

std::size_t ascii_prefix(std::string_view text) {
  const auto end = std::find_if(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  return static_cast<std::size_t>(end - text.begin());
}

template <class OnCharacter>
std::string map_characters(std::string_view text, OnCharacter&& on_character) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t pos = 0; pos < text.size();) {
    const Utf8Char c = decode_utf8(text, pos);
    if (c.length == 0) {
      result += text[pos++];
      continue;
    }
    on_character(result, c.code_point);
    pos += c.length;
  }
  return result;
}

}  // namespace

UnicodeForm::UnicodeForm(UnicodeFormStep::Form form)
    : compose_(form == UnicodeFormStep::Form::kNfc || form == UnicodeFormStep::Form::kNfkc),
      compatible_(form == UnicodeFormStep::Form::kNfkc || form == UnicodeFormStep::Form::kNfkd),
      inert_(inert_table(compose_, compatible_)) {}

bool UnicodeForm::is_inert(char32_t code_point) const { return code_point < 0x80 || (*inert_)[code_point]; }

std::string UnicodeForm::apply(std::string_view text) const {
  std::string result;
  result.reserve(text.size());
  for_each_utf8_stretch(
      text, [&](std::string_view stretch) { apply_valid(result, stretch); },
      [&](std::string_view bytes) { result += bytes; });
  return result;
}

// Inert characters are copied; what lies from one to the next is normalised together with the first of the two.
void UnicodeForm::apply_valid(std::string& result, std::string_view text) const {
  std::size_t copied = 0;  // everything before is in the result
  std::size_t last = 0;    // the inert character before pos, if any
  for (std::size_t pos = 0; pos < text.size();) {
    if (const std::size_t ascii = ascii_prefix(text.substr(pos)); ascii > 0) {
      pos += ascii;
      last = pos - 1;
      continue;
    }
    const Utf8Char c = decode_utf8(text, pos);
    if (is_inert(c.code_point)) {
      last = pos;
      pos += c.length;
      continue;
    }
    std::size_t end = pos + c.length;
    while (end < text.size()) {
      const Utf8Char next = decode_utf8(text, end);
      if (is_inert(next.code_point)) break;
      end += next.length;
    }
    const std::size_t begin = std::max(last, copied);
    result += text.substr(copied, begin - copied);
    append_normalized(result, text.substr(begin, end - begin));
    copied = last = pos = end;
  }
  result += text.substr(copied);
}

void UnicodeForm::append_normalized(std::string& result, std::string_view text) const {
  std::vector<utf8proc_int32_t> points;
  for (std::size_t pos = 0; pos < text.size();) {
    const Utf8Char c = decode_utf8(text, pos);
    Decomposition parts;
    const std::size_t count = decompose(c.code_point, compatible_, parts.data(), parts.size());
    points.insert(points.end(), parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(count));
    pos += c.length;
  }
  for (auto begin = points.begin(); begin != points.end();) {
    const auto is_starter = [](utf8proc_int32_t point) { return combining_class(point) == 0; };
    begin = std::find_if_not(begin, points.end(), is_starter);
    const auto end = std::find_if(begin, points.end(), is_starter);
    std::stable_sort(begin, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
  if (compose_) {
    const auto count = utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                                                static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    points.resize(static_cast<std::size_t>(std::max<utf8proc_ssize_t>(count, 0)));
  }
  for (const utf8proc_int32_t point : points) append_utf8(result, static_cast<char32_t>(point));
}

std::string lowercase(std::string_view text) {
  return map_characters(text, [](std::string& result, char32_t c) {
    if (c == 0x130) {  // the only one whose lower case is two characters
      result += "i\u0307";
    } else {
      append_utf8(result, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
  });
}

std::string strip_accents(std::string_view text) {
  return map_characters(text, [](std::string& result, char32_t c) {
    if (!is_mark(c)) append_utf8(result, c);
  });
}

}  // namespace nibble::model
