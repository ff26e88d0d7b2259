#pragma once

#include <string>
#include <string_view>

namespace nibble::model {

/// Says in PCRE2's syntax what a pattern means in Oniguruma's Ruby-like syntax, which Hugging Face's tokenizers use
/// (Oniguruma's doc/RE; checked against it on every code point). Differences that are translated:
///
/// - classes: `[a[bc]]` is a union, `[a&&b]` an intersection, POSIX brackets and \p{…} have Oniguruma's members;
/// - \s is White_Space, \w is Alphabetic, marks, decimal digits, connectors and (outside of brackets) ²³¹¼½¾, \h a
///   hexadecimal digit, \v U+000B;
/// - x{n,m}+ is (?:x{n,m})+ and not possessive, x{n}? may be absent, x{,m} is x{0,m};
/// - (?m:…) lets a dot match a line's end; scripts are plain scripts, without extensions;
/// - groups do not capture, as nothing can refer to them.
///
/// Characters that Unicode assigned after the version of the PCRE2 at hand (14 in Debian 12) are in no class there.
///
/// What has another meaning in PCRE2 and is not listed here is refused: back references, calls, named groups, callouts,
/// absent operators, \K, \G, \X, octal and control escapes, options in the middle of a group, under (?i) letters that
/// fold to several characters and classes that may have letters beyond ASCII. `where` names the origin in messages.
/// Throws FormatError, naming what is not supported.
std::string pcre2_pattern(std::string_view pattern, const std::string& where);

}  // namespace nibble::model
