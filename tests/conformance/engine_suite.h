// What every Engine does, however it reads. A new implementation joins with
//   struct MyFixture {
//     static std::unique_ptr<Engine> make(std::size_t threads, std::shared_ptr<const Clock> clock);
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, EngineSuite, MyFixture);
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <pthread.h>

#include "damacy/device/arena.h"
#include "damacy/store/engine.h"
#include "damacy/store/memory_store.h"
#include "damacy/store/storage_watch.h"
#include "fakes/held_object.h"
#include "fakes/hung_store.h"
#include "support/eventually.h"

namespace damacy {

// A request made of two functions.
class FunctionRequest final : public Request {
 public:
  using Prepare = std::function<Part(std::size_t, std::stop_token)>;
  using Complete = std::function<void(std::size_t, const Part&, const Error*)>;
  FunctionRequest(Prepare prepare, Complete complete) : prepare_(std::move(prepare)), complete_(std::move(complete)) {}
  Part prepare(std::size_t thread, std::stop_token stop) override { return prepare_(thread, stop); }
  void complete(std::size_t thread, const Part& part, const Error* failure) noexcept override {
    complete_(thread, part, failure);
  }

 private:
  Prepare prepare_;
  Complete complete_;
};

inline std::unique_ptr<Request> request(FunctionRequest::Prepare prepare, FunctionRequest::Complete complete) {
  return std::make_unique<FunctionRequest>(std::move(prepare), std::move(complete));
}

// Reads nothing and calls `then`.
inline std::unique_ptr<Request> note(std::function<void()> then) {
  return request([](auto, auto) { return Part{}; }, [then](auto, const Part&, const Error*) { then(); });
}

// Holds an engine thread until opened.
class Gate {
 public:
  std::unique_ptr<Request> request() {
    return note([this] {
      entered_.count_down();
      open_.wait();
    });
  }
  void wait_entered() { entered_.wait(); }
  void open() { open_.count_down(); }

 private:
  std::latch entered_{1};
  std::latch open_{1};
};

template <class Fixture>
class EngineSuite : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> make(std::size_t threads) { return Fixture::make(threads, clock); }

  const std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();

  // The error that complete() receives if prepare() does this.
  std::optional<Error> outcome(FunctionRequest::Prepare prepare) {
    std::optional<Error> received;
    std::latch done(1);
    auto engine = make(1);
    engine->submit(request(std::move(prepare), [&](auto, const Part&, const Error* failure) {
      if (failure != nullptr) received = *failure;
      done.count_down();
    }));
    done.wait();
    return received;
  }
};

TYPED_TEST_SUITE_P(EngineSuite);

TYPED_TEST_P(EngineSuite, reads_what_was_prepared_and_completes_on_the_same_thread) {
  MemoryStore store;
  store.put("key", "0123456789");
  std::array<std::byte, 4> bytes{};
  std::thread::id prepared, completed;
  std::latch done(1);
  auto engine = this->make(2);
  engine->submit(request(
      [&](std::size_t thread, auto) {
        EXPECT_LT(thread, 2u);
        prepared = std::this_thread::get_id();
        return Part{store.open("key"), 3, bytes};
      },
      [&](std::size_t thread, const Part& part, const Error* failure) {
        EXPECT_LT(thread, 2u);
        EXPECT_EQ(failure, nullptr);
        EXPECT_EQ(part.offset, 3u);
        EXPECT_EQ(part.dst.data(), bytes.data());
        completed = std::this_thread::get_id();
        done.count_down();
      }));
  done.wait();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), 4), "3456");
  EXPECT_EQ(prepared, completed);
  EXPECT_NE(prepared, std::this_thread::get_id());
}

TYPED_TEST_P(EngineSuite, a_failed_read_tells_what_the_object_said) {
  MemoryStore store;
  store.put("key", "0123456789");
  std::array<std::byte, 4> bytes{};
  const auto failure = this->outcome([&](auto, auto) { return Part{store.open("key"), 8, bytes}; });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->where().reason, "short-read");
}

