// A watched operation that is given up while no allocation succeeds.
#include "damacy/store/storage_watch.h"

#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "damacy/store/memory_store.h"
#include "sweeps/failing_new.h"

namespace damacy::testing {
namespace {

// Keeps the error that it received, without allocating.
class Recorder final : public Abandonable {
 public:
  void abandon(const Error& why) noexcept override {
    status_ = why.status();
    has_text_ = *why.what() != '\0';
    is_late_ = why.where().reason == "deadline";
  }
  Status status_ = Status::ok;
  bool has_text_ = false;
  bool is_late_ = false;
};

class StorageWatchWithoutMemory : public ::testing::Test {
 protected:
  // Gives up an operation of another thread while this thread can allocate nothing.
  bool give_up(std::string_view why, bool behind, bool fails = false) {
    std::promise<void> asks, over;
    std::thread asking([&] {
      watch_.attach_thread();
      const StorageWatch::Scope scope(&recorder_);
      const auto hold = [&] {
        asks.set_value();
        over.get_future().wait();
        if (fails) throw Error(Status::io, "storage answered with a failure");
      };
      const auto ask = [&] {
        if (behind)
          StorageWatch::wait_behind(hold);
        else
          StorageWatch::operation("read", store_, "a key that is longer than a short string", hold);
      };
      EXPECT_THROW(ask(), Abandoned);
    });
    asks.get_future().wait();
    bool abandoned = false;
    {
      const Starved without_memory;
      abandoned = watch_.abandon(Clock::Time{0}, /*stuck=*/true, why);
    }
    over.set_value();
    asking.join();
    return abandoned;
  }

  MemoryStore store_{"memory"};
  StorageWatch watch_{std::make_shared<ManualClock>()};
  Recorder recorder_;
};

TEST_F(StorageWatchWithoutMemory, gives_up_an_operation_that_is_late) {
  EXPECT_TRUE(give_up({}, /*behind=*/false));
  EXPECT_EQ(recorder_.status_, Status::io);
  EXPECT_TRUE(recorder_.is_late_);
  EXPECT_TRUE(recorder_.has_text_);
}

TEST_F(StorageWatchWithoutMemory, gives_up_an_operation_of_a_pipeline_that_closes) {
  EXPECT_TRUE(give_up(": the pipeline was closed", /*behind=*/false));
  EXPECT_EQ(recorder_.status_, Status::shutdown);
  EXPECT_FALSE(recorder_.is_late_);
}

TEST_F(StorageWatchWithoutMemory, a_failure_of_an_operation_that_was_given_up_reaches_no_handler) {
  EXPECT_TRUE(give_up({}, /*behind=*/false, /*fails=*/true));  // the operation throws Abandoned
  EXPECT_TRUE(recorder_.is_late_);
}

TEST_F(StorageWatchWithoutMemory, gives_up_an_operation_that_waits_behind_others) {
  EXPECT_TRUE(give_up({}, /*behind=*/true));
  EXPECT_EQ(recorder_.status_, Status::io);
  EXPECT_TRUE(recorder_.has_text_);
}

}  // namespace
}  // namespace damacy::testing
