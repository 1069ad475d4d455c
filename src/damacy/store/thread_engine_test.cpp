#include <atomic>
#include <chrono>
#include <memory>

#include "conformance/engine_suite.h"

namespace damacy {
namespace {

struct ThreadFixture {
  static std::unique_ptr<Engine> make(std::size_t threads, std::shared_ptr<const Clock> clock) {
    return make_thread_engine(threads, threads, std::move(clock));
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Threads, EngineSuite, ThreadFixture);

// Waits for `go`; or, as the one that computes, gives it.
class Gate final : public Request {
 public:
  Gate(std::atomic<bool>& go, std::atomic<int>& done, bool reads) : go_(go), done_(done), reads_(reads) {}
  Part prepare(std::size_t, std::stop_token) override {
    if (reads_)
      go_.wait(false);
    else
      go_ = true;
    go_.notify_all();
    return {};
  }
  void complete(std::size_t, const Part&, const Error*) noexcept override {
    ++done_;
    done_.notify_all();
  }
  bool only_reads() const noexcept override { return reads_; }

 private:
  std::atomic<bool>& go_;
  std::atomic<int>& done_;
  bool reads_;
};

TEST(thread_engine, requests_that_only_read_leave_threads_to_the_others) {
  std::atomic<bool> go{false};
  std::atomic<int> done{0};
  const auto engine = make_thread_engine(3, 2);
  for (int i = 0; i < 6; ++i) engine->submit(std::make_unique<Gate>(go, done, true));
  engine->submit_urgent(std::make_unique<Gate>(go, done, false));
  for (int seen = done; seen < 7; seen = done) done.wait(seen);
}

// Stands for a call to a remote store: it looks, now and then, whether it was cancelled.
class RemoteCall final : public Request {
 public:
  explicit RemoteCall(std::atomic<int>& state) : state_(state) {}
  Part prepare(std::size_t, std::stop_token) override {
    state_ = 1;
    state_.notify_all();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!StorageWatch::current()->remote_is_cancelled())
      if (std::chrono::steady_clock::now() > end) throw Error(Status::io, "was not cancelled", "deadline");
    throw Error(Status::shutdown, "cancelled", "closed");
  }
  void complete(std::size_t, const Part&, const Error* failure) noexcept override {
    state_ = failure != nullptr && failure->status() == Status::shutdown ? 2 : 3;
    state_.notify_all();
  }

 private:
  std::atomic<int>& state_;
};

TEST(thread_engine, a_stop_cancels_calls_to_remote_stores_and_leaves_no_thread_behind) {
  std::atomic<int> state{0};
  const auto engine = make_thread_engine(1);
  engine->submit(std::make_unique<RemoteCall>(state));
  state.wait(0);
  const auto keep = std::make_shared<int>();
  EXPECT_FALSE(engine->stop(std::chrono::steady_clock::now() + std::chrono::hours(1), keep));
  EXPECT_EQ(state, 2);
  EXPECT_EQ(keep.use_count(), 1);
}

}  // namespace
}  // namespace damacy
