// Channels of halo exchanges as Python's steps call them, and the buffers of their messages. Decides nothing.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "bindings.h"
#include "damacy/device/device.h"
#include "damacy/halo/exchange_copies.h"
#include "damacy/halo/exchange_plan.h"
#include "damacy/halo/message_memory.h"
#include "damacy/halo/transport.h"
#include "halo_queue.h"

namespace damacy::python {

// The messages of an exchanger. They have no memory before its transport is opened, which says where it takes them.
class PythonRounds {
 public:
  // `device`: of the arrays; none: the host. `current_stream`: a function that gives the handle of the stream on which
  // the arrays' library works there; or None.
  PythonRounds(std::shared_ptr<const halo::ExchangePlan> plan, int slots, std::optional<int> device,
               nb::object current_stream, std::shared_ptr<LazyStreams> lazy);

  PythonRounds(const PythonRounds&) = delete;
  PythonRounds& operator=(const PythonRounds&) = delete;

  // `in_stream_order`: the transport takes messages where they are packed.
  halo::Rounds allocate(bool in_stream_order);
  halo::RoundMemory& at(int slot, int phase) { return memory_.value().at(slot, phase); }

  // (of messages that are sent, of those that are received): bytes by peer
  nb::tuple message_bytes(std::size_t phase) const;
  // Of each phase, what packs and what unpacks; None if there is nothing to copy.
  nb::list bind(int slot, const halo::Addresses& arrays);

  const std::shared_ptr<const halo::ExchangePlan> plan;
  const int slots;
  const std::optional<int> device;
  const nb::object current_stream;
  const std::shared_ptr<LazyStreams> lazy;
  const std::shared_ptr<Device> memory_of;  // the device; null: the host

 private:
  static constexpr std::size_t kMostMade = 32;

  halo::ExchangeCopies copies_;
  std::optional<halo::ExchangeMemory> memory_;
  std::map<halo::ExchangeCopies::Phases, nb::list> made_;  // of the same phases the same objects: they cost time
};

// Who sends messages that are packed on a device.
enum class Sends {
  from_host,  // copies in host memory
  on_device,  // the transport, in device memory, when the host has waited for the stream
  in_order,   // the transport, in the order of the stream
};

class PythonChannels {
 public:
  // `rounds`: a PythonRounds, which is kept. `device`: that has the messages; null: the host.
  PythonChannels(std::unique_ptr<halo::Channels> channels, nb::object rounds, std::shared_ptr<Device> device,
                 Sends sends);
  PythonChannels(PythonChannels&&) = default;
  PythonChannels& operator=(PythonChannels&&) = delete;
  ~PythonChannels() { close(); }

  nb::dict exchange_digests(const nb::dict& mine);
  void post_receives(int slot, int phase, nb::handle stream);
  void send(int slot, int phase, nb::handle stream);
  void wait_received(int slot, int phase, nb::handle stream);
  void wait_sent(int slot, int phase, nb::handle stream);
  void close();

 private:
  PythonRounds& rounds() const { return nb::cast<PythonRounds&>(rounds_); }
  Stream& borrow(nb::handle stream);

  nb::object rounds_;
  std::shared_ptr<Device> device_;
  Sends sends_;
  BorrowedStreams streams_;
  std::unique_ptr<halo::Channels> channels_;
};

}  // namespace damacy::python
