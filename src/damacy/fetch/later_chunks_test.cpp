// What is kept for batches that are planned later, how long, and within which memory.
#include "damacy/fetch/later_chunks.h"

#include <cstdlib>
#include <deque>

#include <gtest/gtest.h>

#include "conformance/chunk_tier_suite.h"

namespace damacy {
namespace {

constexpr std::uint64_t kChunk = 32 << 10;

ChunkKey key_of(std::int64_t chunk, std::uint64_t stamp = 0) {
  return {{1, 7}, {stamp, 0, 0, 0}, chunk};
}

std::shared_ptr<LaterChunks> tier_of(std::uint64_t bytes) {
  return std::make_shared<LaterChunks>(std::make_shared<PageAlloc>(), bytes);
}

bool keep(LaterChunks& tier, const ChunkKey& key) {
  ChunkTier::Filling room = tier.reserve(key, kChunk);
  if (!room) return false;
  std::ranges::fill(room.bytes(), std::byte{5});
  static_cast<void>(room.publish());
  return true;
}

bool has(LaterChunks& tier, const ChunkKey& key) {
  return tier.find(key, kChunk).hold.has_value();
}

// Batches want the last 20 chunks that were asked for.
class AllWanted final : public ChunkTier {
 public:
  Found find(const ChunkKey& key, std::uint64_t bytes) override {
    want(key);
    return tier_->find(key, bytes);
  }
  Filling reserve(const ChunkKey& key, std::uint64_t bytes, std::uint64_t note_bytes) override {
    want(key);
    return tier_->reserve(key, bytes, note_bytes);
  }
  Counts counts() const override { return tier_->counts(); }
  void reset_counts() override { tier_->reset_counts(); }

 private:
  void want(const ChunkKey& key) {
    const Lock lock(mutex_);
    wants_.push_back(tier_->want({key}));
    if (wants_.size() > 20) wants_.pop_front();
  }
  Hold publish(std::uint32_t) noexcept override { std::abort(); }
  void discard(std::uint32_t) noexcept override { std::abort(); }

  const std::shared_ptr<LaterChunks> tier_ = tier_of(1 << 20);
  Mutex mutex_;
  std::deque<std::shared_ptr<const void>> wants_ DAMACY_GUARDED_BY(mutex_);
};

struct LaterChunksFixture {
  static std::shared_ptr<ChunkTier> make() { return std::make_shared<AllWanted>(); }
};

TEST(LaterChunks, keeps_what_is_wanted_until_no_batch_wants_it) {
  const auto tier = tier_of(1 << 20);
  EXPECT_FALSE(keep(*tier, key_of(1)));
  auto one = tier->want({key_of(1), key_of(2)});
  auto other = tier->want({key_of(1)});
  EXPECT_TRUE(keep(*tier, key_of(1)) && keep(*tier, key_of(2)));
  EXPECT_FALSE(keep(*tier, key_of(1)));  // it is there
  one.reset();
  EXPECT_TRUE(has(*tier, key_of(1)));
  EXPECT_FALSE(has(*tier, key_of(2)));
  other.reset();
  EXPECT_FALSE(has(*tier, key_of(1)));
  EXPECT_FALSE(tier->is_any_wanted());
}

TEST(LaterChunks, will_be_kept_for_another_batch) {
  const auto tier = tier_of(1 << 20);
  const auto own = tier->want({key_of(1), key_of(2)});
  const auto other = tier->want({key_of(1)});
  EXPECT_TRUE(tier->find(key_of(1), kChunk).may_be_kept);
  EXPECT_FALSE(tier->find(key_of(2), kChunk).may_be_kept);
}

TEST(LaterChunks, a_hold_keeps_the_bytes_and_its_end_gives_their_memory) {
  const auto tier = tier_of(kChunk);
  auto wants = tier->want({key_of(1), key_of(2)});
  ASSERT_TRUE(keep(*tier, key_of(1)));
  {
    const auto found = tier->find(key_of(1), kChunk);
    ASSERT_TRUE(found.hold);
    wants = tier->want({key_of(2)});
    EXPECT_FALSE(keep(*tier, key_of(2)));
    EXPECT_EQ(found.hold->bytes().back(), std::byte{5});
  }
  EXPECT_TRUE(keep(*tier, key_of(2)));
}

TEST(LaterChunks, what_is_filled_when_its_last_batch_ends_is_given_back) {
  const auto tier = tier_of(kChunk);
  auto wants = tier->want({key_of(1)});
  for (const bool is_published : {true, false}) {
    auto room = std::make_optional(tier->reserve(key_of(1), kChunk));
    ASSERT_TRUE(*room);
    wants.reset();
    if (is_published) static_cast<void>(room->publish());
    room.reset();
    wants = tier->want({key_of(1)});
    EXPECT_FALSE(has(*tier, key_of(1)));
  }
  EXPECT_TRUE(keep(*tier, key_of(1)));
}

TEST(LaterChunks, memory_of_one_size_becomes_that_of_another) {
  const auto tier = tier_of(4 * kChunk);
  auto wants = tier->want({key_of(1), key_of(2), key_of(3), key_of(4), key_of(5)});
  for (std::int64_t chunk = 1; chunk <= 4; ++chunk) EXPECT_TRUE(keep(*tier, key_of(chunk)));
  EXPECT_FALSE(keep(*tier, key_of(5)));
  EXPECT_FALSE(tier->reserve(key_of(5), 2 * kChunk));
  wants = tier->want({key_of(5)});
  EXPECT_FALSE(tier->reserve(key_of(5), 4 * kChunk + 1));
  EXPECT_TRUE(tier->reserve(key_of(5), 4 * kChunk));
}

TEST(LaterChunks, another_version_of_the_object_is_another_chunk) {
  const auto tier = tier_of(1 << 20);
  const auto wants = tier->want({key_of(1)});
  ASSERT_TRUE(keep(*tier, key_of(1, 3)));
  EXPECT_TRUE(has(*tier, key_of(1, 3)));
  EXPECT_FALSE(has(*tier, key_of(1, 4)));
}

TEST(LaterChunks, what_is_wanted_beyond_a_number_is_not_kept) {
  const auto tier = tier_of(1 << 20);
  std::vector<ChunkKey> keys;
  for (std::size_t i = 0; i <= LaterChunks::kMostWanted; ++i) keys.push_back(key_of(static_cast<std::int64_t>(i)));
  const auto wants = tier->want(keys);
  EXPECT_TRUE(keep(*tier, keys.front()));
  EXPECT_FALSE(keep(*tier, keys.back()));
}

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Later, ChunkTierSuite, LaterChunksFixture);

}  // namespace damacy
