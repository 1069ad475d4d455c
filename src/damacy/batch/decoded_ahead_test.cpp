// How long decoded chunks stay that batches want.
#include "damacy/batch/decoded_ahead.h"

#include <deque>

#include <gtest/gtest.h>

#include "conformance/chunk_tier_suite.h"

namespace damacy {
namespace {

constexpr std::uint64_t kPiece = Arena::kPieceAlignment;
using Wanted = DecodedAhead::Wanted;

ChunkKey key_of(std::int64_t chunk, std::uint64_t version = 1) {
  WideHash of;
  of.add(version);
  return key_of_chunk(of, chunk);
}

// Every chunk that is asked for is wanted by a batch of its own, until 150 others are.
class WantsTheLast final : public ChunkTier {
 public:
  Found find(const ChunkKey& key, std::uint64_t bytes) override {
    want(key);
    return of_->find(key, bytes);
  }
  Filling reserve(const ChunkKey& key, std::uint64_t bytes, std::uint64_t note_bytes) override {
    want(key);
    return of_->reserve(key, bytes, note_bytes);
  }
  Counts counts() const override { return of_->counts(); }
  void reset_counts() override { of_->reset_counts(); }

 private:
  Hold publish(std::uint32_t) noexcept override { std::abort(); }
  void discard(std::uint32_t) noexcept override { std::abort(); }
  void want(const ChunkKey& key) {
    const std::uint64_t place = hash_of(key);
    auto wanted = std::make_unique<Wanted>(of_, std::span(&place, 1));
    const DecodedAhead::Named named{place, key};
    of_->name({&named, 1});
    const Lock lock(mutex_);
    wanted_.push_back(std::move(wanted));
    if (wanted_.size() > 150) wanted_.pop_front();
  }

  const std::shared_ptr<DecodedAhead> of_ = std::make_shared<DecodedAhead>(std::make_shared<PageAlloc>(), 1 << 20);
  Mutex mutex_;
  std::deque<std::unique_ptr<Wanted>> wanted_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace

struct OfBatches {
  static std::shared_ptr<ChunkTier> make() { return std::make_shared<WantsTheLast>(); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(OfBatches, ChunkTierSuite, OfBatches);

namespace {

class DecodedAheadTest : public ::testing::Test {
 protected:
  std::unique_ptr<Wanted> want(std::vector<DecodedAhead::Place> places) const {
    return std::make_unique<Wanted>(ahead, places);
  }
  void name(std::vector<DecodedAhead::Named> chunks) const { ahead->name(chunks); }
  // True: it is kept.
  bool decode(const ChunkKey& key, std::uint64_t bytes = kPiece) const {
    auto filling = ahead->reserve(key, bytes);
    if (!filling) return false;
    static_cast<void>(filling.publish());
    return true;
  }
  bool is_there(const ChunkKey& key) const { return ahead->find(key, kPiece).hold.has_value(); }

  const std::shared_ptr<DecodedAhead> ahead = std::make_shared<DecodedAhead>(std::make_shared<PageAlloc>(), 3 * kPiece);
};

TEST_F(DecodedAheadTest, a_chunk_stays_until_the_last_batch_that_wants_it_took_it) {
  auto first = want({1, 2}), second = want({2}), third = want({2, 3});
  name({{1, key_of(1)}, {2, key_of(2)}});
  EXPECT_TRUE(decode(key_of(1)) && decode(key_of(2)));
  first.reset();
  EXPECT_FALSE(is_there(key_of(1)));
  EXPECT_TRUE(is_there(key_of(2)));
  third.reset();
  EXPECT_TRUE(is_there(key_of(2)));
  second.reset();
  EXPECT_FALSE(is_there(key_of(2)));
  const auto all = want({9});
  name({{9, key_of(9)}});
  EXPECT_TRUE(decode(key_of(9), 3 * kPiece));
}

TEST_F(DecodedAheadTest, what_no_other_batch_wants_is_not_kept) {
  auto own = want({1});
  name({{1, key_of(1)}, {2, key_of(2)}});
  own.reset();
  EXPECT_FALSE(decode(key_of(1)));
  EXPECT_FALSE(decode(key_of(2)));
  EXPECT_EQ(ahead->peak(), 0u);
}

TEST_F(DecodedAheadTest, what_has_no_room_is_not_kept) {
  const auto wanted = want({1, 2, 3, 4});
  for (std::int64_t chunk = 1; chunk <= 4; ++chunk) {
    name({{static_cast<DecodedAhead::Place>(chunk), key_of(chunk)}});
    EXPECT_EQ(decode(key_of(chunk)), chunk < 4);
  }
  const auto large = want({5});
  name({{5, key_of(5)}});
  EXPECT_FALSE(decode(key_of(5), 4 * kPiece));
  EXPECT_EQ(ahead->peak(), 3 * kPiece);
}

TEST_F(DecodedAheadTest, another_version_of_a_chunk_takes_its_place) {
  const auto wanted = want({1});
  name({{1, key_of(1)}});
  EXPECT_TRUE(decode(key_of(1)));
  name({{1, key_of(1)}});
  EXPECT_TRUE(is_there(key_of(1)));
  name({{1, key_of(1, 2)}});
  EXPECT_FALSE(is_there(key_of(1)));
  EXPECT_FALSE(is_there(key_of(1, 2)));
  EXPECT_FALSE(decode(key_of(1)));
  EXPECT_TRUE(decode(key_of(1, 2)));
}

TEST_F(DecodedAheadTest, what_is_held_or_filled_lasts_longer_than_it_is_wanted) {
  auto wanted = want({1, 2});
  name({{1, key_of(1)}, {2, key_of(2)}});
  auto filled = ahead->reserve(key_of(1), kPiece), held = ahead->reserve(key_of(2), kPiece);
  ASSERT_TRUE(filled && held);
  std::ranges::fill(held.bytes(), std::byte{2});
  auto hold = std::make_unique<ChunkTier::Hold>(held.publish());
  wanted.reset();
  EXPECT_FALSE(is_there(key_of(2)));
  const auto others = want({3, 4});
  name({{3, key_of(3)}, {4, key_of(4)}});
  auto other = ahead->reserve(key_of(3), kPiece);
  ASSERT_TRUE(other);
  std::ranges::fill(other.bytes(), std::byte{3});
  EXPECT_FALSE(ahead->reserve(key_of(4), kPiece));
  EXPECT_TRUE(std::ranges::all_of(hold->bytes(), [](std::byte b) { return b == std::byte{2}; }));
  hold.reset();
  EXPECT_TRUE(decode(key_of(4)));
  static_cast<void>(filled.publish());
  EXPECT_FALSE(is_there(key_of(1)));
}

// Where hashes collide.
TEST_F(DecodedAheadTest, two_places_may_have_the_same_chunk) {
  auto first = want({1}), second = want({2});
  name({{1, key_of(1)}, {2, key_of(1)}});
  EXPECT_TRUE(decode(key_of(1)));
  first.reset();
  EXPECT_TRUE(is_there(key_of(1)));
  second.reset();
  EXPECT_FALSE(is_there(key_of(1)));
}

}  // namespace
}  // namespace damacy
