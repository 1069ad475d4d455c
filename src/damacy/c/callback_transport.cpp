#include "damacy/c/detail/callback_transport.h"

#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::detail {
namespace {

constexpr int kDigestTag = 0;  // messages of a phase have the tag phase + 1

struct Message {
  std::int64_t peer;
  int tag;
  std::span<std::byte> data;
};

class CallbackChannels final : public halo::Channels {
 public:
  CallbackChannels(const damacy_halo_callbacks& callbacks, std::int64_t rank, halo::Rounds rounds)
      : callbacks_(callbacks), rank_(rank), rounds_(std::move(rounds)) {}

  std::map<std::int64_t, halo::Digests> exchange_digests(const std::map<std::int64_t, halo::Digests>& mine) override {
    *sent_ = mine;
    *received_ = mine;  // overwritten
    for (auto& [peer, digests] : *received_) receive({peer, kDigestTag, bytes_of(digests)}, digest_receives_);
    for (auto& [peer, digests] : *sent_) send({peer, kDigestTag, bytes_of(digests)}, digest_sends_);
    wait_all(digest_receives_);
    wait_all(digest_sends_);
    return *received_;
  }

  // Does nothing for a retry: the receives of the failed exchange stay posted.
  void post_receives(int slot, int phase) override {
    if (!posted_.insert({slot, phase}).second) return;
    for (const auto& [peer, buffer] : round(slot, phase).receive)
      receive({peer, phase + 1, buffer}, receives_[{slot, phase}]);
  }

  void send(int slot, int phase) override {
    posted_.erase({slot, phase});
    for (const auto& [peer, buffer] : round(slot, phase).send) send({peer, phase + 1, buffer}, sends_[{slot, phase}]);
  }

  void wait_received(int slot, int phase) override { wait_all(receives_[{slot, phase}]); }
  void wait_sent(int slot, int phase) override { wait_all(sends_[{slot, phase}]); }

  bool close() noexcept override {
    cancel_all(digest_receives_);
    for (auto& [place, requests] : receives_) cancel_all(requests);
    if (!cancel_all(digest_sends_)) (void)sent_.release();  // a peer may still get them
    bool unused = true;
    for (auto& [place, requests] : sends_) unused = cancel_all(requests) && unused;
    return unused;
  }

  ~CallbackChannels() override { close(); }

 private:
  using Requests = std::vector<void*>;
  using Digests = std::map<std::int64_t, halo::Digests>;

  static std::span<std::byte> bytes_of(halo::Digests& digests) {
    return std::as_writable_bytes(std::span(&digests, 1));
  }

  const halo::Round& round(int slot, int phase) const {
    return rounds_.at(static_cast<std::size_t>(slot)).at(static_cast<std::size_t>(phase));
  }

  void check(int code, const char* call, std::int64_t peer) const {
    if (code != 0)
      throw Error(Status::io,
                  formatted("the transport's function {} failed on rank {} for peer {}: it returned {}", call, rank_,
                            peer, code),
                  "transport");
  }

  void receive(const Message& message, Requests& requests) {
    requests.reserve(requests.size() + 1);
    void* request = nullptr;
    check(callbacks_.receive(callbacks_.context, rank_, message.peer, message.tag, message.data.data(),
                             message.data.size(), &request),
          "receive", message.peer);
    requests.push_back(request);
  }

  void send(const Message& message, Requests& requests) {
    requests.reserve(requests.size() + 1);
    void* request = nullptr;
    check(callbacks_.send(callbacks_.context, rank_, message.peer, message.tag, message.data.data(),
                          message.data.size(), &request),
          "send", message.peer);
    requests.push_back(request);
  }

  void wait_all(Requests& requests) {
    while (!requests.empty()) {
      void* const request = requests.front();
      requests.erase(requests.begin());
      const int code = callbacks_.wait(callbacks_.context, request);
      if (code != 0)
        throw Error(Status::io,
                    formatted("the transport's function wait failed on rank {}: it returned {}", rank_, code),
                    "transport");
    }
  }

  bool cancel_all(Requests& requests) noexcept {
    bool unused = true;
    for (void* const request : std::exchange(requests, {}))
      unused = callbacks_.cancel(callbacks_.context, request) == 0 && unused;
    return unused;
  }

  const damacy_halo_callbacks callbacks_;
  const std::int64_t rank_;
  const halo::Rounds rounds_;
  std::unique_ptr<Digests> sent_ = std::make_unique<Digests>();
  std::unique_ptr<Digests> received_ = std::make_unique<Digests>();
  Requests digest_sends_, digest_receives_;
  std::map<std::pair<int, int>, Requests> sends_, receives_;  // by slot and phase
  std::set<std::pair<int, int>> posted_;                      // receives whose exchange has not sent
};

}  // namespace

CallbackTransport::CallbackTransport(const damacy_halo_callbacks& callbacks) : callbacks_(callbacks) {
  if (callbacks.struct_size != sizeof callbacks)
    throw Error(Status::inval,
                formatted("struct_size of the callbacks is {}, expected {}", callbacks.struct_size, sizeof callbacks),
                "arguments");
  if (callbacks.send == nullptr || callbacks.receive == nullptr || callbacks.wait == nullptr ||
      callbacks.cancel == nullptr)
    throw Error(Status::inval, "the callbacks send, receive, wait and cancel are all needed", "arguments");
}

std::unique_ptr<halo::Channels> CallbackTransport::open(std::int64_t rank, halo::Rounds rounds) {
  return std::make_unique<CallbackChannels>(callbacks_, rank, std::move(rounds));
}

}  // namespace damacy::detail
