// Channels over the requests of a message-passing library: which tag a message has, which requests are started when,
// and how long the digests of peers are waited for. Knows ranks, tags and bytes; not the library.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "damacy/halo/transport.h"

namespace damacy::halo {

// The tags of the messages of one phase.
struct Tags {
  std::map<std::int64_t, int> send;  // by peer
  int receive = 0;                   // of those from all peers
};

class MessageTags;  // those of the exchangers of one transport

// Those that every MPI allows; the highest one is that of digests.
[[nodiscard]] std::shared_ptr<MessageTags> mpi_tags();

// One message to each of some peers, and one from each. They may be sent again and again.
class Requests {
 public:
  virtual ~Requests() = default;
  virtual void post() = 0;  // starts the receives
  virtual void send() = 0;
  virtual void wait_received() = 0;
  virtual void wait_sent() = 0;
  // The peers whose messages have not arrived. A library that cannot ask waits, at most for the timeout.
  virtual std::vector<std::int64_t> missing() = 0;
  // Cancels messages in flight. False if the library may still read what was sent.
  virtual bool cancel() noexcept = 0;
};

class MessageLibrary {
 public:
  virtual ~MessageLibrary() = default;
  // Of the buffers of one phase.
  virtual std::unique_ptr<Requests> messages(int slot, int phase, const Tags& tags) = 0;
  virtual std::unique_ptr<Requests> digests(Round round, const Tags& tags) = 0;
  // Messages may stay in the library that no peer will receive.
  virtual void leave_messages() noexcept {}
};

struct MessageOptions {
  std::shared_ptr<MessageTags> tags;
  // Of all peers' digests.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

// MPI and its like match messages of one tag in the order in which requests are started. That order is the same on all
// ranks, although ranks may use different slots. Peers tell each other their tags with the digests.
class MessageChannels final : public Channels {
 public:
  // `slots`, `phases`: how many there are.
  MessageChannels(std::unique_ptr<MessageLibrary> library, std::int64_t rank, int slots, int phases,
                  const MessageOptions& options);
  MessageChannels(const MessageChannels&) = delete;
  MessageChannels& operator=(const MessageChannels&) = delete;
  ~MessageChannels() override;

  // Once, before all others. Throws Error(io, kMisuse), with the ranks, if peers do not send theirs before the timeout.
  std::map<std::int64_t, Digests> exchange_digests(const std::map<std::int64_t, Digests>& mine) override;
  // Does nothing for a retry: the receives of the failed exchange stay posted, because cancelling one that has matched
  // a message would lose the message.
  void post_receives(int slot, int phase) override;
  void send(int slot, int phase) override;
  void wait_received(int slot, int phase) override { at(slot, phase).wait_received(); }
  void wait_sent(int slot, int phase) override { at(slot, phase).wait_sent(); }
  bool close() noexcept override;

 private:
  using DigestsOfPeers = std::map<std::int64_t, Digests>;

  struct Announced {
    Digest sent, expected;
    std::int64_t first_tag;  // of what the rank receives; each later phase has the next one
  };
  // What the library may read and write until the digests are exchanged.
  struct DigestMessages {
    std::map<std::int64_t, Announced> sent, received;
    std::unique_ptr<Requests> requests;
    DigestMessages* next = nullptr;  // of those that are never freed
  };

  std::map<std::int64_t, Announced> announce(const DigestsOfPeers& mine);
  Requests& at(int slot, int phase) const;
  void wait_for_digests(Requests& requests) const;
  static void keep_for_ever(std::unique_ptr<DigestMessages> digests) noexcept;
  void end_digests() noexcept;

  const std::unique_ptr<MessageLibrary> library_;
  const std::int64_t rank_;
  const int slots_, phases_;
  const MessageOptions options_;
  std::optional<int> first_tag_;                                  // until close()
  std::vector<std::vector<std::unique_ptr<Requests>>> requests_;  // by slot, then by phase
  std::set<std::pair<int, int>> posted_;                          // slot and phase of receives before their send()
  std::unique_ptr<DigestMessages> digests_;
};

}  // namespace damacy::halo