TYPED_TEST_P(EngineSuite, what_prepare_throws_becomes_the_failure) {
  const auto own = this->outcome([](auto, auto) -> Part { throw Error(Status::decode, "mine", "index"); });
  ASSERT_TRUE(own);
  EXPECT_EQ(own->status(), Status::decode);
  EXPECT_EQ(own->message(), "mine");
  const auto memory = this->outcome([](auto, auto) -> Part { throw std::bad_alloc(); });
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->status(), Status::oom);
  const auto foreign = this->outcome([](auto, auto) -> Part { throw std::runtime_error("foreign"); });
  ASSERT_TRUE(foreign);
  EXPECT_EQ(foreign->status(), Status::io);
  EXPECT_EQ(foreign->message(), "internal: foreign");
}

TYPED_TEST_P(EngineSuite, an_empty_part_needs_no_object) {
  EXPECT_FALSE(this->outcome([](auto, auto) { return Part{}; }));
}

TYPED_TEST_P(EngineSuite, one_thread_serves_in_order_with_the_urgent_ones_first) {
  Gate gate;
  std::string order;
  std::latch done(5);
  auto engine = this->make(1);
  const auto letter = [&](char c) {
    return note([&, c] {
      order += c;
      done.count_down();
    });
  };
  engine->submit(gate.request());
  gate.wait_entered();
  engine->submit(letter('c'));
  engine->submit(letter('d'));
  engine->submit_urgent(letter('a'));
  engine->submit_urgent(letter('b'));
  engine->submit(letter('e'));
  gate.open();
  done.wait();
  EXPECT_EQ(order, "abcde");
}

TYPED_TEST_P(EngineSuite, as_many_requests_run_at_once_as_there_are_threads) {
  constexpr std::size_t kThreads = 5;
  auto engine = this->make(kThreads);
  EXPECT_EQ(engine->threads(), kThreads);
  std::latch all_inside(kThreads);
  std::latch done(kThreads);
  std::array<std::atomic<int>, kThreads> runs{};
  for (std::size_t i = 0; i < kThreads; ++i)
    engine->submit(request([](auto, auto) { return Part{}; },
                           [&](std::size_t thread, const Part&, const Error*) {
                             ++runs[thread];
                             all_inside.arrive_and_wait();
                             done.count_down();
                           }));
  done.wait();
  for (const auto& count : runs) EXPECT_EQ(count, 1);
}

TYPED_TEST_P(EngineSuite, every_request_of_many_submitters_completes_once) {
  constexpr int kEach = 2000;
  std::vector<std::atomic<int>> completed(4 * kEach);
  {
    auto engine = this->make(3);
    std::latch done(4 * kEach);
    std::vector<std::jthread> submitters;
    for (int s = 0; s < 4; ++s)
      submitters.emplace_back([&, s] {
        for (int i = 0; i < kEach; ++i) {
          auto mine = note([&, s, i] {
            ++completed[static_cast<std::size_t>(s * kEach + i)];
            done.count_down();
          });
          i % 3 == 0 ? engine->submit_urgent(std::move(mine)) : engine->submit(std::move(mine));
        }
      });
    done.wait();
  }
  for (const auto& count : completed) ASSERT_EQ(count, 1);
}

TYPED_TEST_P(EngineSuite, a_request_may_submit_the_next_one) {
  auto engine = this->make(1);
  std::latch done(100);
  std::function<void(int)> next = [&](int left) {
    done.count_down();
    if (left > 1) engine->submit(note([&, left] { next(left - 1); }));
  };
  engine->submit(note([&] { next(100); }));
  done.wait();
}

