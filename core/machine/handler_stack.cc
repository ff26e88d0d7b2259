#include "core/machine/handler_stack.h"

#include <signal.h>

#include <cstddef>
#include <memory>

namespace nibble {
namespace {

// The state of wide registers, which the kernel pushes there, takes up to 11 KB (AMX).
constexpr std::size_t kSize = std::size_t{1} << 16;

class HandlerStack {
 public:
  HandlerStack() {
    stack_t current{};
    if (sigaltstack(nullptr, &current) != 0 || (current.ss_flags & SS_DISABLE) == 0) return;  // there is one
    memory_ = std::make_unique<std::byte[]>(kSize);
    const stack_t ours = {.ss_sp = memory_.get(), .ss_flags = 0, .ss_size = kSize};
    if (sigaltstack(&ours, nullptr) != 0) memory_.reset();
  }
  ~HandlerStack() {
    stack_t current{};
    if (!memory_ || sigaltstack(nullptr, &current) != 0 || current.ss_sp != memory_.get()) return;
    const stack_t none = {.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    if (sigaltstack(&none, nullptr) != 0) static_cast<void>(memory_.release());  // a handler runs on it: leave it
  }
  HandlerStack(const HandlerStack&) = delete;
  HandlerStack& operator=(const HandlerStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace

void give_handlers_a_stack() {
  thread_local const HandlerStack stack;
  static_cast<void>(stack);
}

}  // namespace nibble
