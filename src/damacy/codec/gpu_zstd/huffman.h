// Huffman trees of RFC 8878: reading the weights, numbering the table entries, and where the streams of a literals
// section lie. One source for host and device.
#pragma once

#include "damacy/codec/gpu_zstd/fse.h"
#include "damacy/codec/gpu_zstd/words.h"

namespace damacy::gpu {

inline constexpr u32 kMaxHuffmanBits = 11;

// A tree as its weights: symbol s has `bits + 1 - weight[s]` bits, none when its weight is 0.
struct Weights {
  u8 weight[256];
  u32 symbols;
  u32 bits;    // longest code
  u32 stored;  // bytes of the description
};

// What reading needs besides; too large for registers, so the caller says where it is.
struct WeightsScratch {
  u32 table[64];
  i16 counts[16];
};

// Bits taken from the end of a view towards its start; bits in front of the start read as zero.
class BackwardBits {
 public:
  DAMACY_HOST_DEVICE BackwardBits(ByteView in, u32 first_byte) : in_(in), first_(static_cast<int>(first_byte) * 8) {
    const u32 last = in.at(in.size - 1);
    position_ = last == 0 ? -1 : static_cast<int>(8 * (in.size - 1) + log2_floor(last));
  }
  DAMACY_HOST_DEVICE bool overrun() const { return position_ < first_; }
  DAMACY_HOST_DEVICE u32 take(u32 count) {  // at most 16
    position_ -= static_cast<int>(count);
    if (position_ >= first_) return in_.bits(static_cast<u32>(position_), count);
    const int present = static_cast<int>(count) - (first_ - position_);
    if (present <= 0) return 0;
    return in_.bits(static_cast<u32>(first_), static_cast<u32>(present)) << (first_ - position_);
  }

 private:
  ByteView in_;
  int first_;
  int position_;
};

namespace huffman {

DAMACY_HOST_DEVICE inline u32 weight_entry(u32 weight) {
  return Entry::code(0, weight);
}

// Weights as an FSE stream of two alternating states, ended by the stream itself. False when malformed.
DAMACY_HOST_DEVICE inline bool read_fse_weights(ByteView in, Weights& out, WeightsScratch& scratch) {
  u32 log = 0;
  const u32 used = read_counts(in, 6, 15, scratch.counts, log);
  if (used == 0 || used >= in.size) return false;
  build_table(scratch.table, scratch.counts, 15, log, weight_entry);
  BackwardBits bits(in, used);
  u32 state[2] = {bits.take(log), 0};
  state[1] = bits.take(log);
  if (bits.overrun()) return false;
  for (u32 turn = 0;; turn ^= 1) {
    if (out.symbols >= 254) return false;
    const u32 entry = scratch.table[state[turn]];
    const u32 width = Entry::state_bits(entry);
    out.weight[out.symbols++] = static_cast<u8>(Entry::mantissa(entry));
    state[turn] = (Entry::count(entry) << width) + bits.take(width) - (1u << log);
    if (!bits.overrun()) continue;
    out.weight[out.symbols++] = static_cast<u8>(Entry::mantissa(scratch.table[state[turn ^ 1]]));
    return true;
  }
}

// The last symbol's weight is what the others leave of a power of two. False when they leave no such thing.
DAMACY_HOST_DEVICE inline bool complete_weights(Weights& out) {
  u32 sum = 0, ones = 0;
  for (u32 i = 0; i < out.symbols; ++i) {
    const u32 weight = out.weight[i];
    if (weight > kMaxHuffmanBits) return false;
    if (weight != 0) sum += 1u << (weight - 1);
    ones += weight == 1;
  }
  if (sum == 0) return false;
  out.bits = log2_floor(sum) + 1;
  if (out.bits > kMaxHuffmanBits) return false;
  const u32 rest = (1u << out.bits) - sum;
  if ((rest & (rest - 1)) != 0) return false;
  const u32 last = log2_floor(rest) + 1;
  out.weight[out.symbols++] = static_cast<u8>(last);
  ones += last == 1;
  return ones >= 2 && (ones & 1) == 0;
}

}  // namespace huffman

// Reads a tree description (RFC 8878, 4.2.1). False when malformed.
DAMACY_HOST_DEVICE inline bool read_weights(ByteView in, Weights& out, WeightsScratch& scratch) {
  if (in.size == 0) return false;
  const u32 header = in.at(0);
  out.symbols = 0;
  if (header >= 128) {  // four bits each
    const u32 count = header - 127;
    out.stored = 1 + (count + 1) / 2;
    if (out.stored > in.size) return false;
    for (u32 i = 0; i < count; ++i) {
      const u32 pair = in.at(1 + i / 2);
      out.weight[i] = static_cast<u8>((i & 1) != 0 ? pair & 15 : pair >> 4);
    }
    out.symbols = count;
  } else {
    out.stored = 1 + header;
    if (out.stored > in.size || header < 2) return false;
    if (!huffman::read_fse_weights({in.data + 1, header}, out, scratch)) return false;
  }
  return huffman::complete_weights(out);
}

// first[w]: where the entries of weight w begin in a table of 1 << bits; entries stand in order of weight, then symbol.
DAMACY_HOST_DEVICE inline void number_weights(const Weights& weights, u16 (&first)[16]) {
  for (u16& count : first) count = 0;
  for (u32 s = 0; s < weights.symbols; ++s) first[weights.weight[s]] = static_cast<u16>(first[weights.weight[s]] + 1);
  u32 begin = 0;
  for (u32 w = 1; w <= weights.bits; ++w) {
    const u32 count = first[w];
    first[w] = static_cast<u16>(begin);
    begin += count << (w - 1);
  }
}

// Streams of a literals section, relative to the section's content.
struct LiteralStreams {
  u32 offset[4];
  u32 size[4];
  u32 produced[4];
  u32 count;
};

// `begin`: first byte behind the tree. False when the jump table does not fit.
DAMACY_HOST_DEVICE inline bool split_streams(ByteView section, u32 begin, u32 literal_size, bool four,
                                             LiteralStreams& out) {
  if (begin >= section.size) return false;
  const u32 room = section.size - begin;
  out.count = four ? 4 : 1;
  if (!four) {
    out.offset[0] = begin;
    out.size[0] = room;
    out.produced[0] = literal_size;
    return true;
  }
  if (room < 10 || literal_size < 6) return false;
  const u32 quarter = (literal_size + 3) / 4;
  u32 at = begin + 6;
  for (u32 i = 0; i < 4; ++i) {
    out.offset[i] = at;
    out.size[i] = i < 3 ? section.u16_at(begin + 2 * i) : section.size - at;
    out.produced[i] = i < 3 ? quarter : literal_size - 3 * quarter;
    if (out.size[i] == 0 || (i < 3 && out.size[i] >= section.size - at)) return false;
    at += out.size[i];
  }
  return 3 * quarter <= literal_size;
}

}  // namespace damacy::gpu
