// Calls that may wait for another rank release the GIL.
#include "halo_channels.h"

#include <utility>

#include "halo_queue.h"
#include "halo_values.h"

namespace damacy::python {
namespace {

std::map<std::int64_t, std::span<std::byte>> spans_of(nb::handle places) {
  std::map<std::int64_t, std::span<std::byte>> out;
  for (const auto& [peer, place] : nb::cast<nb::dict>(places))
    out[nb::cast<std::int64_t>(peer)] = {reinterpret_cast<std::byte*>(nb::cast<std::uint64_t>(
                                             nb::object(place[0]))),  // NOLINT(performance-no-int-to-ptr)
                                         nb::cast<std::size_t>(nb::object(place[1]))};
  return out;
}

}  // namespace

halo::Rounds rounds_of(nb::handle rounds) {
  halo::Rounds out;
  for (const nb::handle phases : rounds) {
    out.emplace_back();
    for (const nb::handle round : phases) {
      const nb::object places = round.attr("places");
      out.back().push_back({spans_of(nb::object(places[0])), spans_of(nb::object(places[1]))});
    }
  }
  return out;
}

PythonChannels::PythonChannels(std::unique_ptr<halo::Channels> channels, nb::object rounds,
                               std::shared_ptr<Device> device, nb::handle like)
    : rounds_(std::move(rounds)), device_(std::move(device)), channels_(std::move(channels)) {
  if (!like.is_none()) current_ = python_part("damacy.halo._arrays", "current_stream_of")(like);
}

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
  device_ == nullptr ? channels_->post_receives(slot, phase) : channels_->before_pack(borrow(stream), slot, phase);
}

void PythonChannels::send(int slot, int phase, nb::handle stream) {
  if (device_ == nullptr) return channels_->send(slot, phase);
  Stream& own = borrow(stream);
  without_gil([&] { channels_->exchange(own, slot, phase); });  // NCCL's first one waits for the peers to connect
}

void PythonChannels::wait_received(int slot, int phase, nb::handle stream) {
  Stream* const own = device_ == nullptr ? nullptr : &borrow(stream);
  without_gil([&] {  // a rank of another thread may be late
    own == nullptr ? channels_->wait_received(slot, phase) : channels_->before_unpack(*own, slot, phase);
  });
}

void PythonChannels::wait_sent(int slot, int phase, nb::handle stream) {
  device_ == nullptr ? channels_->wait_sent(slot, phase) : channels_->after_unpack(borrow(stream), slot, phase);
}

bool PythonChannels::close() {
  const bool unused = channels_->close();
  if (!unused) rounds_.release();  // the library may still use the buffers: they are never freed
  return unused;
}

Stream& PythonChannels::borrow(nb::handle stream) {
  std::uint64_t handle = 0;
  if (!stream.is_none())
    handle = handle_of(stream);
  else if (current_.is_valid())
    handle = nb::cast<std::uint64_t>(current_());
  auto& own = streams_[handle];
  if (own == nullptr) own = device_->is_host() ? device_->make_stream() : device_->borrow_stream(handle);
  return *own;
}

}  // namespace damacy::python
