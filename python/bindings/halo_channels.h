// Channels of halo exchanges as Python's steps call them. Messages are in buffers of Python. Decides nothing.
#pragma once

#include <map>
#include <memory>

#include "bindings.h"
#include "damacy/device/device.h"
#include "damacy/halo/transport.h"

namespace damacy::python {

// Rounds have `places`: address and bytes by peer, of what is sent and of what is received.
halo::Rounds rounds_of(nb::handle rounds);

class PythonChannels {
 public:
  // `rounds`: with the buffers, which are kept.
  PythonChannels(std::unique_ptr<halo::Channels> channels, nb::object rounds)
      : rounds_(std::move(rounds)), channels_(std::move(channels)) {}
  // In memory of the device, in the order of a stream: the one of a call, or the current one of `like`, a buffer.
  PythonChannels(std::unique_ptr<halo::Channels> channels, nb::object rounds, std::shared_ptr<Device> device,
                 nb::handle like);

  nb::dict exchange_digests(const nb::dict& mine);
  void post_receives(int slot, int phase, nb::handle stream);
  void send(int slot, int phase, nb::handle stream);
  void wait_received(int slot, int phase, nb::handle stream);
  void wait_sent(int slot, int phase, nb::handle stream);
  bool close();

 private:
  Stream& borrow(nb::handle stream);

  nb::object rounds_;
  std::shared_ptr<Device> device_;  // null: the host waits for messages
  nb::object current_;              // gives the handle of a stream
  std::map<std::uint64_t, std::unique_ptr<Stream>> streams_;
  std::unique_ptr<halo::Channels> channels_;
};

}  // namespace damacy::python
