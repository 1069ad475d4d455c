#include "damacy/single/verifier.h"

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "fakes/hung_store.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using testing::HungStore;

class Verifiers : public ::testing::Test {
 protected:
  Verifiers() { testing::write_array(dir_.path(), {40, 64}, {8, 16}); }

  Verifier verifier() const {
    return Verifier(dir_.path().string(), [store = store_](const std::string&) { return store; }, {{}, clock_});
  }
  // Runs `work`, and lets the time of the `count`-th call that hangs pass.
  template <class Work>
  auto past_deadline(std::size_t count, Work work) const {
    std::thread turns([this, count] {
      store_->wait_until_hung(count);
      clock_->advance(std::chrono::seconds(60));
    });
    const auto result = work();
    turns.join();
    return result;
  }

  const testing::TempDir dir_{"verifier"};
  const std::shared_ptr<HungStore> store_ =
      std::make_shared<HungStore>(make_file_store(dir_.path().string(), /*open_files=*/8));
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
};

TEST_F(Verifiers, count_good_chunks_missing_ones_and_bad_ones) {
  std::filesystem::remove(dir_.path() / "c.0.3");
  std::filesystem::resize_file(dir_.path() / "c.2.1", 100);
  const VerifyReport report = verifier().verify(0, 20);
  EXPECT_EQ(report.chunks, 18);
  EXPECT_EQ(report.missing, 1);
  ASSERT_EQ(report.bad.size(), 1u);
  EXPECT_EQ(report.bad.front().where().key, "c.2.1");
}

TEST_F(Verifiers, count_chunks_that_no_checksum_covers) {
  EXPECT_EQ(verifier().verify(0, 20).unguarded, 20);
}

TEST_F(Verifiers, go_on_behind_a_chunk_that_storage_does_not_answer_for) {
  const Verifier all = verifier();
  std::size_t hung = 0;
  for (const auto call : {HungStore::Call::open, HungStore::Call::read}) {
    store_->hang(call, "c.1.2", 1);
    const VerifyReport report = past_deadline(++hung, [&] { return all.verify(0, 20); });
    EXPECT_EQ(report.chunks, 19);
    ASSERT_EQ(report.bad.size(), 1u);
    const Error& bad = report.bad.front();
    EXPECT_EQ(bad.status(), Status::io);
    EXPECT_EQ(bad.where().reason, "deadline");
    EXPECT_EQ(bad.where().key, "c.1.2");
    EXPECT_EQ(bad.where().uri, dir_.path().string());
    if (call == HungStore::Call::read) {
      EXPECT_EQ(bad.where().chunk, (std::vector<std::int64_t>{1, 2}));
    }
    store_->let_go();
  }
}

TEST_F(Verifiers, an_array_that_storage_does_not_answer_for_is_refused) {
  store_->hang(HungStore::Call::open, "zarr.json", 1);
  const std::string reason = past_deadline(1, [&] {
    try {
      verifier();
    } catch (const Error& error) {
      return error.where().reason;
    }
    return std::string();
  });
  EXPECT_EQ(reason, "deadline");
}

}  // namespace
}  // namespace damacy
