// Which batches share a decode, and what becomes of them.
#include "damacy/fetch/chunk_share.h"

#include "support/planned_batches.h"

namespace damacy {
namespace {

class ChunkShareTest : public testing::PlannedBatches {
 protected:
  void SetUp() override {
    PlannedBatches::SetUp();
    write({8, 8}, {4, 4}, 64);
  }
  // The chunks of a box, which stay unsettled until the end of the test or release().
  std::shared_ptr<ChunkTasks> chunks_of(const Box& box) {
    std::shared_ptr<ChunkTasks> planned;
    plan(start({box}), [&](const std::shared_ptr<ChunkTasks>& tasks) {
      planned = tasks;
      open_.emplace_back(tasks);
    });
    return planned;
  }
  void TearDown() override {
    open_.clear();
    PlannedBatches::TearDown();
  }
  static ChunkKey key(const std::shared_ptr<ChunkTasks>& tasks, std::uint32_t chunk = 0) { return tasks->id_of(chunk); }

  static inline const Box kFirst{{0, 0}, {2, 2}}, kSame{{1, 1}, {4, 4}}, kOther{{4, 4}, {6, 6}};
  ChunkShare share;
  std::vector<Task<ChunkTasks>> open_;
};

TEST_F(ChunkShareTest, only_what_is_announced_can_be_joined) {
  const auto own = chunks_of(kFirst);
  EXPECT_FALSE(share.join(own, 0));
  share.announce(key(own));
  EXPECT_TRUE(share.join(chunks_of(kSame), 0));
  EXPECT_FALSE(share.join(chunks_of(kOther), 0));
}

TEST_F(ChunkShareTest, a_claim_gives_those_that_joined_once_and_ends_joining) {
  const auto own = chunks_of(kFirst);
  share.announce(key(own));
  const auto second = chunks_of(kSame), third = chunks_of({{0, 0}, {1, 1}});
  EXPECT_TRUE(share.join(second, 0));
  EXPECT_TRUE(share.join(third, 0));
  const std::vector<ChunkConsumer> joined = share.claim(key(own));
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(&joined[0].chunks(), second.get());
  EXPECT_EQ(&joined[1].chunks(), third.get());
  EXPECT_TRUE(share.claim(key(own)).empty());
  EXPECT_FALSE(share.join(chunks_of(kSame), 0));
}

TEST_F(ChunkShareTest, another_chunk_or_another_version_of_its_object_is_not_the_same) {
  const auto own = chunks_of({{0, 0}, {8, 8}});
  share.announce(key(own, 0));
  EXPECT_NE(key(own, 0), key(own, 1));
  EXPECT_TRUE(share.claim(key(own, 1)).empty());
  ChunkKey later = key(own, 0);
  ++later.words[0];
  EXPECT_TRUE(share.claim(later).empty());
  EXPECT_TRUE(share.join(chunks_of(kFirst), 0));
}

TEST_F(ChunkShareTest, a_batch_that_joined_does_not_settle_before_the_claim_ends) {
  const auto own = chunks_of(kFirst);
  share.announce(key(own));
  plan(start({kSame}), [&](const std::shared_ptr<ChunkTasks>& tasks) { EXPECT_TRUE(share.join(tasks, 0)); });
  EXPECT_TRUE(settled().empty());
  {
    const auto claimed = share.claim(key(own));
    EXPECT_TRUE(settled().empty());
  }
  EXPECT_TRUE(settles(1));
}

}  // namespace
}  // namespace damacy
