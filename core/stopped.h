#pragma once

namespace nibble {

/// What a ProgressSink (core/progress.h) throws to end the work that it hears of: it comes out of the call, and leaves
/// what a killed run would leave, which the next run takes up. No std::exception: it is no failure, and must not be
/// recorded as one (eval/sweep).
struct Stopped {};

}  // namespace nibble
