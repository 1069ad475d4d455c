// Switches between stacks of one thread (fibres). Knows how to leave and enter a stack; not which is next. Not part of
// the library. sanitized_fibre.h notifies sanitizers. Replaces swapcontext where possible, which costs system calls
// and, under the address sanitizer, a pass over the whole stack's shadow.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace damacy::gpu::simt {

#if defined(__x86_64__)

// Where a stack was left: its registers that a call keeps are on it.
struct StackPlace {
  void* top = nullptr;
};

extern "C" void damacy_switch_stack(void** left, void* entered);

// Six registers that calls keep; flags and floating-point control are the same for all.
asm(R"(
  .pushsection .text
  .weak damacy_switch_stack
  .type damacy_switch_stack, @function
damacy_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size damacy_switch_stack, .-damacy_switch_stack
  .popsection
)");

// `entry` never returns: it goes to another place.
inline void prepare(StackPlace& place, unsigned char* stack, std::size_t bytes, void (*entry)()) {
  auto end = reinterpret_cast<std::uintptr_t>(stack + bytes) & ~std::uintptr_t{15};
  const std::uintptr_t words[8] = {0, 0, 0, 0, 0, 0, reinterpret_cast<std::uintptr_t>(entry), 0};
  end -= sizeof words;
  std::memcpy(reinterpret_cast<void*>(end), words, sizeof words);
  place.top = reinterpret_cast<void*>(end);
}

inline void go(StackPlace& from, const StackPlace& to) {
  damacy_switch_stack(&from.top, to.top);
}

#else

struct StackPlace {
  ucontext_t context;
};

inline void prepare(StackPlace& place, unsigned char* stack, std::size_t bytes, void (*entry)()) {
  getcontext(&place.context);
  place.context.uc_stack.ss_sp = stack;
  place.context.uc_stack.ss_size = bytes;
  place.context.uc_link = nullptr;
  makecontext(&place.context, entry, 0);
}

inline void go(StackPlace& from, StackPlace& to) {
  swapcontext(&from.context, &to.context);
}

#endif

}  // namespace damacy::gpu::simt
