// LZ4 blocks as sequence records for the executor: parsing tokens and packing what they say. Literals stay in the
// input. One source for host and device; where bytes come from is the reader's business.
#pragma once

#include "damacy/codec/gpu_zstd/descriptors.h"

namespace damacy::gpu {

// The format's end rules, as the reference library enforces them.
inline constexpr u32 kLz4LastLiterals = 5;  // no match reaches into the last bytes of the output
inline constexpr u32 kLz4MatchMargin = 12;  // no match starts within the last bytes of the output
inline constexpr u32 kLz4InputMargin = 8;   // behind literals that are not the last: offset, token, last literals
inline constexpr u32 kLz4MinMatch = 4;

// Inputs up to this many bytes: then the literals of a run begin within 64 KiB of each other, whatever the lengths.
inline constexpr u32 kMaxLz4Source = 6u << 20;

// Output positions count from the run's first byte. Literals are the low half of their position in the input.
struct Lz4Record {
  DAMACY_HOST_DEVICE static u64 pack(u32 output_end, u32 literal, u32 literal_length, u32 offset) {
    return static_cast<u64>(literal_length | offset << 16) << 32 | ((output_end - 1) | (literal & 0xffffu) << 15);
  }
  DAMACY_HOST_DEVICE static u32 output_end(u64 record) { return (static_cast<u32>(record) & 0x7fff) + 1; }
  // From the run's literal base.
  DAMACY_HOST_DEVICE static u32 literal(u64 record, u32 base) {
    return ((static_cast<u32>(record) >> 15) - base) & 0xffff;
  }
  DAMACY_HOST_DEVICE static u32 literal_length(u64 record) { return static_cast<u32>(record >> 32) & 0xffff; }
  DAMACY_HOST_DEVICE static u32 offset(u64 record) { return static_cast<u32>(record >> 48); }  // 0: no match
};

// Packs sequences into records, cut at the borders of runs. May begin behind records that others write.
class Lz4RecordWriter {
 public:
  DAMACY_HOST_DEVICE Lz4RecordWriter(u64* records, u32 capacity, Lz4Run* runs, u32 count = 0, u32 produced = 0)
      : records_(records), capacity_(capacity), runs_(runs), count_(count), produced_(produced) {}

  DAMACY_HOST_DEVICE u32 count() const { return count_; }
  DAMACY_HOST_DEVICE u32 produced() const { return produced_; }

  // False when the records do not fit, which valid sizes rule out.
  DAMACY_HOST_DEVICE bool put(u32 literal, u32 literal_length, u32 match_length, u32 offset) {
    while (literal_length + match_length != 0) {
      const u32 position = produced_ % kLz4Block;
      if (position == 0) runs_[produced_ / kLz4Block] = {count_, literal};
      if (count_ == capacity_) return false;
      const u32 room = kLz4Block - position;
      const u32 literals = literal_length < room ? literal_length : room;
      const u32 matched = match_length < room - literals ? match_length : room - literals;
      records_[count_++] = Lz4Record::pack(position + literals + matched, literal, literals, matched != 0 ? offset : 0);
      produced_ += literals + matched;
      literal += literals;
      literal_length -= literals;
      match_length -= matched;
    }
    return true;
  }

  // The run behind the last one says where the last one ends.
  DAMACY_HOST_DEVICE void finish() { runs_[(produced_ + kLz4Block - 1) / kLz4Block] = {count_, 0}; }

 private:
  u64* records_;
  u32 capacity_;
  Lz4Run* runs_;
  u32 count_;
  u32 produced_;
};

// Token by token through one block. Reader::byte(i) is byte i of the input, 0 past its end.
class Lz4Parser {
 public:
  DAMACY_HOST_DEVICE Lz4Parser(u32 source_size, u32 size, u32 position = 0)
      : source_size_(source_size), size_(size), position_(position) {}

  DAMACY_HOST_DEVICE u32 position() const { return position_; }
  // Of the sequence read last.
  DAMACY_HOST_DEVICE u32 output_bytes() const { return literal_length_ + match_length_; }

  enum class Step : u8 { more, done, fault };

  // One sequence.
  template <class Reader>
  DAMACY_HOST_DEVICE Step sequence(const Reader& reader, u32 produced) {
    const Step step = literals(reader, produced);
    return step == Step::more ? match(reader, produced) : step;
  }

  DAMACY_HOST_DEVICE bool write(Lz4RecordWriter& writer) const {
    return writer.put(literal_, literal_length_, match_length_, offset_);
  }

 private:
  // From a token to behind its literals. `produced`: output so far.
  template <class Reader>
  DAMACY_HOST_DEVICE Step literals(const Reader& reader, u32 produced) {
    token_ = reader.byte(position_++);
    literal_length_ = token_ >> 4;
    if (literal_length_ == 15 && !extend(reader, literal_length_)) return Step::fault;
    literal_ = position_;
    if (position_ > source_size_ || literal_length_ > source_size_ - position_) return Step::fault;
    position_ += literal_length_;
    match_length_ = offset_ = 0;
    if (position_ == source_size_) return produced + literal_length_ == size_ ? Step::done : Step::fault;
    const bool room =
        position_ + kLz4InputMargin <= source_size_ && u64{produced} + literal_length_ + kLz4MatchMargin <= size_;
    return room ? Step::more : Step::fault;
  }

  // From behind the literals to the next token.
  template <class Reader>
  DAMACY_HOST_DEVICE Step match(const Reader& reader, u32 produced) {
    offset_ = reader.byte(position_) | reader.byte(position_ + 1) << 8;
    position_ += 2;
    match_length_ = token_ & 15;
    if (match_length_ == 15 && !extend(reader, match_length_)) return Step::fault;
    match_length_ += kLz4MinMatch;
    const u32 start = produced + literal_length_;
    if (offset_ == 0 || offset_ > start || position_ >= source_size_) return Step::fault;
    return u64{start} + match_length_ + kLz4LastLiterals <= size_ ? Step::more : Step::fault;
  }

  // Adds bytes of 255 and the one behind them. A length larger than the output ends it early.
  template <class Reader>
  DAMACY_HOST_DEVICE bool extend(const Reader& reader, u32& length) {
    u32 byte = 255;
    while (byte == 255) {
      if (position_ >= source_size_ || length > size_) return false;
      byte = reader.byte(position_++);
      length += byte;
    }
    return true;
  }

  u32 source_size_;
  u32 size_;
  u32 position_;
  u32 token_ = 0;
  u32 literal_ = 0;
  u32 literal_length_ = 0;
  u32 match_length_ = 0;
  u32 offset_ = 0;
};

}  // namespace damacy::gpu
