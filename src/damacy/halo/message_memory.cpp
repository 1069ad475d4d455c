// Empty messages have no memory.
#include "damacy/halo/message_memory.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "damacy/core/mutex.h"

namespace damacy::halo {
namespace {

// `bytes`: of each peer's message.
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

Addresses addresses_of(const Memories& memories) {
  Addresses out;
  for (const auto& [peer, memory] : memories) out.push_back(memory.packed_at());
  return out;
}

}  // namespace

ExchangeMemory::ExchangeMemory(const ExchangePlan& plan, ExchangeCopies& copies, int slots, const MessagePlace& place)
    : rounds_(static_cast<std::size_t>(slots)) {
  for (int slot = 0; slot < slots; ++slot) {
    auto& phases = rounds_[static_cast<std::size_t>(slot)];
    for (std::size_t n = 0; n < copies.phases(); ++n) {
      const ExchangePhase& phase = plan.phases()[n];
      phases.push_back({memories_of(phase.sends, copies.send_bytes(n), place),
                        memories_of(phase.receives, copies.receive_bytes(n), place),
                        {}});
      copies.set_messages(slot, n, addresses_of(phases[n].send), addresses_of(phases[n].receive));
    }
  }
}

Rounds ExchangeMemory::spans() const {
  Rounds out;
  for (const auto& phases : rounds_) {
    out.emplace_back();
    for (const RoundMemory& round : phases) out.back().push_back({spans_of(round.send), spans_of(round.receive)});
  }
  return out;
}

void ExchangeMemory::keep_forever() && {
  static auto& kept = *std::make_unique<std::deque<ExchangeMemory>>().release();
  static auto& mutex = *std::make_unique<Mutex>().release();
  const Lock lock(mutex);
  kept.push_back(std::move(*this));
}

bool download(Stream& stream, const RoundMemory& round) {
  for (const auto& [peer, message] : round.send)
    if (message.host.size() > 0) stream.copy(message.host.bytes(), message.device.bytes());
  return !round.send.empty();
}

void upload(Stream& stream, RoundMemory& round) {
  for (const auto& [peer, message] : round.receive)
    if (message.host.size() > 0) stream.copy(message.device.bytes(), message.host.bytes());
  if (!round.receive.empty()) round.uploaded = stream.record();
}

}  // namespace damacy::halo
