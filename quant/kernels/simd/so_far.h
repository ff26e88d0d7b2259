#pragma once

namespace nibble::quant {
namespace {

/// A sum of integers so far, in its register: GCC 12 would first make all products of a block, on the stack, and add
/// them up last. Costs no instruction. Only files of x86 tiers include this.
template <class Register>
[[gnu::always_inline]] inline Register so_far(Register sum) {
  asm("" : "+v"(sum));
  return sum;
}

}  // namespace
}  // namespace nibble::quant
