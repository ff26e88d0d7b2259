#pragma once

#include <array>

#include "calib/stats/hessian_kind.h"
#include "core/text/choice.h"

namespace nibble::calib {

inline constexpr std::array<Choice<HessianKind>, 4> kHessianKinds = {{{"plain", HessianKind::kPlain},
                                                                      {"centred", HessianKind::kCentred},
                                                                      {"guided", HessianKind::kGuided},
                                                                      {"guided-centred", HessianKind::kGuidedCentred}}};

}  // namespace nibble::calib
