#pragma once

#include <string_view>

namespace nibble::eval {

// What every page holds beside its content: plain constants, without anything from records.
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace nibble::eval
