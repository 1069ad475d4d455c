// Asks the processor for memory that is read soon. Changes nothing.
#pragma once

namespace damacy {

inline void prefetch_for_reading(const void* memory) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(memory);
#else
  static_cast<void>(memory);
#endif
}

}  // namespace damacy
