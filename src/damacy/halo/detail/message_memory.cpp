// Empty messages have no memory.
#include "damacy/halo/detail/message_memory.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "damacy/core/mutex.h"

namespace damacy::halo {

Memories memories_of(const std::map<std::int64_t, std::vector<Entry>>& messages, const std::vector<std::int64_t>& bytes,
                     const MessagePlace& place) {
  Memories out;
  std::size_t i = 0;
  const auto& device = place.device;
  std::shared_ptr<Alloc> host = std::make_shared<PageAlloc>();
  if (device != nullptr) host = device->pinned_memory();
  for (const auto& [peer, entries] : messages) {
    const auto size = static_cast<std::size_t>(bytes.at(i++));
    MessageMemory& memory = out[peer];
    if (size == 0) continue;
    if (!place.in_stream_order) {
      memory.host = HostBuffer(host, size);
      std::fill(memory.host.bytes().begin(), memory.host.bytes().end(), std::byte{0});
    }
    if (device == nullptr) continue;
    memory.device = HostBuffer(device->device_memory(), size);
    const auto stream = device->make_stream();
    stream->fill(memory.device.bytes(), std::byte{0});
    stream->record().wait();
  }
  return out;
}

std::map<std::int64_t, std::span<std::byte>> spans_of(const Memories& memories) {
  std::map<std::int64_t, std::span<std::byte>> out;
  for (const auto& [peer, memory] : memories) out[peer] = memory.sent();
  return out;
}

void keep_forever(std::vector<Memories> buffers) {
  static auto& kept = *std::make_unique<std::deque<std::vector<Memories>>>().release();
  static auto& mutex = *std::make_unique<Mutex>().release();
  const Lock lock(mutex);
  kept.push_back(std::move(buffers));
}

}  // namespace damacy::halo
