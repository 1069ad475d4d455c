// The transport within a process. A message is a copy, under the number of its exchange; nothing waits to send.
#include "damacy/halo/transport.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/halo/buffer_pool.h"
#include "damacy/halo/in_flight.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {

namespace {

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

// The buffers of one rank, and how its messages are copied.
class Local::Buffers {
 public:
  // A copy of a buffer.
  struct Copy {
    virtual ~Copy() = default;
  };
  using Message = std::shared_ptr<Copy>;

  Buffers(std::int64_t rank, Rounds rounds) : rank_(rank), rounds_(std::move(rounds)) {}
  virtual ~Buffers() = default;
  // `stream`: null in host memory.
  virtual std::map<std::int64_t, Message> copies(Stream* stream, int slot, int phase) = 0;  // of what is sent, by peer
  virtual void place(Stream* stream, int slot, int phase, std::int64_t sender, const Message& message) = 0;
  // Later work of the stream comes after the last use() of the buffers.
  virtual void follow(Stream*, int, int) {}
  virtual void use(Stream*, int, int) {}

  const Round& round(int slot, int phase) const {
    return rounds_.at(static_cast<std::size_t>(slot)).at(static_cast<std::size_t>(phase));
  }

 protected:
  std::span<std::byte> receiving(int slot, int phase, std::int64_t sender, std::size_t bytes) const {
    const auto buffer = round(slot, phase).receive.at(sender);
    if (bytes != buffer.size())
      throw Error(Status::inval,
                  formatted("rank {} got {} bytes from rank {}, expected {}", rank_, bytes, sender, buffer.size()),
                  kMisuse);
    return buffer;
  }
  // Throws unless the sender has its arrays where this rank has them.
  template <class Made>
  std::shared_ptr<Made> made_by(std::int64_t sender, const Message& message) const {
    auto made = std::dynamic_pointer_cast<Made>(message);
    if (made == nullptr)
      throw Error(
          Status::inval,
          formatted("rank {} and rank {} have arrays in memory of different kinds: expected both on the host, or "
                    "both on a device",
                    rank_, sender),
          kMisuse);
    return made;
  }

 private:
  const std::int64_t rank_;
  const Rounds rounds_;
};

class Local::HostBuffers final : public Buffers {
 public:
  using Buffers::Buffers;

  std::map<std::int64_t, Message> copies(Stream*, int slot, int phase) override {
    std::map<std::int64_t, Message> out;
    for (const auto& [peer, buffer] : round(slot, phase).send) out[peer] = std::make_shared<HostCopy>(buffer);
    return out;
  }

  void place(Stream*, int slot, int phase, std::int64_t sender, const Message& message) override {
    const auto copy = made_by<HostCopy>(sender, message);
    std::copy(copy->bytes.begin(), copy->bytes.end(), receiving(slot, phase, sender, copy->bytes.size()).begin());
  }

 private:
  struct HostCopy final : Copy {
    explicit HostCopy(std::span<const std::byte> buffer) : bytes(buffer.begin(), buffer.end()) {}
    const std::vector<std::byte> bytes;
  };
};

// Work that a graph captures is ordered within the graph: it must not wait for work outside of it, nor the other way
// round.
class Local::DeviceBuffers final : public Buffers {
 public:
  DeviceBuffers(std::shared_ptr<Device> device, std::int64_t rank, Rounds rounds)
      : Buffers(rank, std::move(rounds)), device_(std::move(device)) {}

  std::map<std::int64_t, Message> copies(Stream* stream, int slot, int phase) override {
    std::map<std::int64_t, std::shared_ptr<DeviceCopy>> made;
    const bool capturing = stream->is_capturing();
    for (const auto& [peer, buffer] : round(slot, phase).send) {
      const auto copy = made[peer] = std::make_shared<DeviceCopy>(idle_, idle_->take(device_, buffer.size()));
      if (!capturing) stream->wait(copy->buffer.last_use);
      if (!buffer.empty()) stream->copy(copy->buffer.bytes(), buffer);
    }
    const Mark sent = mark(*stream);
    for (const auto& [peer, copy] : made) {
      copy->sent = sent;
      keep(copy, sent);
    }
    return {made.begin(), made.end()};
  }

  void place(Stream* stream, int slot, int phase, std::int64_t sender, const Message& message) override {
    const auto copy = made_by<DeviceCopy>(sender, message);
    const auto buffer = receiving(slot, phase, sender, copy->buffer.bytes().size());
    wait(*stream, copy->sent);
    if (!buffer.empty()) stream->copy(buffer, copy->buffer.bytes());
    keep(copy, mark(*stream));
  }

  void follow(Stream* stream, int slot, int phase) override {
    if (const auto last = last_use_.find({slot, phase}); last != last_use_.end()) wait(*stream, last->second);
  }
  void use(Stream* stream, int slot, int phase) override { last_use_[{slot, phase}] = mark(*stream); }

