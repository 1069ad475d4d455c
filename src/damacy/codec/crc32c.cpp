// CRC-32C by the fastest instructions at hand, which ISA-L finds out.
#include <isa-l/crc.h>

#include <algorithm>

#include "damacy/codec/chain.h"

namespace damacy {

std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t kStep = std::size_t{1} << 30;  // the library counts in int
  std::uint32_t crc = ~0u;
  while (!bytes.empty()) {
    const auto step = bytes.first(std::min(bytes.size(), kStep));
    // The library's parameter lacks a const; it only reads.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(step.data()));
    crc = crc32_iscsi(data, static_cast<int>(step.size()), crc);
    bytes = bytes.subspan(step.size());
  }
  return ~crc;
}

}  // namespace damacy
