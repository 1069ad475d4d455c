// Memory of a host device that the host cannot access while no operation of the device runs: a host program that uses
// device memory then fails as with a GPU. Knows pages; neither devices nor operations.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <sys/mman.h>

namespace damacy {

// Memory is whole pages.
class GuardedPages {
 public:
  void add(std::byte* begin, std::size_t bytes) {
    pages_.push_back({begin, bytes});
    ::mprotect(begin, bytes, PROT_NONE);
  }
  void remove(std::byte* begin) noexcept {
    std::erase_if(pages_, [begin](std::span<std::byte> pages) {
      if (pages.data() != begin) return false;
      ::mprotect(begin, pages.size(), PROT_READ | PROT_WRITE);
      return true;
    });
  }
  void lock() noexcept {
    for (const auto pages : pages_) ::mprotect(pages.data(), pages.size(), PROT_NONE);
  }
  void unlock() noexcept {
    for (const auto pages : pages_) ::mprotect(pages.data(), pages.size(), PROT_READ | PROT_WRITE);
  }

 private:
  std::vector<std::span<std::byte>> pages_;
};

}  // namespace damacy
