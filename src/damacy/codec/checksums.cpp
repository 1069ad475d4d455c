#include "damacy/codec/checksums.h"

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

namespace damacy {
namespace {

const unsigned char* unsigned_bytes(detail::ByteSpan bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

std::uint32_t crc32(detail::ByteSpan bytes) noexcept {
  return crc32_gzip_refl(0, unsigned_bytes(bytes), bytes.size());
}

std::uint32_t adler32(detail::ByteSpan bytes) noexcept {
  return isal_adler32(1, unsigned_bytes(bytes), bytes.size());
}

}  // namespace damacy