TYPED_TEST_P(EngineSuite, destroyed_it_ends_what_runs_and_refuses_what_waits) {
  std::optional<Status> running, waiting, submitted_late;
  std::latch entered(1);
  auto engine = this->make(1);
  engine->submit(request(
      [&](auto, std::stop_token stop) {
        entered.count_down();
        std::latch stopped(1);
        const std::stop_callback on_stop(stop, [&] { stopped.count_down(); });
        stopped.wait();  // prepare() waits for memory that does not come
        return Part{};
      },
      [&](auto, const Part&, const Error* failure) { running = failure == nullptr ? Status::ok : failure->status(); }));
  entered.wait();
  Engine* raw = engine.get();
  engine->submit(request([&](auto, auto) -> Part { throw std::logic_error("a waiting request must not be prepared"); },
                         [&](std::size_t thread, const Part& part, const Error* failure) {
                           EXPECT_EQ(thread, 0u);
                           EXPECT_TRUE(part.dst.empty());
                           waiting = failure == nullptr ? Status::ok : failure->status();
                           raw->submit(request([](auto, auto) { return Part{}; },
                                               [&](auto, const Part&, const Error* late) {
                                                 submitted_late = late == nullptr ? Status::ok : late->status();
                                               }));
                         }));
  engine.reset();
  EXPECT_EQ(running, Status::ok);
  EXPECT_EQ(waiting, Status::shutdown);
  EXPECT_EQ(submitted_late, Status::shutdown);
}

// A read that another thread may abandon; it says how it ended. What it reads into lives as long as it does.
class AbandonableRead final : public Request {
 public:
  struct End {
    std::latch ended{1};
    std::optional<Error> failure;
    bool was_abandoned = false;
  };
  AbandonableRead(std::shared_ptr<Store> store, std::shared_ptr<End> end)
      : store_(make_watched_store(std::move(store))), end_(std::move(end)) {}
  Part prepare(std::size_t, std::stop_token) override { return {store_->open("key"), 0, bytes_}; }
  void complete(std::size_t, const Part&, const Error* failure) override {
    if (failure != nullptr) end_->failure = *failure;
    end_->ended.count_down();
  }
  bool can_be_abandoned() const noexcept override { return true; }
  void abandon(const Error& why) noexcept override {
    end_->failure = why;
    end_->was_abandoned = true;
    end_->ended.count_down();
  }

 private:
  const std::shared_ptr<Store> store_;
  const std::shared_ptr<End> end_;
  std::array<std::byte, 4> bytes_{};
};

inline std::shared_ptr<testing::HungStore> hung_store() {
  auto memory = std::make_shared<MemoryStore>();
  memory->put("key", "0123456789");
  auto hung = std::make_shared<testing::HungStore>(memory);
  hung->hang(testing::HungStore::Call::read, "key");
  return hung;
}

TYPED_TEST_P(EngineSuite, a_read_without_an_answer_is_abandoned_and_its_thread_replaced) {
  const auto store = hung_store();
  const auto end = std::make_shared<AbandonableRead::End>();
  auto engine = this->make(1);
  engine->submit(std::make_unique<AbandonableRead>(store, end));
  store->wait_until_hung();
  this->clock->advance(Clock::Time(999));
  EXPECT_FALSE(engine->abandon_overdue(Clock::Time(1000), /*stuck=*/false));
  EXPECT_FALSE(end->ended.try_wait());
  this->clock->advance(Clock::Time(1));
  EXPECT_TRUE(engine->abandon_overdue(Clock::Time(1000), /*stuck=*/false));
  end->ended.wait();
  EXPECT_TRUE(end->was_abandoned);
  EXPECT_EQ(end->failure->where().reason, "deadline");
  std::latch served(1);
  engine->submit(note([&] { served.count_down(); }));
  served.wait();
  store->let_go();
}

TYPED_TEST_P(EngineSuite, stopped_it_leaves_threads_that_storage_holds_and_keeps_what_they_use) {
  const auto store = hung_store();
  const auto end = std::make_shared<AbandonableRead::End>();
  const auto kept = std::make_shared<int>(0);
  auto engine = this->make(1);
  engine->submit(std::make_unique<AbandonableRead>(store, end));
  store->wait_until_hung();
  const auto now = std::chrono::steady_clock::now();
  EXPECT_TRUE(engine->stop(now, kept));
  EXPECT_TRUE(end->was_abandoned);
  EXPECT_EQ(end->failure->status(), Status::shutdown);
  EXPECT_EQ(kept.use_count(), 2);
  EXPECT_TRUE(engine->stop(now, kept));
  engine.reset();
  EXPECT_EQ(kept.use_count(), 2);
  store->let_go();
  while (kept.use_count() > 1) std::this_thread::yield();  // the thread ends soon
}

