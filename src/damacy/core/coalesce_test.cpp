#include "damacy/core/coalesce.h"

#include <random>

#include <gtest/gtest.h>

namespace damacy {
namespace {

using Reads = std::vector<MergedRead>;

TEST(Coalesce, reads_at_most_a_quarter_of_gaps_where_most_must_be_wanted) {
  // 300 bytes wanted and a gap of 100 are 400: just a quarter. One byte more is too much.
  const std::vector<Piece> pieces{{0, 200, 0}, {300, 100, 1}, {501, 100, 2}};
  EXPECT_EQ(coalesce(pieces, 1000, 10'000, /*mostly_wanted=*/true),
            (std::vector<MergedRead>{{0, 400, 0, 2}, {501, 100, 2, 1}}));
  const std::vector<Piece> apart{{0, 200, 0}, {301, 100, 1}};
  EXPECT_EQ(coalesce(apart, 1000, 10'000, /*mostly_wanted=*/true).size(), 2u);
  EXPECT_EQ(coalesce(apart, 1000, 10'000).size(), 1u);
}

TEST(Coalesce, joins_pieces_whose_gap_is_small) {
  const std::vector<Piece> pieces{{0, 4, 1}, {8, 4, 2}, {17, 4, 3}};
  EXPECT_EQ(coalesce(pieces, 4, 100), (Reads{{0, 12, 0, 2}, {17, 4, 2, 1}}));
  EXPECT_EQ(coalesce(pieces, 5, 100), (Reads{{0, 21, 0, 3}}));
}

TEST(Coalesce, grows_to_its_cap_exactly) {
  const std::vector<Piece> pieces{{10, 6, 1}, {16, 4, 2}};
  EXPECT_EQ(coalesce(pieces, 0, 10), (Reads{{10, 10, 0, 2}}));
  EXPECT_EQ(coalesce(pieces, 0, 9), (Reads{{10, 6, 0, 1}, {16, 4, 1, 1}}));
}

TEST(Coalesce, leaves_a_large_piece_alone) {
  const std::vector<Piece> pieces{{0, 4, 1}, {4, 50, 2}, {54, 4, 3}};
  EXPECT_EQ(coalesce(pieces, 0, 10), (Reads{{0, 4, 0, 1}, {4, 50, 1, 1}, {54, 4, 2, 1}}));
}

TEST(Coalesce, overlapping_and_repeated_pieces_are_read_once) {
  const std::vector<Piece> pieces{{0, 8, 1}, {0, 8, 2}, {4, 8, 3}, {5, 1, 4}};
  EXPECT_EQ(coalesce(pieces, 0, 100), (Reads{{0, 12, 0, 4}}));
  const std::vector<Piece> large{{0, 50, 1}, {0, 50, 2}, {10, 5, 3}};
  EXPECT_EQ(coalesce(large, 0, 10), (Reads{{0, 50, 0, 3}}));
}

TEST(Coalesce, nothing_gives_nothing_and_no_number_overflows) {
  EXPECT_TRUE(coalesce({}).empty());
  const std::uint64_t most = ~std::uint64_t{0};
  const std::vector<Piece> pieces{{0, most, 1}, {most - 1, most, 2}, {most, most, 3}};
  std::size_t served = 0;
  for (const MergedRead& read : coalesce(pieces, most, most)) served += read.count;
  EXPECT_EQ(served, 3u);
}

TEST(Coalesce, random_pieces_are_all_inside_their_reads) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<Piece> pieces(random() % 40);
    for (Piece& piece : pieces) piece = {random() % 2000, random() % 60, random()};
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
    const std::uint64_t gap = random() % 20;
    const std::uint64_t cap = 1 + random() % 200;
    std::size_t next = 0;
    for (const MergedRead& read : coalesce(pieces, gap, cap)) {
      ASSERT_EQ(read.first, next);
      ASSERT_GT(read.count, 0u);
      next += read.count;
      std::uint64_t largest = 0;
      for (std::size_t i = read.first; i < next; ++i) {
        ASSERT_GE(pieces[i].offset, read.offset);
        ASSERT_LE(pieces[i].offset + pieces[i].size, read.offset + read.size);
        largest = std::max(largest, pieces[i].size);
      }
      ASSERT_LE(read.size, std::max(cap, largest));
    }
    ASSERT_EQ(next, pieces.size());
  }
}

}  // namespace
}  // namespace damacy
