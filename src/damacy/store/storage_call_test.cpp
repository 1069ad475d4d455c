#include "damacy/store/storage_call.h"

#include <atomic>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/store/memory_store.h"
#include "damacy/store/storage_watch.h"
#include "fakes/hung_store.h"

namespace damacy {
namespace {

using testing::HungStore;

class StorageCalls : public ::testing::Test {
 protected:
  StorageCalls() { memory_->put("a", std::string_view("four")); }

  // What reads "a" into memory of its own.
  auto reading() const {
    return [store = watched_, bytes = bytes_] {
      store->open("a")->read_exact(0, *bytes);
      return bytes->size();
    };
  }
  StorageWaiting waiting() const { return {{}, clock_}; }

  const std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>("memory");
  const std::shared_ptr<HungStore> hung_ = std::make_shared<HungStore>(memory_);
  const std::shared_ptr<Store> watched_ = make_watched_store(hung_);
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  const std::shared_ptr<std::vector<std::byte>> bytes_ = std::make_shared<std::vector<std::byte>>(4, std::byte{1});
};

TEST_F(StorageCalls, give_what_the_work_gives_or_throws) {
  EXPECT_EQ(storage_result(reading(), waiting()), 4u);
  EXPECT_EQ(bytes_->front(), std::byte{'f'});
  EXPECT_THROW(call_storage([] { throw Error(Status::decode, "bad", "index"); }), Error);
}

TEST_F(StorageCalls, end_at_the_deadline_of_an_operation_and_leave_its_memory_alone) {
  hung_->hang(HungStore::Call::read, "a");
  std::thread turns([&] {
    hung_->wait_until_hung();
    clock_->advance(std::chrono::seconds(60));
  });
  try {
    storage_result(reading(), waiting());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::io);
    EXPECT_EQ(error.where().reason, "deadline");
    EXPECT_EQ(error.where().key, "a");
    EXPECT_EQ(error.where().store, "memory");
  }
  turns.join();
  EXPECT_EQ(bytes_->front(), std::byte{1});
  hung_->let_go();  // writes to what the work keeps
  EXPECT_EQ(bytes_->front(), HungStore::kLate);
}

TEST_F(StorageCalls, end_when_they_wait_for_what_one_has_that_storage_holds) {
  hung_->hang(HungStore::Call::read, "a");
  std::promise<void> waits;
  const auto given_back = std::make_shared<std::promise<void>>();
  const auto wait_behind = [&waits, given_back] {
    StorageWatch::wait_behind([&] {
      waits.set_value();
      given_back->get_future().wait();
    });
  };
  std::atomic<int> looks_left = 3;
  std::atomic<bool> holder_ended = false;
  struct LookedInVain {};
  const auto look = [&] {
    if (holder_ended && --looks_left < 0) throw LookedInVain();
  };
  std::thread holder([&] {
    EXPECT_THROW(storage_result(reading(), waiting()), Error);
    holder_ended = true;
  });
  std::thread turns([&] {
    hung_->wait_until_hung();
    waits.get_future().wait();
    clock_->advance(std::chrono::seconds(60));
  });
  try {
    call_storage(wait_behind, {look, clock_});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.where().reason, "deadline");
  } catch (const LookedInVain&) {
    ADD_FAILURE() << "it goes on waiting";
  }
  holder.join();
  turns.join();
  given_back->set_value();
}

TEST_F(StorageCalls, end_when_the_caller_is_interrupted) {
  hung_->hang(HungStore::Call::open, "a");
  struct Interrupt {};
  const auto interrupt = [&] {
    if (hung_->hung() > 0) throw Interrupt();
  };
  EXPECT_THROW(storage_result(reading(), {interrupt, clock_}), Interrupt);
}

}  // namespace
}  // namespace damacy
