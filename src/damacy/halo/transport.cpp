// The transport within a process. A message is a copy, under the number of its exchange; nothing waits to send.
#include "damacy/halo/transport.h"

#include <algorithm>
#include <tuple>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {

struct Local::State {
  using Address = std::tuple<std::int64_t, std::int64_t, std::int64_t, int, std::int64_t>;
  using Peers = std::map<std::int64_t, Digests>;

  State(int count, std::chrono::milliseconds most) : size(count), timeout(most) {}

  const std::int64_t size;
  const std::chrono::milliseconds timeout;
  Mutex mutex;
  Condition changed;
  // Messages that were sent and not yet received: generation, sender, receiver, phase, number.
  std::map<Address, std::vector<std::byte>> mail DAMACY_GUARDED_BY(mutex);
  // Digests of open exchangers, for their peers, by rank and generation.
  std::map<std::pair<std::int64_t, std::int64_t>, Peers> digests DAMACY_GUARDED_BY(mutex);
  std::map<std::int64_t, std::int64_t> opened DAMACY_GUARDED_BY(mutex);
};

class Local::LocalChannels final : public Channels {
 public:
  LocalChannels(std::shared_ptr<State> state, std::int64_t rank, std::int64_t generation, Rounds rounds)
      : state_(std::move(state)), rank_(rank), generation_(generation), rounds_(std::move(rounds)) {}

  std::map<std::int64_t, Digests> exchange_digests(const std::map<std::int64_t, Digests>& mine) override {
    mine_ = mine;
    const Lock lock(state_->mutex);
    state_->digests[{rank_, generation_}] = mine;
    state_->changed.notify_all();
    return known();
  }

  void post_receives(int slot, int phase) override {
    const Lock lock(state_->mutex);
    check();
    numbers_[{slot, phase}] = begun_[phase];
  }

  void send(int slot, int phase) override {
    ++begun_[phase];
    const Lock lock(state_->mutex);
    for (const auto& [peer, buffer] : round(slot, phase).send)
      state_->mail[address(rank_, peer, slot, phase)].assign(buffer.begin(), buffer.end());
    state_->changed.notify_all();
  }

  void wait_received(int slot, int phase) override {
    for (const auto& [peer, buffer] : round(slot, phase).receive) {
      const auto from = address(peer, rank_, slot, phase);
      std::vector<std::byte> message;
      {
        Lock lock(state_->mutex);
        const bool arrived = state_->changed.wait_for(lock, state_->timeout, [&]() DAMACY_REQUIRES(state_->mutex) {
          check();
          return state_->mail.contains(from);
        });
        if (!arrived)
          throw Error(
              Status::io,
              formatted("rank {} timed out after {} ms: no message from rank {}", rank_, state_->timeout.count(), peer),
              kMisuse);
        message = std::move(state_->mail.extract(from).mapped());
      }
      if (message.size() != buffer.size())
        throw Error(
            Status::inval,
            formatted("rank {} got {} bytes from rank {}, expected {}", rank_, message.size(), peer, buffer.size()),
            kMisuse);
      std::copy(message.begin(), message.end(), buffer.begin());
    }
  }

  void wait_sent(int, int) override {}  // messages are copies

  bool close() noexcept override {
    if (agreed_) {  // otherwise the digests stay, so that peers that open or exchange later see a mismatch
      const Lock lock(state_->mutex);
      state_->digests.erase({rank_, generation_});
    }
    return true;
  }

 private:
  const Round& round(int slot, int phase) const {
    return rounds_.at(static_cast<std::size_t>(slot)).at(static_cast<std::size_t>(phase));
  }

  State::Address address(std::int64_t source, std::int64_t target, int slot, int phase) const {
    return {generation_, source, target, phase, numbers_.at({slot, phase})};
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
    for (const auto& [peer, digests] : theirs) check_digests(peer, mine_.at(peer), digests);
    agreed_ = theirs.size() == mine_.size();
  }

  void check_digests(std::int64_t peer, const Digests& mine, const Digests& theirs) const {
    if (mine.first != theirs.second || mine.second != theirs.first)
      throw Error(Status::inval,
                  formatted("rank {} and rank {} do not agree on fields, types, wire or links", rank_, peer), kMisuse);
  }

  const std::shared_ptr<State> state_;
  const std::int64_t rank_;
  const std::int64_t generation_;  // how many exchangers this rank had opened before
  const Rounds rounds_;
  std::map<std::int64_t, Digests> mine_;
  bool agreed_ = false;
  std::map<int, std::int64_t> begun_;                    // exchanges sent, by phase
  std::map<std::pair<int, int>, std::int64_t> numbers_;  // of the current exchange, by slot and phase
};

Local::Local(int n, std::chrono::milliseconds timeout) : state_(std::make_shared<State>(n, timeout)) {
  if (n < 1) throw Error(Status::inval, formatted("{} ranks", n));
}

Local::~Local() = default;

std::unique_ptr<Channels> Local::open(std::int64_t rank, Rounds rounds) {
  if (rank < 0 || rank >= state_->size) throw Error(Status::inval, formatted("rank {} of {}", rank, state_->size));
  std::int64_t generation = 0;
  {
    const Lock lock(state_->mutex);
    generation = state_->opened[rank]++;
  }
  return std::make_unique<LocalChannels>(state_, rank, generation, std::move(rounds));
}

}  // namespace damacy::halo
