// Calls of transformers whose arrays are on a device and whose messages are in host memory. Decides nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "bindings.h"
#include "damacy/device/device.h"
#include "halo_queue.h"

namespace damacy::python {

// A non-blocking stream for copies between host and device.
struct CopyStream {
  std::shared_ptr<Device> owner;
  int device;
  std::unique_ptr<Stream> stream;
};

inline constexpr std::size_t kMostStreams = 32;  // idle ones of a device

// Lends an idle stream of damacy.halo.STREAM_POOL, the newest one, or a new one. The pool may be cleared at any time.
template <class Work>
void with_copy_stream(const std::shared_ptr<Device>& device, int index, Work work) {
  auto pool = nb::cast<nb::list>(python_part("damacy.halo.data_transformer", "STREAM_POOL"));
  const auto is_ours = [&](nb::handle one) { return nb::cast<const CopyStream&>(one).owner == device; };
  nb::object lent;
  for (std::size_t i = pool.size(); i-- > 0 && !lent.is_valid();)
    if (const nb::object one(pool[i]); is_ours(one)) {
      lent = one;
      nb::del(nb::handle(pool)[nb::int_(i)]);
    }
  if (!lent.is_valid()) lent = nb::cast(CopyStream{device, index, device->make_stream()});
  work(*nb::cast<const CopyStream&>(lent).stream);  // after an error it is not lent again: it may still have work
  std::size_t idle = 0;
  for (const nb::handle one : pool) idle += is_ours(one) ? 1 : 0;
  if (idle < kMostStreams) pool.append(lent);
}

// Memory on a device of the size of a host buffer, and the order of work on it. Calls return after the work.
class Crossing {
 public:
  Crossing(std::shared_ptr<LazyStreams> lazy, int device, std::span<std::byte> host)
      : index_(device), host_(host), queue_(nb::cast(new HaloQueue(std::move(lazy)), nb::rv_policy::take_ownership)) {
    own().use(device);
    memory_ = HostBuffer(own().device()->device_memory(), std::max<std::size_t>(host.size(), 1));
    upload();  // so that the gaps of a native wire are the same
  }

  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory_.data()); }
  const nb::object& queue() const { return queue_; }

  void pack(QueueRun& run, nb::handle stream, nb::handle after, nb::handle arrays) {
    run(stream, after, arrays);
    with_copy_stream(own().device(), index_, [&](Stream& copies) {
      own().make_wait(copies);
      copy(copies, host_, message());
    });
    own().synchronize();
  }
  void unpack(QueueRun& run, nb::handle stream, nb::handle after, nb::handle arrays) {
    upload();
    run(stream, after, arrays);
    own().synchronize();
  }

 private:
  HaloQueue& own() const { return nb::cast<HaloQueue&>(queue_); }
  std::span<std::byte> message() const { return memory_.bytes().first(host_.size()); }

  void upload() {
    with_copy_stream(own().device(), index_, [&](Stream& copies) { copy(copies, message(), host_); });
  }
  static void copy(Stream& copies, std::span<std::byte> to, std::span<const std::byte> from) {
    without_gil([&] {
      copies.copy(to, from);
      copies.record().wait();
    });
  }

  const int index_;
  const std::span<std::byte> host_;
  const nb::object queue_;
  HostBuffer memory_;
};

}  // namespace damacy::python
