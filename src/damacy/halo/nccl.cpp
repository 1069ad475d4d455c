// All sends and receives of one phase are one group, enqueued as work of a stream: then the device's context is
// current, and on a host device, where a fake library plays NCCL, the group runs in the order of the stream.
//
// Making a communicator, and the first group of two ranks, wait on the host inside NCCL until the other ranks call too.
// Communicators that do not block would return earlier, but NCCL then starts a thread for every group. So the two calls
// that meet new ranks run within a deadline on a thread of their own, and all later groups on the caller's.
#include "damacy/halo/transport.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/core/thread.h"
#include "damacy/halo/detail/nccl_library.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {
namespace {

constexpr auto kLook = std::chrono::microseconds(200);  // how often an event is asked for
constexpr auto kGrace = std::chrono::seconds(1);        // for the end of a call that timed out

// A call that waits for other ranks, on its own thread.
class PeerCall {
 public:
  // Throws what `work` throws. Returns false if `work` does not end in time: then calls `on_late`, sets `is_late`, and
  // detaches the thread if `work` does not end soon. So `work` must own or share all that it uses.
  static bool run_within(std::chrono::milliseconds timeout, std::function<void(const std::atomic<bool>& is_late)> work,
                         const std::function<void()>& on_late) {
    const auto call = std::make_shared<PeerCall>();
    Thread thread = start([call, work = std::move(work)]() mutable {
      const auto failure = failure_of([&] { work(call->is_late_); });
      work = nullptr;
      call->end(failure);
    });
    if (call->ends_within(timeout)) {
      thread.join();
      const Lock lock(call->mutex_);
      if (call->failure_) throw *call->failure_;
      return true;
    }
    on_late();
    call->is_late_ = true;
    if (!call->ends_within(kGrace)) thread.leave_alone();
    return false;
  }

 private:
  template <class Body>
  static Thread start(Body body) {
    try {
      return Thread("damacy-peers", std::move(body));
    } catch (const std::system_error& error) {
      throw Error(Status::oom, formatted("cannot start a thread for NCCL: {}", std::string_view(error.what())),
                  "memory")
          .with_errno(error.code().value());
    }
  }
  bool ends_within(std::chrono::milliseconds most) {
    Lock lock(mutex_);
    return changed_.wait_for(lock, most, [this]() DAMACY_REQUIRES(mutex_) { return has_ended_; });
  }
  void end(const std::optional<Error>& failure) {
    const Lock lock(mutex_);
    failure_ = failure;
    has_ended_ = true;
    changed_.notify_all();
  }

  std::atomic<bool> is_late_{false};
  Mutex mutex_;
  Condition changed_;
  bool has_ended_ DAMACY_GUARDED_BY(mutex_) = false;
  std::optional<Error> failure_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace

class NcclTransport::Comm {
 public:
  Comm(std::shared_ptr<Device> device, std::int64_t rank, std::int64_t ranks, const NcclOptions& options,
       const NcclLibrary& library)
      : device_(std::move(device)), rank_(rank), ranks_(ranks), timeout_(options.timeout), library_(library) {}
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  // After a failure only an abort does not wait for messages that never come.
  ~Comm() {
    if (handle_ == nullptr) return;
    const Lock lock(mutex_);
    static_cast<void>(failure_.empty() ? library_().ncclCommDestroy(handle_) : library_().ncclCommAbort(handle_));
  }

  static void init(const std::shared_ptr<Comm>& comm, const NcclId& id) {
    comm->run_within_timeout([comm, id](const auto&) { comm->init(id); },
                             formatted("rank {} timed out after {} ms: not all of the {} ranks have constructed their "
                                       "NcclTransport",
                                       comm->rank_, comm->timeout_.count(), comm->ranks_));
  }

  // Throws Error(io) with `why` if `work` does not end in time.
  void run_within_timeout(std::function<void(const std::atomic<bool>& is_late)> work, const std::string& why) {
    if (!PeerCall::run_within(timeout_, std::move(work), [&] { fail(why); })) throw Error(Status::io, why, kMisuse);
  }

  Device& device() const noexcept { return *device_; }
  std::int64_t rank() const noexcept { return rank_; }
  std::chrono::milliseconds timeout() const noexcept { return timeout_; }

  // Throws what a group met before, or what NCCL met meanwhile.
  void check() {
    {
      const Lock lock(mutex_);
      if (!failure_.empty()) throw Error(Status::io, failure_, kNcclFailed);
    }
    int result = kNcclSuccess;
    library_.check(library_().ncclCommGetAsyncError(handle_, &result), "ncclCommGetAsyncError", rank_, handle_);
    if (result != kNcclInProgress) library_.check(result, "a send or receive of NCCL", rank_, handle_);
  }

