// The memory of an exchanger's messages: where they are packed, and where the transport has them. Knows sizes and
// places; not what a message has, nor when it is used.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "damacy/device/device.h"
#include "damacy/halo/exchange_phases.h"

namespace damacy::halo {

// Transports that send in stream order have a message where it is packed.
struct MessageMemory {
  HostBuffer host;
  HostBuffer device;  // none for arrays in host memory

  std::uint64_t packed_at() const noexcept {
    return reinterpret_cast<std::uint64_t>(device.data() != nullptr ? device.data() : host.data());
  }
  std::span<std::byte> sent() const noexcept { return host.data() != nullptr ? host.bytes() : device.bytes(); }
};

using Memories = std::map<std::int64_t, MessageMemory>;  // by peer

struct MessagePlace {
  std::shared_ptr<Device> device;  // null: host memory only
  bool in_stream_order = false;    // the transport takes device memory: no host memory
};

// Filled with zeros, for the gaps of a native wire. `bytes`: of each peer's message.
[[nodiscard]] Memories memories_of(const std::map<std::int64_t, std::vector<Entry>>& messages,
                                   const std::vector<std::int64_t>& bytes, const MessagePlace& place);
// What the transport has.
[[nodiscard]] std::map<std::int64_t, std::span<std::byte>> spans_of(const Memories& memories);
// For buffers that a transport may still use: they are never freed.
void keep_forever(std::vector<Memories> buffers);

}  // namespace damacy::halo
