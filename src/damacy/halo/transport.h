// How messages between ranks travel: an interface of few functions, so that the library needs no message-passing
// library. Local, below, is for ranks of one process; damacy/halo/mpi.h for ranks of MPI. Knows ranks and bytes; not
// what a message has.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace damacy::halo {

// Identifies the contents of a message: both ends have equal digests if they agree on fields, types, wire and order.
using Digest = std::array<std::uint64_t, 4>;
using Digests = std::pair<Digest, Digest>;  // of the message that is sent, and of the one that is expected

// The buffers of one phase of one exchange, by peer, in host memory. They live until close().
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
  // Cancels messages in flight. False if send buffers may still be read: they are then never freed.
  virtual bool close() noexcept = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
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

 private:
  struct State;
  class LocalChannels;
  std::shared_ptr<State> state_;
};

}  // namespace damacy::halo
