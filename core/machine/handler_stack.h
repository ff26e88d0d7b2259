#pragma once

namespace nibble {

/// Gives the calling thread, once and until it ends, a stack of its own for signal handlers (sigaltstack), unless it
/// has one. Kernels that the matrix library generates keep data in the stack pointer while they run: a handler that
/// pushes its frame there writes over memory of somebody else. Only handlers installed with SA_ONSTACK use it, as ours
/// and those of CPython since 3.10 are.
void give_handlers_a_stack();

}  // namespace nibble
