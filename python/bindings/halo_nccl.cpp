// The transport of NCCL for Python: buffers by address, streams by handle. Decides nothing.
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/device/cuda_device.h"
#include "damacy/device/host_device.h"
#include "damacy/halo/transport.h"
#include "halo_values.h"

namespace damacy::python {
namespace {

using Places = std::map<std::int64_t, std::pair<std::uint64_t, std::uint64_t>>;  // address and bytes, by peer
using PlacesOfRounds = std::vector<std::vector<std::pair<Places, Places>>>;      // sends, receives

std::map<std::int64_t, std::span<std::byte>> spans_of(const Places& places) {
  std::map<std::int64_t, std::span<std::byte>> out;
  for (const auto& [peer, place] : places)
    out[peer] = {reinterpret_cast<std::byte*>(place.first), static_cast<std::size_t>(place.second)};
  return out;
}

class NcclChannels {
 public:
  NcclChannels(std::shared_ptr<Device> device, std::unique_ptr<halo::Channels> channels)
      : device_(std::move(device)), channels_(std::move(channels)) {}

  // Of the messages to and from each peer, as bytes.
  nb::dict exchange_digests(const nb::dict& mine) {
    std::map<std::int64_t, halo::Digests> own, theirs;
    for (const auto& [peer, digests] : mine) own[nb::cast<std::int64_t>(peer)] = digests_of(digests);
    without_gil([&] { theirs = channels_->exchange_digests(own); });
    nb::dict out;
    for (const auto& [peer, digests] : theirs)
      out[nb::int_(peer)] = nb::make_tuple(digest_bytes(digests.first), digest_bytes(digests.second));
    return out;
  }
  void before_pack(std::uint64_t stream, int slot, int phase) { channels_->before_pack(borrow(stream), slot, phase); }
  void exchange(std::uint64_t stream, int slot, int phase) {
    Stream& own = borrow(stream);
    without_gil([&] { channels_->exchange(own, slot, phase); });  // the first one waits for the peers to connect
  }
  void before_unpack(std::uint64_t stream, int slot, int phase) {
    channels_->before_unpack(borrow(stream), slot, phase);
  }
  void after_unpack(std::uint64_t stream, int slot, int phase) { channels_->after_unpack(borrow(stream), slot, phase); }
  bool close() { return channels_->close(); }

 private:
  Stream& borrow(std::uint64_t handle) {
    auto& stream = streams_[handle];
    if (stream == nullptr) stream = device_->is_host() ? device_->make_stream() : device_->borrow_stream(handle);
    return *stream;
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<halo::Channels> channels_;
  std::map<std::uint64_t, std::unique_ptr<Stream>> streams_;
};

class NcclTransport {
 public:
  // `device`: -1 for host memory, which only a library that plays NCCL takes. `broadcast`: a function of the id's bytes
  // that returns those of rank 0.
  NcclTransport(int device, std::int64_t rank, std::int64_t ranks, nb::callable broadcast, std::string library,
                double timeout_s)
      : device_(device < 0 ? make_host_device() : bind_primary_context(device)) {
    const auto with_gil = [&](halo::NcclId& id) {
      const GilAcquire locked;
      const auto given = nb::cast<nb::bytes>(broadcast(nb::bytes(static_cast<const void*>(id.data()), id.size())));
      if (given.size() != id.size())
        throw Error(Status::inval,
                    formatted("broadcast returned {} bytes, expected the {} bytes of rank 0", given.size(), id.size()));
      std::memcpy(id.data(), given.c_str(), id.size());
    };
    const halo::NcclOptions options{std::move(library),
                                    std::chrono::milliseconds(static_cast<std::int64_t>(timeout_s * 1000))};
    without_gil([&] { transport_ = std::make_unique<halo::NcclTransport>(device_, rank, ranks, with_gil, options); });
  }
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;
  ~NcclTransport() { close(); }

  NcclChannels open(std::int64_t rank, const PlacesOfRounds& rounds) {
    if (transport_ == nullptr) throw Error(Status::inval, "this transport is closed", halo::kMisuse);
    halo::Rounds spans;
    for (const auto& phases : rounds) {
      spans.emplace_back();
      for (const auto& [sends, receives] : phases) spans.back().push_back({spans_of(sends), spans_of(receives)});
    }
    return {device_, transport_->open(rank, std::move(spans))};
  }
  void close() {
    if (transport_ != nullptr) without_gil([this] { transport_.reset(); });  // it may wait for other ranks
  }

 private:
  std::shared_ptr<Device> device_;
  std::unique_ptr<halo::NcclTransport> transport_;
};

}  // namespace

void bind_halo_nccl(nb::module_& m) {
  nb::class_<NcclChannels>(m, "NcclChannels")
      .def("exchange_digests", &NcclChannels::exchange_digests, nb::arg("mine"))
      .def("before_pack", &NcclChannels::before_pack)
      .def("exchange", &NcclChannels::exchange)
      .def("before_unpack", &NcclChannels::before_unpack)
      .def("after_unpack", &NcclChannels::after_unpack)
      .def("close", &NcclChannels::close);
  nb::class_<NcclTransport>(m, "NcclTransport")
      .def(nb::init<int, std::int64_t, std::int64_t, nb::callable, std::string, double>(), nb::arg("device"),
           nb::arg("rank"), nb::arg("ranks"), nb::arg("broadcast"), nb::arg("library"), nb::arg("timeout_s"))
      .def("open", &NcclTransport::open, nb::arg("rank"), nb::arg("rounds"))
      .def("close", &NcclTransport::close);
}

}  // namespace damacy::python