  // Must not throw: it may run on a thread of the device.
  void group(const Round& round, std::uint64_t stream) noexcept {
    const char* call = "ncclGroupStart";
    int result = library_().ncclGroupStart();
    if (result == kNcclSuccess) {
      result = calls(round, reinterpret_cast<void*>(stream), call);
      const int ended = library_().ncclGroupEnd();  // also after a failure: groups are of the thread
      if (result == kNcclSuccess) result = ended, call = "ncclGroupEnd";
    }
    if (result != kNcclSuccess) fail(library_.failure_text(result, call, rank_, handle_));
  }

  // After a failure: no message of this communicator arrives any more, and its work on the device ends.
  void abort() {
    now([this] { static_cast<void>(library_().ncclCommAbort(std::exchange(handle_, nullptr))); });
  }

 private:
  // Runs `call` with the device's context current.
  void now(const std::function<void()>& call) const {
    const auto stream = device_->make_stream();
    stream->enqueue({call, [&](std::uint64_t) {
                       call();
                       return 0;
                     }});
    stream->record().wait();
  }

  int calls(const Round& round, void* stream, const char*& call) const noexcept {
    int result = kNcclSuccess;
    call = "ncclRecv";
    for (const auto& [peer, buffer] : round.receive)
      if (result == kNcclSuccess && !buffer.empty())
        result = library_().ncclRecv(buffer.data(), buffer.size(), kNcclUint8, static_cast<int>(peer), handle_, stream);
    if (result != kNcclSuccess) return result;
    call = "ncclSend";
    for (const auto& [peer, buffer] : round.send)
      if (result == kNcclSuccess && !buffer.empty())
        result = library_().ncclSend(buffer.data(), buffer.size(), kNcclUint8, static_cast<int>(peer), handle_, stream);
    return result;
  }

  void init(const NcclId& id) {
    int result = kNcclSuccess;
    now([&] {
      result = library_().ncclCommInitRank(&handle_, static_cast<int>(ranks_), id, static_cast<int>(rank_));
      if (result != kNcclSuccess) handle_ = nullptr;
    });
    library_.check(result, "ncclCommInitRank", rank_);
  }

  void fail(std::string why) noexcept {
    const Lock lock(mutex_);
    if (failure_.empty()) failure_ = std::move(why);
  }

  const std::shared_ptr<Device> device_;
  const std::int64_t rank_, ranks_;
  const std::chrono::milliseconds timeout_;
  const NcclLibrary& library_;
  NcclComm handle_ = nullptr;
  Mutex mutex_;
  std::string failure_ DAMACY_GUARDED_BY(mutex_);  // after it every call fails
};

class NcclTransport::NcclChannels final : public Channels {
 public:
  NcclChannels(std::shared_ptr<Comm> comm, Rounds rounds) : comm_(std::move(comm)) {
    for (auto& phases : rounds) {
      flights_.emplace_back();
      for (Round& round : phases) flights_.back().push_back({std::make_shared<Group>(comm_, std::move(round)), {}});
    }
  }

  std::map<std::int64_t, Digests> exchange_digests(const std::map<std::int64_t, Digests>& mine) override {
    if (mine.empty()) return {};
    std::string peers;
    for (const auto& [peer, digests] : mine) peers += formatted("{}{}", peers.empty() ? "" : ", ", peer);
    const auto exchange = std::make_shared<DigestExchange>(comm_, mine);
    comm_->run_within_timeout(
        [exchange](const auto& is_late) { exchange->run(is_late); },
        formatted("rank {} timed out after {} ms: not all of the ranks {} have exchangers with links to it. Every rank "
                  "must construct its exchanger, and every link needs its counterpart",
                  comm_->rank(), comm_->timeout().count(), peers));
    comm_->check();
    return exchange->received();
  }

  // A graph that captures the stream orders its own work, and must not wait for work outside of it.
  void before_pack(Stream& stream, int slot, int phase) override {
    if (!stream.is_capturing()) stream.wait(at(slot, phase).used);
  }

  void exchange(Stream& stream, int slot, int phase) override {
    Flight& flight = at(slot, phase);
    flight.group->enqueue(stream);
    if (!stream.is_capturing()) stream.record_again(flight.used);
  }

  void before_unpack(Stream& stream, int slot, int phase) override {
    if (!stream.is_capturing()) stream.wait(at(slot, phase).used);
  }

  // If nothing is packed the next time, this is what orders the receives after unpacking.
  void after_unpack(Stream& stream, int slot, int phase) override {
    if (!stream.is_capturing()) stream.record_again(at(slot, phase).used);
  }

  // Of transports that the host waits for.
  void post_receives(int, int) override {}
  void send(int, int) override {}
  void wait_received(int, int) override {}
  void wait_sent(int, int) override {}
  bool close() noexcept override {
    bool unused = true;
    const auto failure = failure_of([&] {
      for (const auto& phases : flights_)
        for (const Flight& flight : phases) unused = unused && flight.used.ready();
    });
    return unused && !failure;
  }

