// Channels between ranks of the process, and over a message-passing library of Python: an object with the functions of
// halo::MessageLibrary. Decides nothing.
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/halo/message_channels.h"
#include "damacy/halo/message_tags.h"
#include "halo_channels.h"
#include "halo_values.h"

namespace damacy::python {
namespace {

// A call of Python by threads with or without the GIL.
template <class Call>
auto in_python(Call call) {
  const GilAcquire locked;
  const NoUnwind stays;
  return call();
}

class PythonRequests final : public halo::Requests {
 public:
  explicit PythonRequests(nb::object requests) : requests_(std::move(requests)) {}
  PythonRequests(const PythonRequests&) = delete;
  PythonRequests& operator=(const PythonRequests&) = delete;
  ~PythonRequests() override {
    in_python([this] { requests_.reset(); });
  }

  void post() override { call(&MessageNames::post); }
  void send() override { call(&MessageNames::send); }
  void wait_received() override { call(&MessageNames::wait_received); }
  void wait_sent() override { call(&MessageNames::wait_sent); }

  std::vector<std::int64_t> missing() override {
    return in_python([this] { return nb::cast<std::vector<std::int64_t>>(requests_.attr("missing")()); });
  }

  bool cancel() noexcept override {
    return in_python([this] {
      try {
        return nb::cast<bool>(requests_.attr("cancel")());
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("cancelling messages of a halo exchange");
        return false;
      }
    });
  }

 private:
  void call(MessageName name) {
    in_python([&] { requests_.attr(nb::handle(message_names().*name))(); });
  }

  nb::object requests_;
};

// Memory of a device, for libraries that send from there.
struct DeviceMessage {
  std::span<std::byte> bytes;

  nb::dict interface() const {
    nb::dict out;
    out["shape"] = nb::make_tuple(bytes.size());
    out["typestr"] = "|u1";
    out["data"] = nb::make_tuple(reinterpret_cast<std::uint64_t>(bytes.data()), false);
    out["version"] = 3;
    return out;
  }
};

// `library` has requests(send, receive), of lists of (peer, buffer, tag), and leave_messages().
class PythonLibrary final : public halo::MessageLibrary {
 public:
  // `on_device`: buffers have a __cuda_array_interface__; else they are of host memory.
  PythonLibrary(nb::object library, halo::Rounds rounds, bool on_device)
      : library_(std::move(library)), rounds_(std::move(rounds)), on_device_(on_device) {}
  PythonLibrary(const PythonLibrary&) = delete;
  PythonLibrary& operator=(const PythonLibrary&) = delete;
  ~PythonLibrary() override {
    in_python([this] { library_.reset(); });
  }

  std::unique_ptr<halo::Requests> messages(int slot, int phase, const halo::Tags& tags) override {
    return requests(rounds_.at(static_cast<std::size_t>(slot)).at(static_cast<std::size_t>(phase)), tags, on_device_);
  }

  std::unique_ptr<halo::Requests> digests(halo::Round round, const halo::Tags& tags) override {
    return requests(round, tags, false);
  }

  void leave_messages() noexcept override {
    in_python([this] {
      try {
        library_.attr("leave_messages")();
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("leaving messages of a halo exchange");
      }
    });
  }

 private:
  std::unique_ptr<halo::Requests> requests(const halo::Round& round, const halo::Tags& tags, bool on_device) {
    return in_python([&] {
      nb::list send, receive;
      for (const auto& [peer, bytes] : round.send)
        send.append(nb::make_tuple(peer, buffer_of(bytes, on_device), tags.send.at(peer)));
      for (const auto& [peer, bytes] : round.receive)
        receive.append(nb::make_tuple(peer, buffer_of(bytes, on_device), tags.receive));
      return std::make_unique<PythonRequests>(library_.attr("requests")(send, receive));
    });
  }

  static nb::object buffer_of(std::span<std::byte> bytes, bool on_device) {
    if (on_device) return nb::cast(DeviceMessage{bytes});
    return nb::steal(PyMemoryView_FromMemory(reinterpret_cast<char*>(bytes.data()),
                                             static_cast<Py_ssize_t>(bytes.size()), PyBUF_WRITE));
  }

  nb::object library_;
  const halo::Rounds rounds_;
  const bool on_device_;
};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

// `on_device`: the library sends from the memory of a device; else messages are copied to the host.
PythonChannels message_channels(nb::object library, nb::object rounds, std::int64_t rank,
                                std::shared_ptr<halo::MessageTags> tags, double timeout_s, bool on_device) {
  auto& own = nb::cast<PythonRounds&>(rounds);
  const bool stays = on_device && own.device;
  auto sender = std::make_unique<PythonLibrary>(std::move(library), own.allocate(stays), stays);
  auto channels = std::make_unique<halo::MessageChannels>(
      std::move(sender), rank, own.slots, static_cast<int>(own.plan->phases().size()),
      halo::MessageOptions{std::move(tags), milliseconds(timeout_s)});
  return {std::move(channels), std::move(rounds), own.memory_of, stays ? Sends::on_device : Sends::from_host};
}

PythonChannels local_channels(halo::Local& local, std::int64_t rank, nb::object rounds) {
  auto& own = nb::cast<PythonRounds&>(rounds);
  halo::Rounds spans = own.allocate(true);
  if (!own.device) return {local.open(rank, std::move(spans)), std::move(rounds), nullptr, Sends::from_host};
  return {local.open(own.memory_of, rank, std::move(spans)), std::move(rounds), own.memory_of, Sends::in_order};
}

}  // namespace

void bind_halo_messages(nb::module_& m) {
  nb::class_<halo::Local>(m, "LocalTransport")
      .def(
          "__init__",
          [](halo::Local* self, int n, double timeout_s) { new (self) halo::Local(n, milliseconds(timeout_s)); },
          nb::arg("n"), nb::arg("timeout_s"))
      .def("open", &local_channels, nb::arg("rank"), nb::arg("rounds"))
      .def_prop_ro("waiting", &halo::Local::waiting);
  nb::class_<halo::MessageTags>(m, "MessageTags");  // NOLINT(bugprone-unused-raii): registers the class
  m.def("mpi_tags", &halo::mpi_tags, "The tags of the exchangers of one transport.");
  m.def("message_channels", &message_channels, nb::arg("library"), nb::arg("rounds"), nb::arg("rank"), nb::arg("tags"),
        nb::arg("timeout_s"), nb::arg("on_device") = false);
  nb::class_<DeviceMessage>(m, "DeviceMessage").def_prop_ro("__cuda_array_interface__", &DeviceMessage::interface);
  nb::class_<PythonChannels>(m, "MessageChannels")
      .def("exchange_digests", &PythonChannels::exchange_digests, nb::arg("mine"))
      .def("post_receives", &PythonChannels::post_receives, nb::arg("slot"), nb::arg("phase"), nb::arg("stream").none())
      .def("send", &PythonChannels::send, nb::arg("slot"), nb::arg("phase"), nb::arg("stream").none())
      .def("wait_received", &PythonChannels::wait_received, nb::arg("slot"), nb::arg("phase"), nb::arg("stream").none())
      .def("wait_sent", &PythonChannels::wait_sent, nb::arg("slot"), nb::arg("phase"), nb::arg("stream").none())
      .def("close", &PythonChannels::close);
}

}  // namespace damacy::python
