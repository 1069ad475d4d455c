// The step that LZ77 decoders share. Knows no format.
#pragma once

#include <cstddef>
#include <cstring>

namespace damacy::detail {

// `count` bytes from `offset` (at least 1) before `to`, where they may be the very bytes written here.
inline void copy_match(std::byte* to, std::size_t offset, std::size_t count) noexcept {
  const std::byte* from = to - offset;
  if (offset >= count) {
    std::memcpy(to, from, count);
    return;
  }
  // What is written doubles what may be copied at once.
  for (std::size_t done = 0; done < count;) {
    const std::size_t part = done + offset < count - done ? done + offset : count - done;
    std::memcpy(to + done, from, part);
    done += part;
  }
}

}  // namespace damacy::detail
