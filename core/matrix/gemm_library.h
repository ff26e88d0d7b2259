#pragma once

namespace nibble {

/// Call on a thread before any call into oneDNN. It takes its threads from OpenMP; our own pool hands out the tiles, so
/// each of its threads allows it just one. The instruction set must be limited before the first call. Signal handlers
/// get a stack (core/machine/handler_stack.h).
void prepare_gemm_library();

}  // namespace nibble
