// The transport within a process. A message is a copy, under the number of its exchange; nothing waits to send.
#include "damacy/halo/transport.h"

#include <algorithm>
#include <tuple>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/halo/in_flight.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {

namespace {

class HostBuffers final : public LocalBuffers {
 public:
  HostBuffers(std::int64_t rank, Rounds rounds) : rank_(rank), rounds_(std::move(rounds)) {}

  std::map<std::int64_t, Message> copies(int slot, int phase) override {
    std::map<std::int64_t, Message> out;
    for (const auto& [peer, buffer] : round(slot, phase).send)
      out[peer] = std::make_shared<std::vector<std::byte>>(buffer.begin(), buffer.end());
    return out;
  }

  std::vector<std::int64_t> senders(int slot, int phase) const override {
    std::vector<std::int64_t> out;
    for (const auto& [peer, buffer] : round(slot, phase).receive) out.push_back(peer);
    return out;
  }

  void place(int slot, int phase, std::int64_t sender, const Message& message) override {
    const auto& bytes = *static_cast<const std::vector<std::byte>*>(message.get());
    const auto buffer = round(slot, phase).receive.at(sender);
    if (bytes.size() != buffer.size())
      throw Error(
          Status::inval,
          formatted("rank {} got {} bytes from rank {}, expected {}", rank_, bytes.size(), sender, buffer.size()),
          kMisuse);
    std::copy(bytes.begin(), bytes.end(), buffer.begin());
  }

 private:
  const Round& round(int slot, int phase) const {
    return rounds_.at(static_cast<std::size_t>(slot)).at(static_cast<std::size_t>(phase));
  }

  const std::int64_t rank_;
  const Rounds rounds_;
};

[[noreturn]] void refuse_stream() {
  throw Error(Status::inval, "this transport does not send in the order of a stream", kUnsupported);
}

}  // namespace

void check_digests(std::int64_t rank, std::int64_t peer, const Digests& mine, const Digests& theirs) {
  if (mine.first != theirs.second || mine.second != theirs.first)
    throw Error(Status::inval,
                formatted("rank {} and rank {} do not agree on fields, types, wire or links", rank, peer), kMisuse);
}

void Channels::before_pack(Stream&, int, int) {
  refuse_stream();
}

void Channels::exchange(Stream&, int, int) {
  refuse_stream();
}

void Channels::before_unpack(Stream&, int, int) {
  refuse_stream();
}

void Channels::after_unpack(Stream&, int, int) {
  refuse_stream();
}

struct Local::State {
  using Address = std::tuple<std::int64_t, std::int64_t, std::int64_t, int, std::int64_t>;
  using Peers = std::map<std::int64_t, Digests>;

  State(int count, std::chrono::milliseconds most) : size(count), timeout(most) {}

  const std::int64_t size;
  const std::chrono::milliseconds timeout;
  Mutex mutex;
  Condition changed;
  // Messages that were sent and not yet received: generation, sender, receiver, phase, number.
  std::map<Address, LocalBuffers::Message> mail DAMACY_GUARDED_BY(mutex);
  // Digests of open exchangers, for their peers, by rank and generation.
  std::map<std::pair<std::int64_t, std::int64_t>, Peers> digests DAMACY_GUARDED_BY(mutex);
  std::map<std::int64_t, std::int64_t> opened DAMACY_GUARDED_BY(mutex);
};

class Local::LocalChannels final : public Channels {
 public:
  LocalChannels(std::shared_ptr<State> state, std::int64_t rank, std::int64_t generation,
                std::unique_ptr<LocalBuffers> buffers)
      : state_(std::move(state)), rank_(rank), generation_(generation), buffers_(std::move(buffers)) {}

  std::map<std::int64_t, Digests> exchange_digests(const std::map<std::int64_t, Digests>& mine) override {
    mine_ = mine;
    const Lock lock(state_->mutex);
    state_->digests[{rank_, generation_}] = mine;
    state_->changed.notify_all();
    return known();
  }

