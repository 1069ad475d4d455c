// Channels over a message-passing library of Python, and between ranks of the process whose messages Python copies:
// objects with the functions of halo::MessageLibrary and halo::LocalBuffers. Decides nothing.
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/halo/message_channels.h"
#include "damacy/halo/message_tags.h"
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

// `buffers` has copies(slot, phase), a dict by peer; senders(slot, phase); place(slot, phase, sender, message),
// follow(), use() and close().
class PythonBuffers final : public halo::LocalBuffers {
 public:
  explicit PythonBuffers(nb::object buffers) : buffers_(std::move(buffers)) {}
  PythonBuffers(const PythonBuffers&) = delete;
  PythonBuffers& operator=(const PythonBuffers&) = delete;
  ~PythonBuffers() override {
    in_python([this] { buffers_.reset(); });
  }

  std::map<std::int64_t, Message> copies(int slot, int phase) override {
    return in_python([&] {
      std::map<std::int64_t, Message> out;
      for (const auto& [peer, message] : nb::cast<nb::dict>(buffers_.attr("copies")(slot, phase)))
        out[nb::cast<std::int64_t>(peer)] = Message(message.inc_ref().ptr(), [](void* object) {
          in_python([&] { Py_DECREF(static_cast<PyObject*>(object)); });
        });
      return out;
    });
  }
  std::vector<std::int64_t> senders(int slot, int phase) const override {
    return in_python([&] { return nb::cast<std::vector<std::int64_t>>(buffers_.attr("senders")(slot, phase)); });
  }
  void place(int slot, int phase, std::int64_t sender, const Message& message) override {
    const nb::handle object(static_cast<PyObject*>(message.get()));
    in_python([&] { buffers_.attr("place")(slot, phase, sender, object); });
  }
  void follow(int slot, int phase) override {
    in_python([&] { buffers_.attr("follow")(slot, phase); });
  }
  void use(int slot, int phase) override {
    in_python([&] { buffers_.attr("use")(slot, phase); });
  }
  void close() noexcept override {
    in_python([this] {
      try {
        buffers_.attr("close")();
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("closing a halo exchange");
      }
    });
  }

 private:
  nb::object buffers_;
};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

class PythonChannels {
 public:
  explicit PythonChannels(std::unique_ptr<halo::Channels> channels) : channels_(std::move(channels)) {}
  PythonChannels(nb::object library, nb::sequence rounds, std::int64_t rank, std::shared_ptr<halo::MessageTags> tags,
                 double timeout_s) {
    const int slots = static_cast<int>(nb::len(rounds));
    const int phases = slots == 0 ? 0 : static_cast<int>(nb::len(nb::object(rounds[0])));
    channels_ = std::make_unique<halo::MessageChannels>(
        std::make_unique<PythonLibrary>(std::move(library), std::move(rounds)), rank, slots, phases,
        halo::MessageOptions{std::move(tags), milliseconds(timeout_s)});
  }

  nb::dict exchange_digests(const nb::dict& mine) {
    std::map<std::int64_t, halo::Digests> own, theirs;
    for (const auto& [peer, digests] : mine) own[nb::cast<std::int64_t>(peer)] = digests_of(digests);
    without_gil([&] { theirs = channels_->exchange_digests(own); });  // it waits for the peers
    nb::dict out;
    for (const auto& [peer, digests] : theirs)
      out[nb::int_(peer)] = nb::make_tuple(digest_bytes(digests.first), digest_bytes(digests.second));
    return out;
  }

  void post_receives(int slot, int phase, nb::handle) { channels_->post_receives(slot, phase); }
  void send(int slot, int phase, nb::handle) { channels_->send(slot, phase); }
  void wait_received(int slot, int phase, nb::handle) {
    without_gil([&] { channels_->wait_received(slot, phase); });  // a rank of another thread may be late
  }
  void wait_sent(int slot, int phase, nb::handle) { channels_->wait_sent(slot, phase); }
  bool close() { return channels_->close(); }

 private:
  std::unique_ptr<halo::Channels> channels_;
};

}  // namespace

void bind_halo_messages(nb::module_& m) {
  nb::class_<halo::Local>(m, "LocalTransport")
      .def(
          "__init__",
          [](halo::Local* self, int n, double timeout_s) { new (self) halo::Local(n, milliseconds(timeout_s)); },
          nb::arg("n"), nb::arg("timeout_s"))
      .def(
          "open",
          [](halo::Local& local, std::int64_t rank, nb::object buffers) {
            return new PythonChannels(local.open(rank, std::make_unique<PythonBuffers>(std::move(buffers))));
          },
          nb::arg("rank"), nb::arg("buffers"))
      .def_prop_ro("waiting", &halo::Local::waiting);
  nb::class_<halo::MessageTags>(m, "MessageTags");  // NOLINT(bugprone-unused-raii): registers the class
  m.def("mpi_tags", &halo::mpi_tags, "The tags of the exchangers of one transport.");
  nb::class_<PythonChannels>(m, "MessageChannels")
      .def(nb::init<nb::object, nb::sequence, std::int64_t, std::shared_ptr<halo::MessageTags>, double>(),
           nb::arg("library"), nb::arg("rounds"), nb::arg("rank"), nb::arg("tags"), nb::arg("timeout_s"))
      .def("exchange_digests", &PythonChannels::exchange_digests, nb::arg("mine"))
      .def("post_receives", &PythonChannels::post_receives, nb::arg("slot"), nb::arg("phase"), nb::arg("stream").none())
      .def("send", &PythonChannels::send, nb::arg("slot"), nb::arg("phase"), nb::arg("stream").none())
      .def("wait_received", &PythonChannels::wait_received, nb::arg("slot"), nb::arg("phase"), nb::arg("stream").none())
      .def("wait_sent", &PythonChannels::wait_sent, nb::arg("slot"), nb::arg("phase"), nb::arg("stream").none())
      .def("close", &PythonChannels::close);
}

}  // namespace damacy::python
