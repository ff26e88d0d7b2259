// Who multiplies has a stack for signal handlers: the matrix library's kernels use the stack pointer for data.
#include "core/machine/handler_stack.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <thread>

#include "core/machine/isa.h"
#include "core/matrix/gemm.h"
#include "core/matrix/matrix_view.h"
#include "tests/support/sanitizers.h"

namespace nibble {
namespace {

std::uintptr_t frame_of_handler = 0;

extern "C" void note_frame(int) {
  const char here = 0;
  frame_of_handler = reinterpret_cast<std::uintptr_t>(&here);
}

// Whether a handler that this thread runs now has its frame on the stack that is set aside for it.
bool handler_has_its_own_stack() {
  struct sigaction action = {}, before = {};
  action.sa_handler = note_frame;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, &before);
  pthread_kill(pthread_self(), SIGUSR1);
  sigaction(SIGUSR1, &before, nullptr);
  stack_t set = {};
  if (sigaltstack(nullptr, &set) != 0 || (set.ss_flags & SS_DISABLE) != 0) return false;
  const auto start = reinterpret_cast<std::uintptr_t>(set.ss_sp);
  return frame_of_handler >= start && frame_of_handler < start + set.ss_size;
}

TEST(HandlerStack, IsGivenToAnyThreadThatMultiplies) {
  if (test::kSanitizer) GTEST_SKIP() << "sanitizers give every thread one, and see frames elsewhere";
  bool before = true, after = false;
  std::thread([&] {
    before = handler_has_its_own_stack();
    const Matrix<float> a(64, 64);
    Matrix<float> c(64, 64);
    gemm<float>(Transpose::kNo, Transpose::kNo, 1.0f, a.view(), a.view(), 0.0f, c.view());
    after = handler_has_its_own_stack();
  }).join();
  EXPECT_FALSE(before);
  // Where Eigen multiplies, in code that a compiler made, none is needed.
  EXPECT_EQ(after, gemm_identity().starts_with("oneDNN"));
}

TEST(HandlerStack, OneThatIsThereStays) {
  std::thread([] {
    static char own[1 << 16];
    const stack_t set = {.ss_sp = own, .ss_flags = 0, .ss_size = sizeof own};
    stack_t current = {};
    ASSERT_EQ(sigaltstack(&set, &current), 0);
    give_handlers_a_stack();
    stack_t now = {};
    sigaltstack(nullptr, &now);
    EXPECT_EQ(now.ss_sp, own);
    sigaltstack(&current, nullptr);
  }).join();
}

}  // namespace
}  // namespace nibble