  void post_receives(int slot, int phase) override {
    {
      const Lock lock(state_->mutex);
      check();
    }
    numbers_.post(slot, phase);
    buffers_->follow(slot, phase);
  }

  void send(int slot, int phase) override {
    numbers_.send(phase);
    auto messages = buffers_->copies(slot, phase);
    buffers_->use(slot, phase);
    const Lock lock(state_->mutex);
    for (auto& [peer, message] : messages) state_->mail[address(rank_, peer, slot, phase)] = std::move(message);
    state_->changed.notify_all();
  }

  void wait_received(int slot, int phase) override {
    buffers_->follow(slot, phase);
    for (const auto peer : buffers_->senders(slot, phase))
      buffers_->place(slot, phase, peer, received(peer, address(peer, rank_, slot, phase)));
  }

  void wait_sent(int slot, int phase) override { buffers_->use(slot, phase); }  // messages are copies

  bool close() noexcept override {
    buffers_->close();
    if (agreed_) {  // otherwise the digests stay, so that peers that open or exchange later see a mismatch
      const Lock lock(state_->mutex);
      state_->digests.erase({rank_, generation_});
    }
    return true;
  }

 private:
  LocalBuffers::Message received(std::int64_t peer, const State::Address& from) {
    Lock lock(state_->mutex);
    const bool arrived = state_->changed.wait_for(lock, state_->timeout, [&]() DAMACY_REQUIRES(state_->mutex) {
      check();
      return state_->mail.contains(from);
    });
    if (!arrived)
      throw Error(Status::io,
                  formatted("rank {} timed out after {} s: no message from rank {}", rank_,
                            static_cast<double>(state_->timeout.count()) / 1000, peer),
                  kMisuse);
    return std::move(state_->mail.extract(from).mapped());
  }

  State::Address address(std::int64_t source, std::int64_t target, int slot, int phase) const {
    return {generation_, source, target, phase, numbers_.of(slot, phase)};
  }

  std::map<std::int64_t, Digests> known() const DAMACY_REQUIRES(state_->mutex) {
    std::map<std::int64_t, Digests> out;
    for (const auto& [peer, own] : mine_) {
      const auto theirs = state_->digests.find({peer, generation_});
      if (theirs == state_->digests.end()) continue;
      const auto to_us = theirs->second.find(rank_);
      out[peer] = to_us == theirs->second.end() ? Digests() : to_us->second;
    }
    return out;
  }

  // Throws if a peer's digests are known and differ.
  void check() DAMACY_REQUIRES(state_->mutex) {
    if (agreed_) return;
    const auto theirs = known();
    for (const auto& [peer, digests] : theirs) check_digests(rank_, peer, mine_.at(peer), digests);
    agreed_ = theirs.size() == mine_.size();
  }

  const std::shared_ptr<State> state_;
  const std::int64_t rank_;
  const std::int64_t generation_;  // how many exchangers this rank had opened before
  const std::unique_ptr<LocalBuffers> buffers_;
  std::map<std::int64_t, Digests> mine_;
  bool agreed_ = false;
  MessageNumbers numbers_;
};

Local::Local(int n, std::chrono::milliseconds timeout) : state_(std::make_shared<State>(n, timeout)) {
  if (n < 1) throw Error(Status::inval, formatted("{} ranks", n));
}

Local::~Local() = default;

std::unique_ptr<Channels> Local::open(std::int64_t rank, Rounds rounds) {
  return open(rank, std::make_unique<HostBuffers>(rank, std::move(rounds)));
}

std::unique_ptr<Channels> Local::open(std::int64_t rank, std::unique_ptr<LocalBuffers> buffers) {
  if (rank < 0 || rank >= state_->size) throw Error(Status::inval, formatted("rank {} of {}", rank, state_->size));
  std::int64_t generation = 0;
  {
    const Lock lock(state_->mutex);
    generation = state_->opened[rank]++;
  }
  return std::make_unique<LocalChannels>(state_, rank, generation, std::move(buffers));
}

std::size_t Local::waiting() const {
  const Lock lock(state_->mutex);
  return state_->mail.size();
}

}  // namespace damacy::halo
