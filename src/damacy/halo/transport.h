// How messages between ranks travel: an interface of few functions, so that the library needs no message-passing
// library. Local, below, is for ranks of one process, NcclTransport for GPUs; damacy/halo/mpi.h for ranks of MPI.
// Knows ranks and bytes; not what a message has.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "damacy/device/device.h"

namespace damacy::halo {

// Identifies the contents of a message: both ends have equal digests if they agree on fields, types, wire and order.
using Digest = std::array<std::uint64_t, 4>;
using Digests = std::pair<Digest, Digest>;  // of the message that is sent, and of the one that is expected

// Throws Error(inval, kMisuse) unless the peer sends what this rank expects, and expects what this rank sends.
void check_digests(std::int64_t rank, std::int64_t peer, const Digests& mine, const Digests& theirs);

// The buffers of one phase of one exchange, by peer: in host memory, or in that of the device for a transport that
// sends in stream order. They live until close().
struct Round {
  std::map<std::int64_t, std::span<std::byte>> send;
  std::map<std::int64_t, std::span<std::byte>> receive;
};
using Rounds = std::vector<std::vector<Round>>;  // by slot, then by phase; exchanges in flight have different slots

// The messages of one rank. One thread at a time calls. Of one phase, the n-th message to a peer is the n-th that the
// peer expects, although both may use different slots.
class Channels {
 public:
  virtual ~Channels() = default;
  // The digests of the peers that are known; all of `mine`, unless the transport compares later by itself.
  virtual std::map<std::int64_t, Digests> exchange_digests(const std::map<std::int64_t, Digests>& mine) = 0;
  // May be called again for an exchange that has not sent; the receives then stay posted.
  virtual void post_receives(int slot, int phase) = 0;
  virtual void send(int slot, int phase) = 0;
  virtual void wait_received(int slot, int phase) = 0;
  virtual void wait_sent(int slot, int phase) = 0;
  // Of transports that send in stream order, instead of the four above. Later work of the stream waits, not the host:
  // before_pack() waits for the last use of the slot's buffers, exchange() sends and receives, before_unpack() waits
  // for what it received, after_unpack() ends the use of the buffers. The stream may be another one in each call.
  virtual void before_pack(Stream& stream, int slot, int phase);
  virtual void exchange(Stream& stream, int slot, int phase);
  virtual void before_unpack(Stream& stream, int slot, int phase);
  virtual void after_unpack(Stream& stream, int slot, int phase);
  // Cancels messages in flight. False if buffers may still be used: they are then never freed.
  virtual bool close() noexcept = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  // Whether messages go from device memory to device memory, as work of the caller's stream.
  virtual bool sends_in_stream_order() const noexcept { return false; }
  virtual std::unique_ptr<Channels> open(std::int64_t rank, Rounds rounds) = 0;
};

// For `n` ranks of one process: the exchangers of all ranks open the same Local. One thread may start the exchanges of
// all ranks and then finish them. With a thread for each rank, exchange() works too. Messages are copies.
class Local final : public Transport {
 public:
  // A rank that waits longer than `timeout` for a message throws Error(io).
  explicit Local(int n, std::chrono::milliseconds timeout = std::chrono::seconds(60));
  ~Local() override;
  std::unique_ptr<Channels> open(std::int64_t rank, Rounds rounds) override;
  // For buffers in the device's memory: the calls with a stream, which send in its order. The host waits only for a
  // message that has not been sent yet. Messages of a graph stay allocated until the channels of both ranks are freed.
  std::unique_ptr<Channels> open(std::shared_ptr<Device> device, std::int64_t rank, Rounds rounds);
  std::size_t waiting() const;  // messages that were sent and not yet received

 private:
  struct State;
  class Buffers;
  class HostBuffers;
  class DeviceBuffers;
  class LocalChannels;
  std::unique_ptr<Channels> open(std::int64_t rank, std::unique_ptr<Buffers> buffers);
  std::shared_ptr<State> state_;
};

// -- between GPUs --

// Names a communicator. Rank 0 makes it, and all ranks need it.
using NcclId = std::array<std::byte, 128>;

struct NcclOptions {
  std::string library = {};  // a file; "": DAMACY_LIBNCCL if that is set, else libnccl.so.2
  // A transport throws Error(io) if another rank does not construct its own in this time, and an exchanger if a peer
  // does not. The transport is of no use afterwards; NCCL may keep a thread of this rank.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

// NCCL is loaded at run time: messages go from the memory of one GPU to that of another, in the order of the caller's
// stream. The host does not wait, and exchanges can be captured in a CUDA graph.
//
//   NcclTransport transport(device, rank, ranks, [&](NcclId& id) { MPI_Bcast(id.data(), 128, MPI_BYTE, 0, comm); });
//   Exchanger exchanger(plan, transport, {.device = device});
//   exchanger.exchange(stream, {data});
//
// All ranks start their exchanges in the same order, also of different exchangers, because these share a communicator.
// Between ranks of one process that use one GPU each, threads start them.
class NcclTransport final : public Transport {
 public:
  // Called once on every rank: afterwards `id` is that of rank 0.
  using Broadcast = std::function<void(NcclId& id)>;

  // Collective, and waits for all ranks, as long as the timeout says. Throws Error(inval) with reason kNoNccl if NCCL
  // cannot be loaded on this rank or on rank 0; Error(io) with kNcclFailed and the name of the call if NCCL fails.
  NcclTransport(std::shared_ptr<Device> device, std::int64_t rank, std::int64_t ranks, const Broadcast& broadcast,
                const NcclOptions& options = {});
  // Of the last of transport and exchangers; waits for the other ranks of this machine, if NCCL does.
  ~NcclTransport() override;

  bool sends_in_stream_order() const noexcept override { return true; }
  std::unique_ptr<Channels> open(std::int64_t rank, Rounds rounds) override;

 private:
  class Comm;
  class NcclChannels;
  std::shared_ptr<Comm> comm_;
};

}  // namespace damacy::halo
