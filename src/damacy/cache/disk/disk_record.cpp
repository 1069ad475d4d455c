#include "damacy/cache/disk/disk_record.h"

#include <algorithm>
#include <concepts>

#include "damacy/codec/chain.h"

namespace damacy {
namespace {

constexpr std::uint64_t kSegmentMagic = 0x31676553'63616d64;  // "dmacSeg1"
constexpr std::uint64_t kIndexMagic = 0x31786449'63616d64;    // "dmacIdx1"
constexpr std::uint32_t kRecordMagic = 0x31636572;            // "rec1"

// Little-endian numbers, one after the other; the last four bytes are the checksum of the others.
template <std::size_t Bytes>
class Writer {
 public:
  template <std::unsigned_integral Number>
  Writer& put(Number number) noexcept {
    for (std::size_t i = 0; i < sizeof number; ++i) bytes_[at_++] = static_cast<std::byte>(number >> (8 * i));
    return *this;
  }
  std::array<std::byte, Bytes> closed() noexcept {
    const std::uint32_t checksum = crc32c(std::span(bytes_).first(Bytes - sizeof(std::uint32_t)));
    at_ = Bytes - sizeof checksum;
    put(checksum);
    return bytes_;
  }

 private:
  std::array<std::byte, Bytes> bytes_{};
  std::size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
  template <std::unsigned_integral Number>
  Number get() noexcept {
    Number number = 0;
    for (std::size_t i = 0; i < sizeof number; ++i)
      number = static_cast<Number>(number | static_cast<Number>(bytes_[at_++]) << (8 * i));
    return number;
  }
  bool is_whole(std::size_t bytes) const noexcept {
    if (bytes_.size() < bytes) return false;
    Reader end(bytes_.subspan(bytes - sizeof(std::uint32_t)));
    return end.get<std::uint32_t>() == crc32c(bytes_.first(bytes - sizeof(std::uint32_t)));
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace

SegmentHeaderBytes encode(const SegmentHeader& header) noexcept {
  Writer<SegmentHeader::kBytes> out;
  out.put(kSegmentMagic).put(header.generation).put(header.segment_bytes).put(header.records);
  out.put(header.payload_bytes).put(std::uint32_t{header.is_full});
  return out.closed();
}

std::optional<SegmentHeader> parse_segment_header(std::span<const std::byte> bytes) noexcept {
  Reader in(bytes);
  if (!in.is_whole(SegmentHeader::kBytes) || in.get<std::uint64_t>() != kSegmentMagic) return std::nullopt;
  SegmentHeader header;
  header.generation = in.get<std::uint64_t>();
  header.segment_bytes = in.get<std::uint64_t>();
  header.records = in.get<std::uint64_t>();
  header.payload_bytes = in.get<std::uint64_t>();
  header.is_full = in.get<std::uint32_t>() != 0;
  return header;
}

RecordHeaderBytes encode(const RecordHeader& header) noexcept {
  Writer<RecordHeader::kBytes> out;
  out.put(kRecordMagic).put(header.length).put(header.key.words[0]).put(header.key.words[1]);
  out.put(header.generation).put(header.checksum).put(header.name_length).put(header.name_checksum);
  return out.closed();
}

std::optional<RecordHeader> parse_record_header(std::span<const std::byte> bytes) noexcept {
  Reader in(bytes);
  if (!in.is_whole(RecordHeader::kBytes) || in.get<std::uint32_t>() != kRecordMagic) return std::nullopt;
  RecordHeader header;
  header.length = in.get<std::uint32_t>();
  header.key.words[0] = in.get<std::uint64_t>();
  header.key.words[1] = in.get<std::uint64_t>();
  header.generation = in.get<std::uint64_t>();
  header.checksum = in.get<std::uint32_t>();
  header.name_length = in.get<std::uint32_t>();
  header.name_checksum = in.get<std::uint32_t>();
  if (header.name_length > RecordHeader::kMostName) return std::nullopt;
  return header;
}

RecordHeader removed(const RecordHeader& header) noexcept {
  RecordHeader gone = header;
  gone.key = {};
  return gone;
}

HintBytes encode(const Hint& hint) noexcept {
  Writer<Hint::kBytes> out;
  out.put(hint.tag).put(hint.generation);
  out.put(static_cast<std::uint32_t>(hint.offset / RecordHeader::kAlignment)).put(hint.segment).put(hint.length);
  return out.closed();
}

std::optional<Hint> parse_hint(std::span<const std::byte> bytes) noexcept {
  Reader in(bytes);
  if (!in.is_whole(Hint::kBytes)) return std::nullopt;
  Hint hint;
  hint.tag = in.get<std::uint64_t>();
  hint.generation = in.get<std::uint64_t>();
  hint.offset = in.get<std::uint32_t>() * RecordHeader::kAlignment;
  hint.segment = in.get<std::uint32_t>();
  hint.length = in.get<std::uint32_t>();
  return hint;
}

IndexHeaderBytes encode(const IndexHeader& header) noexcept {
  Writer<IndexHeader::kBytes> out;
  out.put(kIndexMagic).put(header.buckets).put(header.segment_bytes);
  return out.closed();
}

std::optional<IndexHeader> parse_index_header(std::span<const std::byte> bytes) noexcept {
  Reader in(bytes);
  if (!in.is_whole(IndexHeader::kBytes) || in.get<std::uint64_t>() != kIndexMagic) return std::nullopt;
  IndexHeader header;
  header.buckets = in.get<std::uint64_t>();
  header.segment_bytes = in.get<std::uint64_t>();
  return header;
}

}  // namespace damacy