 private:
  struct Group : std::enable_shared_from_this<Group> {
    Group(std::shared_ptr<Comm> of, Round messages) : comm(std::move(of)), round(std::move(messages)) {}

    void enqueue(Stream& stream) {
      comm->check();
      if (round.send.empty() && round.receive.empty()) return;
      stream.enqueue({[group = shared_from_this()] { group->comm->group(group->round, 0); },
                      [this](std::uint64_t handle) {
                        comm->group(round, handle);
                        return 0;
                      }});
      comm->check();
    }

    const std::shared_ptr<Comm> comm;
    Round round;
  };
  // Sends this rank's digests to its peers, and receives theirs. Then the ranks are connected.
  class DigestExchange {
   public:
    DigestExchange(const std::shared_ptr<Comm>& comm, const std::map<std::int64_t, Digests>& mine)
        : group_(std::make_shared<Group>(comm, Round{})),
          half_(mine.size() * sizeof(Digests)),
          host_(comm->device().pinned_memory(), 2 * half_),
          memory_(comm->device().device_memory(), 2 * half_) {
      std::size_t at = 0;
      for (const auto& [peer, digests] : mine) {
        std::memcpy(host_.data() + at, &digests.first, sizeof digests.first);
        std::memcpy(host_.data() + at + sizeof digests.first, &digests.second, sizeof digests.second);
        group_->round.send[peer] = memory_.bytes().subspan(at, sizeof digests);
        group_->round.receive[peer] = memory_.bytes().subspan(half_ + at, sizeof digests);
        at += sizeof digests;
      }
    }

    void run(const std::atomic<bool>& is_late) {
      const auto stream = group_->comm->device().make_stream();
      stream->copy(memory_.bytes(), host_.bytes());
      group_->enqueue(*stream);
      stream->copy(host_.bytes(), memory_.bytes());
      const Event arrived = stream->record();
      while (!arrived.ready() && !is_late) std::this_thread::sleep_for(kLook);
      if (is_late) group_->comm->abort();
      arrived.wait();
    }

    std::map<std::int64_t, Digests> received() const {
      std::map<std::int64_t, Digests> theirs;
      for (const auto& [peer, buffer] : group_->round.receive) {
        const std::byte* const from = host_.data() + (buffer.data() - memory_.data());
        auto& [sent, expected] = theirs[peer];
        std::memcpy(&sent, from, sizeof sent);
        std::memcpy(&expected, from + sizeof sent, sizeof expected);
      }
      return theirs;
    }

   private:
    const std::shared_ptr<Group> group_;
    const std::size_t half_;
    HostBuffer host_, memory_;
  };
  // The messages of one phase in one slot.
  struct Flight {
    std::shared_ptr<Group> group;
    Event used;  // their buffers, for the last time so far
  };

  Flight& at(int slot, int phase) {
    return flights_.at(static_cast<std::size_t>(slot)).at(static_cast<std::size_t>(phase));
  }

  const std::shared_ptr<Comm> comm_;
  std::vector<std::vector<Flight>> flights_;  // by slot, then by phase
};

NcclTransport::NcclTransport(std::shared_ptr<Device> device, std::int64_t rank, std::int64_t ranks,
                             const Broadcast& broadcast, const NcclOptions& options) {
  if (device == nullptr) throw Error(Status::inval, "NCCL needs a device: pass that of the arrays", "arguments");
  if (ranks < 1 || ranks > 1 << 20 || rank < 0 || rank >= ranks)
    throw Error(Status::inval, formatted("rank {} of {}", rank, ranks));
  NcclId id{};
  const NcclLibrary* library = nullptr;
  const auto failure = failure_of([&] {
    library = &NcclLibrary::open(options.library);
    if (rank == 0) library->check((*library)().ncclGetUniqueId(&id), "ncclGetUniqueId", rank);
  });
  broadcast(id);  // also after a failure: the other ranks wait for it
  if (failure) throw *failure;
  if (std::all_of(id.begin(), id.end(), [](std::byte one) { return one == std::byte{0}; }))
    throw Error(Status::inval, formatted("rank {}: rank 0 cannot use NCCL, its own error says why", rank), kNoNccl);
  comm_ = std::make_shared<Comm>(std::move(device), rank, ranks, options, *library);
  Comm::init(comm_, id);
}

NcclTransport::~NcclTransport() = default;

std::unique_ptr<Channels> NcclTransport::open(std::int64_t rank, Rounds rounds) {
  if (rank != comm_->rank())
    throw Error(Status::inval, formatted("expected a plan of rank {} (got one of rank {})", comm_->rank(), rank));
  return std::make_unique<NcclChannels>(comm_, std::move(rounds));
}

}  // namespace damacy::halo
