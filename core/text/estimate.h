#pragma once

#include <string>

namespace nibble {

/// How many decimals a figure has beside its standard error: `least`, and more where the error would have no digit of
/// its own. `least` where the error is 0, infinite or NaN.
int decimals_beside(double error, int least);

/// "0.0338 ± 0.0003", with decimals_beside(error, least); without its error where that is NaN (of one window).
std::string estimate_text(double value, double error, int least);
/// The same, of a difference: "−0.0124 ± 0.0003".
std::string signed_estimate_text(double value, double error, int least);

/// "+3.61", "−0.20", with `digits` decimals.
std::string signed_number(double value, int digits);

}  // namespace nibble
