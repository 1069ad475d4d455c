// What every ChunkTier does. A new implementation joins with
//   struct MyFixture { static std::shared_ptr<ChunkTier> make(); };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, ChunkTierSuite, MyFixture);
// make() gives a tier of about 1 MiB without entries.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/cache/chunk_tier.h"

namespace damacy {

template <class Fixture>
class ChunkTierSuite : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kChunk = 32 << 10;
  const std::shared_ptr<ChunkTier> tier = Fixture::make();

  static ChunkKey key_of(std::int64_t chunk, std::uint64_t array = 1) {
    WideHash version;
    version.add(array);
    return key_of_chunk(version, chunk);
  }
  static bool is_all(std::span<const std::byte> bytes, std::byte value) {
    return std::ranges::all_of(bytes, [value](std::byte b) { return b == value; });
  }
};

TYPED_TEST_SUITE_P(ChunkTierSuite);

TYPED_TEST_P(ChunkTierSuite, shows_a_chunk_only_when_it_is_whole) {
  const ChunkKey key = this->key_of(1);
  EXPECT_FALSE(this->tier->find(key, 100).hold);
  auto filling = this->tier->reserve(key, 100);
  ASSERT_TRUE(filling);
  EXPECT_FALSE(this->tier->find(key, 100).hold);
  EXPECT_FALSE(this->tier->reserve(key, 100));  // it is being filled
  std::ranges::fill(filling.bytes(), std::byte{3});
  {
    const ChunkTier::Hold hold = filling.publish();
    EXPECT_TRUE(this->is_all(hold.bytes(), std::byte{3}));
    EXPECT_TRUE(hold.is_intact());
  }
  const auto found = this->tier->find(key, 100);
  ASSERT_TRUE(found.hold);
  EXPECT_TRUE(this->is_all(found.hold->bytes(), std::byte{3}));
  EXPECT_TRUE(found.hold->is_intact());
  const auto counts = this->tier->counts();
  EXPECT_EQ(counts.hits, (ChunkTier::Count{1, 100}));
  EXPECT_EQ(counts.misses, (ChunkTier::Count{2, 200}));
  EXPECT_EQ(counts.kept, (ChunkTier::Count{1, 100}));
}

TYPED_TEST_P(ChunkTierSuite, gives_back_what_is_not_published) {
  const ChunkKey key = this->key_of(1);
  for (int i = 0; i < 100; ++i) {
    const auto filling = this->tier->reserve(key, this->kChunk);
    ASSERT_TRUE(filling) << i;
  }
  EXPECT_FALSE(this->tier->find(key, this->kChunk).hold);
  EXPECT_EQ(this->tier->counts().kept, ChunkTier::Count{});
}

TYPED_TEST_P(ChunkTierSuite, an_entry_of_another_size_is_a_miss) {
  const ChunkKey key = this->key_of(1);
  this->tier->reserve(key, 100).publish();
  for (const std::uint64_t size : {101u, 99u - static_cast<unsigned>(ChunkTier::kMostInFront), 1u})
    EXPECT_FALSE(this->tier->find(key, size).hold) << size;
  EXPECT_TRUE(this->tier->find(key, 100 - ChunkTier::kMostInFront).hold);
  EXPECT_EQ(this->tier->counts().misses.chunks, 3);
}

TYPED_TEST_P(ChunkTierSuite, tells_keys_apart_that_differ_in_one_bit) {
  ChunkKey key = this->key_of(1);
  this->tier->reserve(key, 100).publish();
  for (std::uint64_t& word : key.words)
    for (unsigned bit = 0; bit < 64; ++bit) {
      word ^= std::uint64_t{1} << bit;
      EXPECT_FALSE(this->tier->find(key, 100).hold);
      word ^= std::uint64_t{1} << bit;
    }
  EXPECT_TRUE(this->tier->find(key, 100).hold);
}

TYPED_TEST_P(ChunkTierSuite, a_chunk_that_is_held_or_filled_keeps_its_bytes) {
  auto filling = this->tier->reserve(this->key_of(0, 98), this->kChunk);
  auto published = this->tier->reserve(this->key_of(0, 99), this->kChunk);
  ASSERT_TRUE(filling && published);
  std::ranges::fill(filling.bytes(), std::byte{1});
  std::ranges::fill(published.bytes(), std::byte{1});
  const ChunkTier::Hold hold = published.publish();
  for (std::int64_t n = 0; n < 3000; ++n) {  // five sets, each in three passes
    const ChunkKey key = this->key_of(n % 200, 1 + static_cast<std::uint64_t>(n / 600));
    if (this->tier->find(key, this->kChunk).hold) continue;
    auto other = this->tier->reserve(key, this->kChunk);
    if (!other) continue;
    std::ranges::fill(other.bytes(), std::byte{2});
    other.publish();
  }
  EXPECT_GT(this->tier->counts().evicted.chunks, 20);
  EXPECT_TRUE(this->is_all(filling.bytes(), std::byte{1}));
  EXPECT_TRUE(this->is_all(hold.bytes(), std::byte{1}));
  EXPECT_TRUE(hold.is_intact());
}

TYPED_TEST_P(ChunkTierSuite, several_threads_find_whole_chunks_only) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned seed = 0; seed < 4; ++seed)
    threads.emplace_back([&, seed] {
      std::mt19937_64 random{seed};
      for (int n = 0; n < 5000; ++n) {
        const auto chunk = static_cast<std::int64_t>(random() % 60);
        const ChunkKey key = this->key_of(chunk, 1 + static_cast<std::uint64_t>(n) / 1000);
        const auto expected = static_cast<std::byte>(chunk);
        const auto found = this->tier->find(key, this->kChunk);
        if (found.hold) {
          wrong += this->is_all(found.hold->bytes(), expected) && found.hold->is_intact() ? 0 : 1;
        } else if (auto filling = this->tier->reserve(key, this->kChunk)) {
          std::ranges::fill(filling.bytes(), expected);
          filling.publish();
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(this->tier->counts().hits.chunks, 0);
  EXPECT_GT(this->tier->counts().evicted.chunks, 0);
}

REGISTER_TYPED_TEST_SUITE_P(ChunkTierSuite, shows_a_chunk_only_when_it_is_whole, gives_back_what_is_not_published,
                            an_entry_of_another_size_is_a_miss, tells_keys_apart_that_differ_in_one_bit,
                            a_chunk_that_is_held_or_filled_keeps_its_bytes, several_threads_find_whole_chunks_only);

}  // namespace damacy
