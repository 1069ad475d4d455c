// Which bytes of a record and of a hint have its key: those that processes of other releases look at, too.
#include "damacy/cache/disk/disk_record.h"

#include <algorithm>
#include <string_view>

#include <gtest/gtest.h>

namespace damacy {
namespace {

constexpr ChunkKey kKey{{0x0807060504030201, 0x100f0e0d0c0b0a09}};

::testing::AssertionResult has(std::span<const std::byte> bytes, std::size_t at, std::string_view expected) {
  const auto there = bytes.subspan(at, expected.size());
  if (std::ranges::equal(there, std::as_bytes(std::span(expected)))) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "other bytes at " << at;
}

TEST(DiskRecord, has_its_key_behind_its_length) {
  RecordHeader header;
  header.key = kKey;
  header.length = 0x44332211;
  header.generation = 0x77;
  const RecordHeaderBytes bytes = encode(header);
  EXPECT_TRUE(has(bytes, 0, "rec1\x11\x22\x33\x44"));
  EXPECT_TRUE(has(bytes, 8, "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x77"));
  EXPECT_EQ(parse_record_header(bytes), header);
}

TEST(DiskRecord, that_was_removed_has_no_key) {
  RecordHeader header;
  header.key = kKey;
  header.length = 9;
  EXPECT_FALSE(header.is_removed());
  const auto gone = parse_record_header(encode(removed(header)));
  ASSERT_TRUE(gone);
  EXPECT_TRUE(gone->is_removed());
  EXPECT_EQ(record_bytes(*gone), record_bytes(header));
}

TEST(DiskRecord, has_a_hint_that_begins_with_the_second_word_of_its_key) {
  EXPECT_TRUE(has(encode(Hint{.tag = kKey.words[1], .generation = 1}), 0, "\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x01"));
}

}  // namespace
}  // namespace damacy
