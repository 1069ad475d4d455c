// What the disk tier writes: headers of segments, records and hints, as bytes. Everything is little-endian and carries
// a crc32c, so that damage is noticed and reads as absence. Knows bytes; opens no file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "damacy/cache/chunk_key.h"

namespace damacy {

// A segment has its header, then records one after the other.
struct SegmentHeader {
  static constexpr std::size_t kBytes = 64;
  static constexpr std::uint64_t kFirstRecord = 4096;
  static constexpr std::uint64_t kUses = 64;  // offset of a counter that readers add to, without a checksum

  std::uint64_t generation = 0;     // another one each time the segment is used again
  std::uint64_t segment_bytes = 0;  // of the file
  std::uint64_t records = 0;        // of a segment that is full
  std::uint64_t payload_bytes = 0;  // of these records
  bool is_full = false;             // no more records follow
  friend bool operator==(const SegmentHeader&, const SegmentHeader&) = default;
};
using SegmentHeaderBytes = std::array<std::byte, SegmentHeader::kBytes>;
[[nodiscard]] SegmentHeaderBytes encode(const SegmentHeader& header) noexcept;
[[nodiscard]] std::optional<SegmentHeader> parse_segment_header(std::span<const std::byte> bytes) noexcept;

// A record is its header, the bytes and their name, padded to kAlignment. Readers of the bytes do not need the name.
struct RecordHeader {
  static constexpr std::size_t kBytes = 64;
  static constexpr std::uint64_t kAlignment = 64;
  static constexpr std::size_t kMostName = 2048;

  ChunkKey key;
  std::uint64_t generation = 0;     // of the segment
  std::uint32_t length = 0;         // of the bytes
  std::uint32_t checksum = 0;       // crc32c of the bytes
  std::uint32_t name_length = 0;    // 0 in records of versions that kept no names
  std::uint32_t name_checksum = 0;  // crc32c of the name
  friend bool operator==(const RecordHeader&, const RecordHeader&) = default;

  // What is left of a record that was removed: its place. No entry has the key 0.
  bool is_removed() const noexcept { return key == ChunkKey{}; }
};
using RecordHeaderBytes = std::array<std::byte, RecordHeader::kBytes>;
[[nodiscard]] RecordHeaderBytes encode(const RecordHeader& header) noexcept;
[[nodiscard]] std::optional<RecordHeader> parse_record_header(std::span<const std::byte> bytes) noexcept;
[[nodiscard]] constexpr std::uint64_t record_bytes(std::uint64_t length, std::uint64_t name_length) noexcept {
  return (RecordHeader::kBytes + length + name_length + RecordHeader::kAlignment - 1) / RecordHeader::kAlignment *
         RecordHeader::kAlignment;
}
[[nodiscard]] constexpr std::uint64_t record_bytes(const RecordHeader& header) noexcept {
  return record_bytes(header.length, header.name_length);
}
// The header that takes the place of another when its record is removed.
[[nodiscard]] RecordHeader removed(const RecordHeader& header) noexcept;

// Where a record probably is. The index file is an array of buckets of hints.
struct Hint {
  static constexpr std::size_t kBytes = 32;

  std::uint64_t tag = 0;  // the second word of the key; the first chooses the bucket
  std::uint64_t generation = 0;
  std::uint64_t offset = 0;
  std::uint32_t segment = 0;
  std::uint32_t length = 0;
  friend bool operator==(const Hint&, const Hint&) = default;
};
using HintBytes = std::array<std::byte, Hint::kBytes>;
[[nodiscard]] HintBytes encode(const Hint& hint) noexcept;
[[nodiscard]] std::optional<Hint> parse_hint(std::span<const std::byte> bytes) noexcept;

struct IndexHeader {
  static constexpr std::size_t kBytes = 64;
  static constexpr std::uint64_t kFirstBucket = 4096;
  static constexpr std::size_t kHintsABucket = 8;
  static constexpr std::uint64_t kBucketBytes = kHintsABucket * Hint::kBytes;

  std::uint64_t buckets = 0;
  std::uint64_t segment_bytes = 0;  // of segments that are made
  friend bool operator==(const IndexHeader&, const IndexHeader&) = default;
};
using IndexHeaderBytes = std::array<std::byte, IndexHeader::kBytes>;
[[nodiscard]] IndexHeaderBytes encode(const IndexHeader& header) noexcept;
[[nodiscard]] std::optional<IndexHeader> parse_index_header(std::span<const std::byte> bytes) noexcept;

}  // namespace damacy
