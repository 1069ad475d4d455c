#include "damacy/device/device.h"

#include <cerrno>

#include <sys/mman.h>

#include "damacy/core/address_space.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

Error no_memory(std::size_t bytes, int number) {
  return Error(Status::oom, formatted("no memory for a buffer of {} bytes{}", bytes, address_space_note()), "memory")
      .with_errno(number);
}

}  // namespace

std::byte* PageAlloc::take(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw no_memory(bytes, errno);
  constexpr std::size_t kHugePage = 2 << 20;
  if (bytes >= kHugePage) ::madvise(memory, bytes, MADV_HUGEPAGE);  // a wish; refused is fine
  return static_cast<std::byte*>(memory);
}

void PageAlloc::give(std::byte* memory, std::size_t bytes) noexcept {
  ::munmap(memory, bytes);
}

}  // namespace damacy
