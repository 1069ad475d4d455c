// The transport of NCCL for Python. Decides nothing.
#include <cstring>
#include <memory>
#include <utility>

#include <nanobind/stl/string.h>

#include "bindings.h"
#include "damacy/core/formatted.h"
#include "damacy/device/cuda_device.h"
#include "damacy/device/host_device.h"
#include "damacy/halo/spec.h"
#include "damacy/halo/transport.h"
#include "halo_channels.h"

namespace damacy::python {
namespace {

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

  PythonChannels open(std::int64_t rank, nb::object rounds) {
    if (transport_ == nullptr) throw Error(Status::inval, "this transport is closed", halo::kMisuse);
    auto channels = transport_->open(rank, nb::cast<PythonRounds&>(rounds).allocate(true));
    return {std::move(channels), std::move(rounds), device_, Sends::in_order};
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
  nb::class_<NcclTransport>(m, "NcclTransport")
      .def(nb::init<int, std::int64_t, std::int64_t, nb::callable, std::string, double>(), nb::arg("device"),
           nb::arg("rank"), nb::arg("ranks"), nb::arg("broadcast"), nb::arg("library"), nb::arg("timeout_s"))
      .def("open", &NcclTransport::open, nb::arg("rank"), nb::arg("rounds"))
      .def("close", &NcclTransport::close);
}

}  // namespace damacy::python