TYPED_TEST_P(EngineSuite, stopped_it_refuses_requests) {
  auto engine = this->make(2);
  const auto now = std::chrono::steady_clock::now();
  EXPECT_FALSE(engine->stop(now, nullptr));
  EXPECT_FALSE(engine->stop(now, nullptr));
  std::optional<Status> late;
  engine->submit(request([](auto, auto) { return Part{}; },
                         [&](auto, const Part&, const Error* failure) { late = failure->status(); }));
  EXPECT_EQ(late, Status::shutdown);
}

// A request for an object that reads without a thread; takes its memory from an arena, if there is one.
class SentRead final : public Request {
 public:
  struct End {
    std::atomic<int> right{0}, failed{0};
  };
  SentRead(std::shared_ptr<testing::HeldObject> object, std::shared_ptr<End> end, Arena* arena = nullptr)
      : object_(std::move(object)), end_(std::move(end)), arena_(arena) {}
  bool can_be_sent() const noexcept override { return true; }
  Part prepare(std::size_t, std::stop_token stop) override {
    if (arena_ != nullptr) piece_ = arena_->take(arena_->size(), std::move(stop));
    return {object_, 2, bytes_};
  }
  void complete(std::size_t, const Part&, const Error* failure) override {
    const std::string_view read(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    ++(failure == nullptr && read == "2345" ? end_->right : end_->failed);
  }

 private:
  const std::shared_ptr<testing::HeldObject> object_;
  const std::shared_ptr<End> end_;
  Arena* const arena_;
  Arena::Piece piece_;
  std::array<std::byte, 4> bytes_{};
};

TYPED_TEST_P(EngineSuite, reads_that_are_sent_hold_no_thread) {
  const auto object = std::make_shared<testing::HeldObject>("0123456789");
  const auto end = std::make_shared<SentRead::End>();
  auto engine = this->make(2);
  for (int i = 0; i < 40; ++i) engine->submit(std::make_unique<SentRead>(object, end));
  ASSERT_TRUE(testing::eventually([&] { return object->started() == 40; }));
  std::latch served(8);
  for (int i = 0; i < 8; ++i) engine->submit(note([&] { served.count_down(); }));
  served.wait();
  EXPECT_EQ(end->right, 0);
  object->land();
  EXPECT_TRUE(testing::eventually([&] { return end->right == 40; }));
  EXPECT_EQ(end->failed, 0);
}

TYPED_TEST_P(EngineSuite, each_read_that_lands_is_completed_though_readers_sleep_in_between) {
  const auto object = std::make_shared<testing::HeldObject>("0123456789");
  const auto end = std::make_shared<SentRead::End>();
  auto engine = this->make(2);
  for (std::size_t turn = 1; turn <= 3; ++turn) {
    for (int i = 0; i < 3; ++i) engine->submit(std::make_unique<SentRead>(object, end));
    ASSERT_TRUE(testing::eventually([&] { return object->started() == 3 * turn; }));
    std::latch served(1);
    engine->submit(note([&] { served.count_down(); }));
    served.wait();
    object->land();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (object->ended() < 3 * turn && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    ASSERT_EQ(object->ended(), 3 * turn) << "no reader was woken in turn " << turn;
  }
}

TYPED_TEST_P(EngineSuite, stopped_it_cancels_reads_that_are_sent_before_it_fails_them) {
  const auto object = std::make_shared<testing::HeldObject>("0123456789");
  const auto end = std::make_shared<SentRead::End>();
  auto engine = this->make(2);
  for (int i = 0; i < 4; ++i) engine->submit(std::make_unique<SentRead>(object, end));
  ASSERT_TRUE(testing::eventually([&] { return object->started() == 4; }));
  engine.reset();
  EXPECT_EQ(object->ended(), 4u);
  EXPECT_EQ(end->failed, 4);
  object->land();  // nothing happens
  EXPECT_EQ(end->right, 0);
}

// The memory of a read that was sent is free only after a reader has completed it. Readers that wait for that memory
// must not be all there are.
TYPED_TEST_P(EngineSuite, a_reader_is_kept_for_what_was_sent) {
  Arena arena(std::make_shared<PageAlloc>(), Arena::kPieceAlignment);
  const auto object = std::make_shared<testing::HeldObject>("0123456789");
  const auto end = std::make_shared<SentRead::End>();
  std::atomic<int> served{0};
  auto engine = this->make(2);
  engine->submit(std::make_unique<SentRead>(object, end, &arena));
  ASSERT_TRUE(testing::eventually([&] { return object->started() == 1; }));
  std::atomic<int> waiting{0};
  for (int i = 0; i < 4; ++i)
    engine->submit(request(
        [&](auto, std::stop_token stop) {
          ++waiting;
          static_cast<void>(arena.take(arena.size(), std::move(stop)));
          return Part{};
        },
        [&](auto, const Part&, const Error* failure) { served += failure == nullptr ? 1 : 0; }));
  ASSERT_TRUE(testing::eventually([&] { return waiting >= 1; }));
  const auto second = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (waiting < 2 && std::chrono::steady_clock::now() < second) std::this_thread::yield();  // none comes
  object->land();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (served < 4 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  engine.reset();
  EXPECT_EQ(served, 4);
  EXPECT_EQ(end->right, 1);
}

TYPED_TEST_P(EngineSuite, one_thread_also_completes_what_was_sent) {
  Arena arena(std::make_shared<PageAlloc>(), Arena::kPieceAlignment);
  const auto object = std::make_shared<testing::HeldObject>("0123456789");
  const auto end = std::make_shared<SentRead::End>();
  std::atomic<int> served{0};
  auto engine = this->make(1);
  engine->submit(std::make_unique<SentRead>(object, end, &arena));
  for (int i = 0; i < 9; ++i) engine->submit(std::make_unique<SentRead>(object, end));
  ASSERT_TRUE(testing::eventually([&] { return object->started() == 10; }));
  engine->submit(request(
      [&](auto, std::stop_token stop) {
        static_cast<void>(arena.take(arena.size(), std::move(stop)));
        return Part{};
      },
      [&](auto, const Part&, const Error* failure) { served += failure == nullptr ? 1 : 0; }));
  object->land();
  EXPECT_TRUE(testing::eventually([&] { return served == 1 && end->right == 10; }));
}

TYPED_TEST_P(EngineSuite, signals_are_left_to_other_threads) {
  sigset_t before, after, inside;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  std::latch done(1);
  auto engine = this->make(1);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  engine->submit(note([&] {
    pthread_sigmask(SIG_SETMASK, nullptr, &inside);
    done.count_down();
  }));
  done.wait();
  for (const int signal : {SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGCHLD}) {
    EXPECT_EQ(sigismember(&inside, signal), 1) << signal;
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << signal;
  }
}

REGISTER_TYPED_TEST_SUITE_P(
    EngineSuite, reads_what_was_prepared_and_completes_on_the_same_thread, a_failed_read_tells_what_the_object_said,
    what_prepare_throws_becomes_the_failure, an_empty_part_needs_no_object,
    one_thread_serves_in_order_with_the_urgent_ones_first, as_many_requests_run_at_once_as_there_are_threads,
    every_request_of_many_submitters_completes_once, a_request_may_submit_the_next_one,
    destroyed_it_ends_what_runs_and_refuses_what_waits, a_read_without_an_answer_is_abandoned_and_its_thread_replaced,
    stopped_it_leaves_threads_that_storage_holds_and_keeps_what_they_use, stopped_it_refuses_requests,
    reads_that_are_sent_hold_no_thread, each_read_that_lands_is_completed_though_readers_sleep_in_between,
    stopped_it_cancels_reads_that_are_sent_before_it_fails_them, a_reader_is_kept_for_what_was_sent,
    one_thread_also_completes_what_was_sent, signals_are_left_to_other_threads);

}  // namespace damacy