 private:
  // A point in a stream's work.
  struct Mark {
    Event event;
    bool is_captured = false;
  };
  // Returns its memory for the rank's next messages.
  struct DeviceCopy final : Copy {
    DeviceCopy(std::shared_ptr<BufferPool> from, MessageBuffer memory)
        : idle(std::move(from)), buffer(std::move(memory)) {}
    DeviceCopy(const DeviceCopy&) = delete;
    DeviceCopy& operator=(const DeviceCopy&) = delete;
    ~DeviceCopy() override {
      (void)failure_of([this] { idle->give(std::move(buffer)); });
    }

    const std::shared_ptr<BufferPool> idle;
    MessageBuffer buffer;
    Mark sent;
  };

  // Until that use; a graph uses it each time that it runs.
  void keep(const std::shared_ptr<DeviceCopy>& copy, const Mark& used) {
    if (used.is_captured)
      captured_.push_back(copy);
    else
      copy->buffer.last_use = used.event;
  }
  static Mark mark(Stream& stream) { return {stream.record(), stream.is_capturing()}; }
  static void wait(Stream& stream, const Mark& mark) {
    if (mark.is_captured == stream.is_capturing()) stream.wait(mark.event);
  }

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<BufferPool> idle_ = std::make_shared<BufferPool>(std::numeric_limits<std::size_t>::max());
  std::vector<std::shared_ptr<DeviceCopy>> captured_;
  std::map<std::pair<int, int>, Mark> last_use_;  // by slot and phase
};

struct Local::State {
  using Address = std::tuple<std::int64_t, std::int64_t, std::int64_t, int, std::int64_t>;
  using Peers = std::map<std::int64_t, Digests>;

  State(int count, std::chrono::milliseconds most) : size(count), timeout(most) {}

  const std::int64_t size;
  const std::chrono::milliseconds timeout;
  Mutex mutex;
  Condition changed;
  // Messages that were sent and not yet received: generation, sender, receiver, phase, number.
  std::map<Address, Buffers::Message> mail DAMACY_GUARDED_BY(mutex);
  // Digests of open exchangers, for their peers, by rank and generation.
  std::map<std::pair<std::int64_t, std::int64_t>, Peers> digests DAMACY_GUARDED_BY(mutex);
  std::map<std::int64_t, std::int64_t> opened DAMACY_GUARDED_BY(mutex);
};

class Local::LocalChannels final : public Channels {
 public:
  LocalChannels(std::shared_ptr<State> state, std::int64_t rank, std::int64_t generation,
                std::unique_ptr<Buffers> buffers)
      : state_(std::move(state)), rank_(rank), generation_(generation), buffers_(std::move(buffers)) {}

  std::map<std::int64_t, Digests> exchange_digests(const std::map<std::int64_t, Digests>& mine) override {
    mine_ = mine;
    const Lock lock(state_->mutex);
    state_->digests[{rank_, generation_}] = mine;
    state_->changed.notify_all();
    return known();
  }

  void post_receives(int slot, int phase) override { start(nullptr, slot, phase); }
  void send(int slot, int phase) override { put(nullptr, slot, phase); }
  void wait_received(int slot, int phase) override { get(nullptr, slot, phase); }
  void wait_sent(int slot, int phase) override { buffers_->use(nullptr, slot, phase); }  // messages are copies

  void before_pack(Stream& stream, int slot, int phase) override { start(&stream, slot, phase); }
  void exchange(Stream& stream, int slot, int phase) override { put(&stream, slot, phase); }
  void before_unpack(Stream& stream, int slot, int phase) override { get(&stream, slot, phase); }
  void after_unpack(Stream& stream, int slot, int phase) override { buffers_->use(&stream, slot, phase); }

  bool close() noexcept override {
    if (agreed_) {  // otherwise the digests stay, so that peers that open or exchange later see a mismatch
      const Lock lock(state_->mutex);
      state_->digests.erase({rank_, generation_});
    }
    return true;
  }

 private:
  void start(Stream* stream, int slot, int phase) {
    {
      const Lock lock(state_->mutex);
      check();
    }
    numbers_.post(slot, phase);
    buffers_->follow(stream, slot, phase);
  }

  void put(Stream* stream, int slot, int phase) {
    numbers_.send(phase);
    auto messages = buffers_->copies(stream, slot, phase);
    buffers_->use(stream, slot, phase);
    const Lock lock(state_->mutex);
    for (auto& [peer, message] : messages) state_->mail[address(rank_, peer, slot, phase)] = std::move(message);
    state_->changed.notify_all();
  }

  void get(Stream* stream, int slot, int phase) {
    buffers_->follow(stream, slot, phase);
    for (const auto& [peer, buffer] : buffers_->round(slot, phase).receive)
      buffers_->place(stream, slot, phase, peer, received(peer, address(peer, rank_, slot, phase)));
  }

  Buffers::Message received(std::int64_t peer, const State::Address& from) {
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
  const std::unique_ptr<Buffers> buffers_;
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

std::unique_ptr<Channels> Local::open(std::shared_ptr<Device> device, std::int64_t rank, Rounds rounds) {
  return open(rank, std::make_unique<DeviceBuffers>(std::move(device), rank, std::move(rounds)));
}

std::unique_ptr<Channels> Local::open(std::int64_t rank, std::unique_ptr<Buffers> buffers) {
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
