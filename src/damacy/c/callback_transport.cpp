#include "damacy/c/detail/callback_transport.h"

#include <cstddef>
#include <iterator>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/halo/message_tags.h"

namespace damacy::detail {
namespace {

class CallbackRequests final : public halo::Requests {
 public:
  CallbackRequests(const damacy_halo_callbacks& callbacks, std::int64_t rank, halo::Round round, halo::Tags tags)
      : callbacks_(callbacks), rank_(rank), round_(std::move(round)), tags_(std::move(tags)) {}
  CallbackRequests(const CallbackRequests&) = delete;
  CallbackRequests& operator=(const CallbackRequests&) = delete;
  ~CallbackRequests() override { (void)cancel(); }

  void post() override {
    start_all(round_.receive, receives_, callbacks_.receive, "receive", [this](std::int64_t) { return tags_.receive; });
  }
  void send() override {
    start_all(round_.send, sends_, callbacks_.send, "send", [this](std::int64_t peer) { return tags_.send.at(peer); });
  }
  void wait_received() override { wait_all(receives_); }
  void wait_sent() override { wait_all(sends_); }
  std::vector<std::int64_t> missing() override {
    std::vector<std::int64_t> peers;
    for (auto at = receives_.begin(); at != receives_.end();) {
      int ended = 1;
      const auto [peer, request] = *at;
      const int code = callbacks_.test(callbacks_.context, request, &ended);
      if (ended == 0) peers.push_back(peer);
      at = ended == 0 && code == 0 ? std::next(at) : receives_.erase(at);
      check(code, "test", peer);
    }
    return peers;
  }
  bool cancel() noexcept override {
    (void)cancel_all(receives_);
    return cancel_all(sends_);
  }

 private:
  using Buffers = std::map<std::int64_t, std::span<std::byte>>;
  struct Started {
    std::int64_t peer;
    void* request;
  };

  void check(int code, const char* call, std::int64_t peer) const {
    if (code != 0)
      throw Error(Status::io,
                  formatted("the transport's function {} failed on rank {} for peer {}: it returned {}", call, rank_,
                            peer, code),
                  "transport");
  }

  // Those that a failed call has started already stay started.
  template <class Start, class TagOf>
  void start_all(const Buffers& buffers, std::vector<Started>& requests, Start start, const char* call, TagOf tag_of) {
    requests.reserve(buffers.size());
    for (auto at = std::next(buffers.begin(), static_cast<std::ptrdiff_t>(requests.size())); at != buffers.end();
         ++at) {
      const auto& [peer, buffer] = *at;
      void* request = nullptr;
      check(start(callbacks_.context, rank_, peer, tag_of(peer), buffer.data(), buffer.size(), &request), call, peer);
      requests.push_back({peer, request});
    }
  }

  void wait_all(std::vector<Started>& requests) {
    while (!requests.empty()) {
      const auto [peer, request] = requests.front();
      requests.erase(requests.begin());
      check(callbacks_.wait(callbacks_.context, request), "wait", peer);
    }
  }

  bool cancel_all(std::vector<Started>& requests) noexcept {
    bool unused = true;
    for (const auto& [peer, request] : std::exchange(requests, {}))
      unused = callbacks_.cancel(callbacks_.context, request) == 0 && unused;
    return unused;
  }

  const damacy_halo_callbacks callbacks_;
  const std::int64_t rank_;
  const halo::Round round_;
  const halo::Tags tags_;
  std::vector<Started> sends_, receives_;
};

class CallbackLibrary final : public halo::MessageLibrary {
 public:
  CallbackLibrary(const damacy_halo_callbacks& callbacks, std::int64_t rank, halo::Rounds rounds)
      : callbacks_(callbacks), rank_(rank), rounds_(std::move(rounds)) {}
  std::unique_ptr<halo::Requests> messages(int slot, int phase, const halo::Tags& tags) override {
    return digests(rounds_.at(static_cast<std::size_t>(slot)).at(static_cast<std::size_t>(phase)), tags);
  }
  std::unique_ptr<halo::Requests> digests(halo::Round round, const halo::Tags& tags) override {
    return std::make_unique<CallbackRequests>(callbacks_, rank_, std::move(round), tags);
  }

 private:
  const damacy_halo_callbacks callbacks_;
  const std::int64_t rank_;
  const halo::Rounds rounds_;
};

}  // namespace

CallbackTransport::CallbackTransport(const damacy_halo_callbacks& callbacks, std::chrono::milliseconds timeout)
    : callbacks_(callbacks), timeout_(timeout), tags_(std::make_shared<halo::MessageTags>(0, 1, halo::kHighestTag)) {
  if (callbacks.struct_size != sizeof callbacks)
    throw Error(Status::inval,
                formatted("struct_size of the callbacks is {}, expected {}", callbacks.struct_size, sizeof callbacks),
                "arguments");
  if (callbacks.send == nullptr || callbacks.receive == nullptr || callbacks.wait == nullptr ||
      callbacks.test == nullptr || callbacks.cancel == nullptr)
    throw Error(Status::inval, "the callbacks send, receive, wait, test and cancel are all needed", "arguments");
}

std::unique_ptr<halo::Channels> CallbackTransport::open(std::int64_t rank, halo::Rounds rounds) {
  const int slots = static_cast<int>(rounds.size());
  const int phases = rounds.empty() ? 0 : static_cast<int>(rounds[0].size());
  return std::make_unique<halo::MessageChannels>(std::make_unique<CallbackLibrary>(callbacks_, rank, std::move(rounds)),
                                                 rank, slots, phases,
                                                 halo::MessageOptions{.tags = tags_, .timeout = timeout_});
}

}  // namespace damacy::detail
