#include "damacy/zarr/shard_index.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "damacy/core/formatted.h"
#include "support/documents.h"

namespace damacy {
namespace {

using for_tests::accepted;
using for_tests::over_limit;
using for_tests::Refusal;
using for_tests::refusal_of;
using for_tests::wrong;

constexpr std::uint64_t kMissing = ~std::uint64_t{0};
using Entries = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

void append(std::vector<std::byte>& bytes, std::uint64_t value, std::size_t size, bool big_endian) {
  for (std::size_t i = 0; i < size; ++i)
    bytes.push_back(static_cast<std::byte>(value >> (8 * (big_endian ? size - 1 - i : i))));
}

std::vector<std::byte> encoded(const Entries& entries, const ShardIndexLayout& layout) {
  std::vector<std::byte> bytes;
  for (const auto& [offset, size] : entries) {
    append(bytes, offset, 8, layout.big_endian);
    append(bytes, size, 8, layout.big_endian);
  }
  for (std::uint32_t i = 0; i < layout.checksums; ++i) append(bytes, crc32c(bytes), 4, false);
  return bytes;
}

constexpr ShardIndexLayout kAtEnd{.at_end = true, .big_endian = false, .checksums = 1};
constexpr ShardIndexLayout kAtStart{.at_end = false, .big_endian = false, .checksums = 1};
constexpr ShardIndex::Rules kRules{.object_bytes = 1000, .max_chunk_bytes = 500, .exact_chunk_bytes = {}};

ShardIndex parsed(const Entries& entries, const ShardIndexLayout& layout = kAtEnd,
                  const ShardIndex::Rules& rules = kRules) {
  return ShardIndex::parse(encoded(entries, layout), entries.size(), layout, rules);
}
Refusal refusal(const Entries& entries, const ShardIndexLayout& layout = kAtEnd,
                const ShardIndex::Rules& rules = kRules) {
  return refusal_of([&] { parsed(entries, layout, rules); });
}

TEST(ShardIndex, has_sixteen_bytes_an_entry_and_four_a_checksum) {
  EXPECT_EQ(ShardIndex::encoded_bytes(4, kAtEnd), 68u);
  EXPECT_EQ(ShardIndex::encoded_bytes(4, {.checksums = 0}), 64u);
  EXPECT_EQ(ShardIndex::encoded_bytes(0, {.checksums = 2}), 8u);
}

TEST(ShardIndex, reads_the_offsets_that_zarr_python_writes_in_morton_order) {
  const ShardIndex index = parsed({{0, 8}, {16, 8}, {8, 8}, {24, 8}}, kAtEnd,
                                  {.object_bytes = 32 + 68, .max_chunk_bytes = 8, .exact_chunk_bytes = 8});
  ASSERT_EQ(index.chunk_count(), 4u);
  const std::uint64_t begins[] = {0, 16, 8, 24};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(index.find(i), (ByteRange{begins[i], begins[i] + 8}));
}

TEST(ShardIndex, two_sentinels_are_a_missing_chunk_and_one_is_an_error) {
  EXPECT_EQ(parsed({{kMissing, kMissing}}).find(0), std::nullopt);
  EXPECT_EQ(refusal({{kMissing, 8}}), wrong("shard-index", ""));
  EXPECT_EQ(refusal({{8, kMissing}}), wrong("shard-index", ""));
}

TEST(ShardIndex, may_be_big_endian_without_checksum_or_with_two) {
  for (const bool big : {false, true})
    for (const std::uint32_t checksums : {0u, 1u, 2u}) {
      const auto index = parsed({{5, 6}}, {.at_end = true, .big_endian = big, .checksums = checksums});
      EXPECT_EQ(index.find(0), (ByteRange{5, 11}));
    }
}

TEST(ShardIndex, names_the_stored_and_the_computed_checksum) {
  for (const std::uint32_t checksums : {1u, 2u}) {
    const ShardIndexLayout layout{.checksums = checksums};
    auto bytes = encoded({{1, 2}}, layout);
    const auto computed = crc32c(std::span(bytes).first(bytes.size() - 4));
    bytes.back() ^= std::byte{1};
    try {
      ShardIndex::parse(bytes, 1, layout, kRules);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.where().reason, "shard-index");
      EXPECT_EQ(e.message(),
                formatted("checksum of the index: stored {}, computed {}", computed ^ 0x1000000, computed));
    }
  }
}

TEST(ShardIndex, every_checksum_counts) {
  const ShardIndexLayout layout{.checksums = 2};
  auto bytes = encoded({{1, 2}}, layout);
  bytes.resize(16);
  append(bytes, crc32c(bytes) ^ 1, 4, false);  // the inner one is wrong, the outer one right
  append(bytes, crc32c(bytes), 4, false);
  EXPECT_EQ(refusal_of([&] { ShardIndex::parse(bytes, 1, layout, kRules); }), wrong("shard-index", ""));
}

TEST(ShardIndex, a_chunk_ends_before_an_index_at_the_end) {
  const std::uint64_t index_bytes = 20;
  EXPECT_EQ(refusal({{1000 - index_bytes - 8, 7}}), accepted());
  EXPECT_EQ(refusal({{1000 - index_bytes - 8, 8}}), accepted());
  EXPECT_EQ(refusal({{1000 - index_bytes - 8, 9}}), wrong("shard-index", ""));
  EXPECT_EQ(refusal({{0, 1}}), accepted());
}

TEST(ShardIndex, a_chunk_begins_behind_an_index_at_the_start) {
  EXPECT_EQ(refusal({{19, 8}}, kAtStart), wrong("shard-index", ""));
  EXPECT_EQ(refusal({{20, 8}}, kAtStart), accepted());
  EXPECT_EQ(refusal({{992, 7}}, kAtStart), accepted());
  EXPECT_EQ(refusal({{992, 8}}, kAtStart), accepted());
  EXPECT_EQ(refusal({{992, 9}}, kAtStart), wrong("shard-index", ""));
}

TEST(ShardIndex, sums_do_not_wrap) {
  EXPECT_EQ(refusal({{kMissing - 1, 3}}), wrong("shard-index", ""));
  EXPECT_EQ(refusal({{3, kMissing - 1}}), wrong("shard-index", ""));
  EXPECT_EQ(refusal({{std::uint64_t{1} << 63, std::uint64_t{1} << 63}}), wrong("shard-index", ""));
}

TEST(ShardIndex, a_chunk_is_not_empty_and_within_its_limit) {
  EXPECT_EQ(refusal({{0, 0}}), wrong("shard-index", ""));
  EXPECT_EQ(refusal({{0, 499}}), accepted());
  EXPECT_EQ(refusal({{0, 500}}), accepted());
  EXPECT_EQ(refusal({{0, 501}}), over_limit(""));
}

TEST(ShardIndex, without_a_compressor_there_is_one_size) {
  const ShardIndex::Rules rules{.object_bytes = 1000, .max_chunk_bytes = 500, .exact_chunk_bytes = 64};
  EXPECT_EQ(refusal({{0, 63}}, kAtEnd, rules), wrong("shard-index", ""));
  EXPECT_EQ(refusal({{0, 64}}, kAtEnd, rules), accepted());
  EXPECT_EQ(refusal({{0, 65}}, kAtEnd, rules), wrong("shard-index", ""));
}

TEST(ShardIndex, ranges_may_repeat_overlap_and_leave_gaps) {
  EXPECT_EQ(refusal({{100, 50}, {100, 50}, {120, 10}, {0, 1}, {900, 3}}), accepted());
}

TEST(ShardIndex, an_object_too_short_for_its_index_is_a_short_read) {
  const auto bytes = encoded({{0, 1}}, kAtEnd);
  const auto error = refusal_of([&] {
    ShardIndex::parse(bytes, 1, kAtEnd, {.object_bytes = 19, .max_chunk_bytes = 1, .exact_chunk_bytes = {}});
  });
  EXPECT_EQ(error, (Refusal{Status::io, ErrorKind::plain, "short-read", ""}));
}

TEST(ShardIndex, without_entries_finds_nothing) {
  EXPECT_EQ(ShardIndex().chunk_count(), 0u);
}

// Whatever is in the entries: an error, or ranges that obey every rule, checked here in more bits.
TEST(ShardIndex, random_entries_are_refused_or_obey_the_rules) {
  std::mt19937_64 random(7);
  const std::uint64_t edges[] = {0,   1,   19,  20,   21,   499,          500,      501,
                                 979, 980, 999, 1000, 1001, kMissing - 1, kMissing, std::uint64_t{1} << 63};
  const auto any = [&] {
    const auto kind = random() % 4;
    return kind == 0 ? edges[random() % std::size(edges)] : kind == 3 ? random() : random() % 1100;
  };
  int kept = 0;
  for (int i = 0; i < 20000; ++i) {
    const ShardIndexLayout layout{.at_end = random() % 2 == 0, .big_endian = random() % 2 == 0, .checksums = 1};
    const std::pair<std::uint64_t, std::uint64_t> entry{any(), any()};
    const __int128 end = static_cast<__int128>(entry.first) + entry.second;
    const bool missing = entry.first == kMissing && entry.second == kMissing;
    const bool legal =
        missing || (entry.first != kMissing && entry.second != kMissing && entry.second != 0 &&
                    end <= (layout.at_end ? 980 : 1000) && (layout.at_end || entry.first >= 20) && entry.second <= 500);
    const auto error = refusal({entry}, layout);
    ASSERT_EQ(error == accepted(), legal) << entry.first << " " << entry.second;
    kept += legal ? 1 : 0;
  }
  EXPECT_GT(kept, 1000);
}

TEST(ShardIndex, a_changed_bit_anywhere_is_found) {
  const auto good = encoded({{0, 8}, {16, 8}, {kMissing, kMissing}}, kAtEnd);
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    auto bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(refusal_of([&] { ShardIndex::parse(bad, 3, kAtEnd, kRules); }), wrong("shard-index", ""));
  }
}

}  // namespace
}  // namespace damacy
