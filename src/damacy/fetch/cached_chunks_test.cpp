// Which chunks a cache is asked for, by which keys, and what it keeps of them.
#include "damacy/fetch/cached_chunks.h"

#include "damacy/cache/chunk_cache.h"
#include "fakes/fake_chunks.h"

namespace damacy {
namespace {

using Form = CachedChunks::Form;
using testing::FakeChunk;
using testing::FakeChunks;
using testing::raw_chunk;

constexpr std::size_t kBytes = 1000;
constexpr Form kForms[] = {Form::decoded, Form::encoded, Form::described, Form::described_on_host};

// Keeps nothing, and notes what it is asked.
class NotingTier final : public ChunkTier {
 public:
  Found find(const ChunkKey& key, std::uint64_t bytes) override {
    found.push_back(key);
    sizes.push_back(bytes);
    return {{}, bytes < most};
  }
  void prefetch(std::span<const ChunkKey> keys) const override { prefetched.emplace_back(keys.begin(), keys.end()); }
  Filling reserve(const ChunkKey& key, std::uint64_t bytes, std::uint64_t) override {
    reserved.push_back(key);
    sizes.push_back(bytes);
    return {};
  }
  Counts counts() const override { return {}; }
  void reset_counts() override {}

  std::vector<ChunkKey> found, reserved;
  mutable std::vector<std::vector<ChunkKey>> prefetched;
  std::vector<std::uint64_t> sizes;
  std::uint64_t most = ~std::uint64_t{0};

 private:
  Hold publish(std::uint32_t) noexcept override { std::abort(); }
  void discard(std::uint32_t) noexcept override {}
};

std::vector<FakeChunk> some(std::size_t count) {
  return std::vector<FakeChunk>(count, raw_chunk(kBytes, {{0, kBytes}}));
}

TEST(CachedChunks, of_one_form_are_found_under_the_same_key_by_a_later_job_and_of_others_under_none) {
  const auto first = FakeChunks::make(some(2)), later = FakeChunks::make(some(2));
  for (const Form kept : kForms) {
    ChunkCache cache(1 << 20, std::make_shared<PageAlloc>());
    CachedChunks keeping(*first, &cache, kept);
    auto room = keeping.reserve(1);
    ASSERT_TRUE(room);
    static_cast<void>(room.publish());
    for (const Form form : kForms) {
      CachedChunks finding(*later, &cache, form);
      EXPECT_FALSE(finding.find(0));
      EXPECT_EQ(finding.find(1).has_value(), form == kept);
    }
  }
}

TEST(CachedChunks, whose_changes_would_not_be_noticed_are_neither_looked_up_nor_kept) {
  for (const bool is_versioned : {true, false}) {
    NotingTier tier;
    const auto chunks = FakeChunks::make(some(2), {.is_versioned = is_versioned});
    CachedChunks cached(*chunks, &tier);
    EXPECT_EQ(cached.is_asked_for(0), is_versioned);
    EXPECT_FALSE(cached.find(0));
    EXPECT_EQ(cached.may_be_kept(0), is_versioned);
    EXPECT_FALSE(cached.reserve(0));
    EXPECT_EQ(tier.found.size() + tier.reserved.size(), is_versioned ? 2u : 0u);
  }
}

TEST(CachedChunks, without_a_cache_are_not_found_and_not_kept) {
  const auto chunks = FakeChunks::make(some(1));
  CachedChunks cached(*chunks, nullptr);
  EXPECT_FALSE(cached.is_asked_for(0));
  EXPECT_FALSE(cached.find(0));
  EXPECT_FALSE(cached.may_be_kept(0));
  EXPECT_FALSE(cached.reserve(0));
}

TEST(CachedChunks, have_the_size_of_what_is_kept_and_may_be_kept_if_the_tier_says_so) {
  FakeChunk packed = raw_chunk(kBytes, {{0, kBytes}});
  packed.stored.resize(kBytes / 2);
  for (const Form form : kForms) {
    NotingTier tier;
    tier.most = kBytes;
    const auto chunks = FakeChunks::make({packed});
    CachedChunks cached(*chunks, &tier, form);
    EXPECT_FALSE(cached.may_be_kept(0));
    static_cast<void>(cached.find(0));
    EXPECT_EQ(cached.may_be_kept(0), form != Form::decoded);
    static_cast<void>(cached.reserve(0));
    const std::uint64_t bytes = form == Form::decoded ? kBytes : kBytes / 2;
    EXPECT_EQ(tier.sizes, (std::vector<std::uint64_t>{bytes, bytes}));
    EXPECT_EQ(tier.found, tier.reserved);
  }
}

TEST(CachedChunks, are_prefetched_before_their_look_ups_if_they_are_stored_and_not_the_last_alone) {
  std::vector<FakeChunk> all = some(33);
  all[3].missing = true;
  all[5].failed = true;
  const auto chunks = FakeChunks::make(std::move(all));
  NotingTier tier;
  CachedChunks cached(*chunks, &tier);
  for (std::uint32_t chunk = 0; chunk < 33; ++chunk)
    if (chunk != 3 && chunk != 5) static_cast<void>(cached.find(chunk));
  ASSERT_EQ(tier.prefetched.size(), 1u);
  ASSERT_EQ(tier.found.size(), 31u);
  tier.found.pop_back();
  EXPECT_EQ(tier.prefetched.front(), tier.found);
}

}  // namespace
}  // namespace damacy
