#include "damacy/fetch/chunk_reuse.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace damacy {
namespace {

std::uint64_t hash_of(std::uint64_t chunk) {
  std::mt19937_64 random(chunk);
  return random();
}

TEST(ChunkReuse, counts_few_chunks_exactly) {
  ChunkReuse reuse;
  EXPECT_EQ(reuse.seen().again, 0);
  for (int time = 0; time < 4; ++time)
    for (std::uint64_t chunk = 0; chunk < 100; ++chunk) reuse.add(hash_of(chunk), 10 + chunk, 1000);
  EXPECT_DOUBLE_EQ(reuse.seen().again, 0.75);
  EXPECT_DOUBLE_EQ(reuse.seen().encoded_bytes, 1000 + 99 * 50);
  EXPECT_DOUBLE_EQ(reuse.seen().decoded_bytes, 100'000);
  EXPECT_EQ(reuse.seen().largest_chunk_bytes, 1000u);
}

TEST(ChunkReuse, weighs_what_is_wanted_again_by_its_bytes) {
  ChunkReuse reuse;
  reuse.add(1, 300, 0);
  reuse.add(2, 100, 0);
  reuse.add(2, 100, 0);
  EXPECT_DOUBLE_EQ(reuse.seen().again, 0.2);
}

TEST(ChunkReuse, estimates_many_chunks_within_a_tenth) {
  ChunkReuse reuse;
  for (int time = 0; time < 2; ++time)
    for (std::uint64_t chunk = 0; chunk < 200'000; ++chunk) reuse.add(hash_of(chunk), 500 + chunk % 1001, 4000);
  EXPECT_NEAR(reuse.seen().again, 0.5, 1e-9);  // of sampled chunks all times count
  EXPECT_NEAR(reuse.seen().encoded_bytes / (200'000 * 1000.0), 1, 0.1);
  EXPECT_NEAR(reuse.seen().decoded_bytes / (200'000 * 4000.0), 1, 0.1);
}

TEST(ChunkReuse, sees_nothing_again_where_each_chunk_comes_once) {
  ChunkReuse reuse;
  for (std::uint64_t chunk = 0; chunk < 50'000; ++chunk) reuse.add(hash_of(chunk), 100, 100);
  EXPECT_EQ(reuse.seen().again, 0);
}

TEST(ChunkReuse, finds_sampled_chunks_whatever_their_slots_are) {
  // Hashes that want the last slots of the table, whose runs pass its end, while the sample is halved again and again.
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 20; ++trial) {
    ChunkReuse reuse;
    std::set<std::uint64_t> hashes;
    while (hashes.size() < 6000) {
      const std::uint64_t slot = 2 * ChunkReuse::kMostSampled - 1 - random() % 700;
      hashes.insert((random() & ~std::uint64_t{2 * ChunkReuse::kMostSampled - 1}) | slot);
    }
    for (const std::uint64_t hash : hashes) reuse.add(hash, 1, 1);
    for (const std::uint64_t hash : hashes) reuse.add(hash, 1, 1);
    ASSERT_DOUBLE_EQ(reuse.seen().again, 0.5);
  }
}

TEST(ChunkReuse, starts_anew_after_a_reset) {
  ChunkReuse reuse;
  for (std::uint64_t chunk = 0; chunk < 50'000; ++chunk) reuse.add(hash_of(chunk), 100, 100);
  reuse.reset();
  reuse.add(hash_of(7), 5, 50);
  EXPECT_EQ(reuse.seen().again, 0);
  EXPECT_DOUBLE_EQ(reuse.seen().decoded_bytes, 50);
}

}  // namespace
}  // namespace damacy
