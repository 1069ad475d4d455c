// Channels between ranks of the process, and over a message-passing library of Python: an object with the functions of
// halo::MessageLibrary. Decides nothing.
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/device/cuda_device.h"
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

// `library` has requests(send, receive, send_tags, receive_tag), of buffers and tags by peer, and leave_messages().
// `rounds`: buffers by slot, then by phase.
class PythonLibrary final : public halo::MessageLibrary {
 public:
  PythonLibrary(nb::object library, nb::object rounds) : library_(std::move(library)), rounds_(std::move(rounds)) {}
  PythonLibrary(const PythonLibrary&) = delete;
  PythonLibrary& operator=(const PythonLibrary&) = delete;
  ~PythonLibrary() override {
    in_python([this] {
      library_.reset();
      rounds_.reset();
    });
  }

  std::unique_ptr<halo::Requests> messages(int slot, int phase, const halo::Tags& tags) override {
    return in_python([&] {
      const nb::object round(rounds_[slot][phase]);
      return requests(round.attr("send"), round.attr("receive"), tags);
    });
  }

  std::unique_ptr<halo::Requests> digests(halo::Round round, const halo::Tags& tags) override {
    return in_python([&] { return requests(views_of(round.send), views_of(round.receive), tags); });
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
  std::unique_ptr<halo::Requests> requests(nb::object send, nb::object receive, const halo::Tags& tags) {
    nb::dict send_tags;
    for (const auto& [peer, tag] : tags.send) send_tags[nb::int_(peer)] = tag;
    return std::make_unique<PythonRequests>(library_.attr("requests")(send, receive, send_tags, tags.receive));
  }

  static nb::dict views_of(const std::map<std::int64_t, std::span<std::byte>>& buffers) {
    nb::dict out;
    for (const auto& [peer, buffer] : buffers)
      out[nb::int_(peer)] = nb::steal(PyMemoryView_FromMemory(reinterpret_cast<char*>(buffer.data()),
                                                              static_cast<Py_ssize_t>(buffer.size()), PyBUF_WRITE));
    return out;
  }

  nb::object library_, rounds_;
};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

PythonChannels message_channels(nb::object library, nb::object rounds, std::int64_t rank,
                                std::shared_ptr<halo::MessageTags> tags, double timeout_s) {
  const int slots = static_cast<int>(nb::len(rounds));
  const int phases = slots == 0 ? 0 : static_cast<int>(nb::len(nb::object(rounds[0])));
  return {
      std::make_unique<halo::MessageChannels>(std::make_unique<PythonLibrary>(std::move(library), rounds), rank, slots,
                                              phases, halo::MessageOptions{std::move(tags), milliseconds(timeout_s)}),
      std::move(rounds)};
}

// `like`: one of the buffers, or None. `device`: which has them; none for host memory.
PythonChannels local_channels(halo::Local& local, std::int64_t rank, nb::object rounds, std::optional<int> device,
                              nb::handle like) {
  halo::Rounds spans = rounds_of(rounds);
  if (!device) return {local.open(rank, std::move(spans)), std::move(rounds)};
  std::shared_ptr<Device> own = bind_primary_context(*device);
  auto channels = local.open(own, rank, std::move(spans));
  return {std::move(channels), std::move(rounds), std::move(own), like};
}

}  // namespace

void bind_halo_messages(nb::module_& m) {
  nb::class_<halo::Local>(m, "LocalTransport")
      .def(
          "__init__",
          [](halo::Local* self, int n, double timeout_s) { new (self) halo::Local(n, milliseconds(timeout_s)); },
          nb::arg("n"), nb::arg("timeout_s"))
      .def("open", &local_channels, nb::arg("rank"), nb::arg("rounds"), nb::arg("device").none(),
           nb::arg("like").none())
      .def_prop_ro("waiting", &halo::Local::waiting);
  nb::class_<halo::MessageTags>(m, "MessageTags");  // NOLINT(bugprone-unused-raii): registers the class
  m.def("mpi_tags", &halo::mpi_tags, "The tags of the exchangers of one transport.");
  m.def("message_channels", &message_channels, nb::arg("library"), nb::arg("rounds"), nb::arg("rank"), nb::arg("tags"),
        nb::arg("timeout_s"));
  nb::class_<PythonChannels>(m, "MessageChannels")
      .def("exchange_digests", &PythonChannels::exchange_digests, nb::arg("mine"))
      .def("post_receives", &PythonChannels::post_receives, nb::arg("slot"), nb::arg("phase"), nb::arg("stream").none())
      .def("send", &PythonChannels::send, nb::arg("slot"), nb::arg("phase"), nb::arg("stream").none())
      .def("wait_received", &PythonChannels::wait_received, nb::arg("slot"), nb::arg("phase"), nb::arg("stream").none())
      .def("wait_sent", &PythonChannels::wait_sent, nb::arg("slot"), nb::arg("phase"), nb::arg("stream").none())
      .def("close", &PythonChannels::close);
}

}  // namespace damacy::python
