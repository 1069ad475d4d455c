// The memory of an exchanger's messages: where they are packed, and where the transport has them. Knows sizes and
// places; not what a message has, nor when it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "damacy/device/device.h"
#include "damacy/halo/exchange_copies.h"
#include "damacy/halo/exchange_plan.h"
#include "damacy/halo/transport.h"

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

// The messages of one phase in one slot.
struct RoundMemory {
  Memories send;
  Memories receive;
  Event uploaded;  // the received messages were copied to the device: wait before the transport writes them again
};

// Those of an exchanger, by slot, then by phase.
class ExchangeMemory {
 public:
  // Filled with zeros, for the gaps of a native wire. Tells `copies` where they are.
  ExchangeMemory(const ExchangePlan& plan, ExchangeCopies& copies, int slots, const MessagePlace& place);

  RoundMemory& at(int slot, int phase) {
    return rounds_.at(static_cast<std::size_t>(slot)).at(static_cast<std::size_t>(phase));
  }
  // What the transport has.
  [[nodiscard]] Rounds spans() const;
  // For messages that a transport may still use: they are never freed.
  void keep_forever() &&;

 private:
  std::vector<std::vector<RoundMemory>> rounds_;
};

// Messages that have two places are copied to the other one: those that are sent to the host, false if there are none;
// the received ones to the device, up to `uploaded`.
bool download(Stream& stream, const RoundMemory& round);
void upload(Stream& stream, RoundMemory& round);

}  // namespace damacy::halo
