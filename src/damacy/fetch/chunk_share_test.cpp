// Which jobs share a decode, and what becomes of them.
#include "damacy/fetch/chunk_share.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "fakes/fake_chunks.h"

namespace damacy {
namespace {

using testing::FakeChunks;
using testing::raw_chunk;

// A job that wants the same two chunks as others of them.
std::shared_ptr<FakeChunks> job() {
  return FakeChunks::make({raw_chunk(64, {{0, 8}}, 1), raw_chunk(64, {{0, 8}}, 2)});
}

TEST(ChunkShare, only_what_is_announced_can_be_joined) {
  ChunkShare share;
  const auto own = job();
  EXPECT_FALSE(share.join(own, 0));
  share.announce(own->id_of(0));
  EXPECT_TRUE(share.join(job(), 0));
  EXPECT_FALSE(share.join(job(), 1));
}

TEST(ChunkShare, a_claim_gives_those_that_joined_once_and_ends_joining) {
  ChunkShare share;
  const auto own = job(), second = job(), third = job();
  share.announce(own->id_of(1));
  EXPECT_TRUE(share.join(second, 1));
  EXPECT_TRUE(share.join(third, 1));
  const std::vector<ChunkConsumer> joined = share.claim(own->id_of(1));
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(&joined[0].chunks(), second.get());
  EXPECT_EQ(&joined[1].chunks(), third.get());
  EXPECT_EQ(joined[1].chunk(), 1u);
  EXPECT_TRUE(share.claim(own->id_of(1)).empty());
  EXPECT_FALSE(share.join(job(), 1));
}

TEST(ChunkShare, another_chunk_or_another_version_of_its_object_is_not_the_same) {
  ChunkShare share;
  const auto own = job();
  const ChunkKey id = own->id_of(0);
  share.announce(id);
  EXPECT_NE(id, own->id_of(1));
  EXPECT_TRUE(share.claim(own->id_of(1)).empty());
  ChunkKey later = id;
  ++later.words[0];
  EXPECT_TRUE(share.claim(later).empty());
  EXPECT_TRUE(share.join(job(), 0));
}

TEST(ChunkShare, a_job_that_joined_does_not_settle_before_the_claim_ends) {
  ChunkShare share;
  const auto own = job(), later = job();
  share.announce(own->id_of(0));
  {
    const Task<Job> wanting = later->new_task();
    EXPECT_TRUE(share.join(later, 0));
  }
  EXPECT_FALSE(later->is_settled());
  {
    const auto claimed = share.claim(own->id_of(0));
    EXPECT_FALSE(later->is_settled());
    EXPECT_EQ(later->open_reads(), 1);
  }
  EXPECT_TRUE(later->is_settled());
  EXPECT_EQ(later->open_reads(), 0);
}

}  // namespace
}  // namespace damacy
