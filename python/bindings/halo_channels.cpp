// Calls that may wait for another rank, or for a device, release the GIL.
#include "halo_channels.h"

#include <utility>
#include <vector>

#include "halo_plan.h"
#include "halo_values.h"

namespace damacy::python {
namespace {

nb::object object_of(const halo::ExchangeCopies::Copies& copies) {
  return copies.plan == nullptr ? nb::none() : nb::cast(BoundCopies{copies.plan, copies.bases});
}

template <class Messages>
nb::dict by_peer(const Messages& messages, const std::vector<std::int64_t>& bytes) {
  nb::dict out;
  std::size_t i = 0;
  for (const auto& [peer, entries] : messages) out[nb::int_(peer)] = bytes.at(i++);
  return out;
}

// What is on the stream by now has ended.
void wait_for(Stream& stream) {
  without_gil([&] { stream.record().wait(); });
}

}  // namespace

PythonRounds::PythonRounds(std::shared_ptr<const halo::ExchangePlan> of, int count, std::optional<int> index,
                           nb::object current, std::shared_ptr<LazyStreams> instead)
    : plan(std::move(of)),
      slots(count),
      device(index),
      current_stream(std::move(current)),
      lazy(std::move(instead)),
      memory_of(device ? device_at(*device, lazy) : nullptr),
      copies_(*plan, slots) {}

halo::Rounds PythonRounds::allocate(bool in_stream_order) {
  const halo::MessagePlace place{memory_of, memory_of != nullptr && in_stream_order};
  return memory_.emplace(*plan, copies_, slots, place).spans();
}

nb::tuple PythonRounds::message_bytes(std::size_t phase) const {
  const halo::ExchangePhase& own = plan->phases()[phase];
  return nb::make_tuple(by_peer(own.sends, copies_.send_bytes(phase)),
                        by_peer(own.receives, copies_.receive_bytes(phase)));
}

nb::list PythonRounds::bind(int slot, const halo::Addresses& arrays) {
  const halo::ExchangeCopies::Phases phases = copies_.of(slot, arrays);
  if (const auto known = made_.find(phases); known != made_.end()) return known->second;
  if (made_.size() > kMostMade) made_.clear();
  nb::list out;
  for (const auto& [pack, unpack] : *phases) out.append(nb::make_tuple(object_of(pack), object_of(unpack)));
  made_.emplace(phases, out);
  return out;
}

PythonChannels::PythonChannels(std::unique_ptr<halo::Channels> channels, nb::object rounds,
                               std::shared_ptr<Device> device, Sends sends)
    : rounds_(std::move(rounds)),
      device_(std::move(device)),
      sends_(sends),
      streams_(this->rounds().lazy),
      channels_(std::move(channels)) {}

nb::dict PythonChannels::exchange_digests(const nb::dict& mine) {
  std::map<std::int64_t, halo::Digests> own, theirs;
  for (const auto& [peer, digests] : mine) own[nb::cast<std::int64_t>(peer)] = digests_of(digests);
  without_gil([&] { theirs = channels_->exchange_digests(own); });
  nb::dict out;
  for (const auto& [peer, digests] : theirs)
    out[nb::int_(peer)] = nb::make_tuple(digest_bytes(digests.first), digest_bytes(digests.second));
  return out;
}

void PythonChannels::post_receives(int slot, int phase, nb::handle stream) {
  if (sends_ == Sends::in_order) return channels_->before_pack(borrow(stream), slot, phase);
  if (device_ != nullptr && sends_ == Sends::on_device) wait_for(borrow(stream));  // unpacking of the last messages
  if (device_ != nullptr && sends_ == Sends::from_host)
    without_gil([&] { rounds().at(slot, phase).uploaded.wait(); });  // the transport writes host memory
  channels_->post_receives(slot, phase);
}

void PythonChannels::send(int slot, int phase, nb::handle stream) {
  if (sends_ == Sends::in_order) {
    Stream& own = borrow(stream);
    return without_gil([&] { channels_->exchange(own, slot, phase); });  // NCCL's first one waits for peers to connect
  }
  if (device_ != nullptr) {
    Stream& own = borrow(stream);
    if (halo::download(own, rounds().at(slot, phase))) wait_for(own);  // the transport reads them
  }
  channels_->send(slot, phase);
}

void PythonChannels::wait_received(int slot, int phase, nb::handle stream) {
  Stream* const own = device_ == nullptr ? nullptr : &borrow(stream);
  if (sends_ == Sends::in_order)  // a rank of another thread may be late
    return without_gil([&] { channels_->before_unpack(*own, slot, phase); });
  without_gil([&] { channels_->wait_received(slot, phase); });
  if (own != nullptr) halo::upload(*own, rounds().at(slot, phase));
}

void PythonChannels::wait_sent(int slot, int phase, nb::handle stream) {
  sends_ == Sends::in_order ? channels_->after_unpack(borrow(stream), slot, phase) : channels_->wait_sent(slot, phase);
}

void PythonChannels::close() {
  if (channels_ == nullptr) return;
  const auto channels = std::move(channels_);
  if (!channels->close()) rounds_.release();  // the library may still use the buffers: they are never freed
}

Stream& PythonChannels::borrow(nb::handle stream) {
  std::uint64_t handle = 0;
  const nb::object& current = rounds().current_stream;
  if (!stream.is_none())
    handle = handle_of(stream);
  else if (!current.is_none())
    handle = nb::cast<std::uint64_t>(current());
  return streams_.at(*device_, handle);
}

}  // namespace damacy::python
