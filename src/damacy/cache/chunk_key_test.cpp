// Which chunks have one key: those of which all that was hashed is the same.
#include "damacy/cache/chunk_key.h"

#include <set>

#include <gtest/gtest.h>

namespace damacy {
namespace {

ChunkKey key_of(std::initializer_list<std::uint64_t> version, std::int64_t number) {
  WideHash hash;
  hash.add(std::span(version.begin(), version.size()));
  return key_of_chunk(hash, number);
}

// Stamps and numbers are small, and differ little.
TEST(ChunkKey, no_two_of_many_chunks_and_versions_share_a_word_or_a_hash) {
  std::set<std::uint64_t> first, second, hashes;
  std::size_t count = 0;
  for (std::uint64_t array = 0; array < 10; ++array)
    for (std::uint64_t inode = 0; inode < 10; ++inode)
      for (std::uint64_t size = 0; size < 10; ++size)
        for (std::int64_t number = 0; number < 50; ++number, ++count) {
          const ChunkKey key = key_of({array, inode, size}, number);
          first.insert(key.words[0]);
          second.insert(key.words[1]);
          hashes.insert(hash_of(key));
        }
  EXPECT_EQ(first.size(), count);
  EXPECT_EQ(second.size(), count);
  EXPECT_EQ(hashes.size(), count);
}

TEST(ChunkKey, depends_on_nothing_else) {
  EXPECT_EQ(key_of({1, 2}, 3), key_of({1, 2}, 3));
  EXPECT_EQ(hash_of(key_of({1, 2}, 3)), hash_of(key_of({1, 2}, 3)));
}

// Processes find each other's chunks by it.
TEST(ChunkKey, of_another_value_needs_another_layout_of_shared_regions) {
  EXPECT_EQ(key_of({1, 2, 3, 4, 5, 6}, 7), (ChunkKey{{0xdbc504309bc6c442, 0x55ea38c8fb01b363}}));
}

}  // namespace
}  // namespace damacy
