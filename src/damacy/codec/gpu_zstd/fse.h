// FSE tables of RFC 8878: reading a table description, the predefined ones, and building a decoding table.
// Knows nothing of blocks or bit streams. One source for host and device.
#pragma once

#include "damacy/codec/gpu_zstd/words.h"

namespace damacy::gpu {

enum Alphabet : int { kLiteralLengths = 0, kOffsets = 1, kMatchLengths = 2 };

DAMACY_HOST_DEVICE inline u32 max_log(int alphabet) {
  return alphabet == kOffsets ? 8u : 9u;
}
DAMACY_HOST_DEVICE inline u32 max_symbol(int alphabet) {
  return alphabet == kLiteralLengths ? 35u : alphabet == kOffsets ? 31u : 52u;
}
DAMACY_HOST_DEVICE inline u32 default_log(int alphabet) {
  return alphabet == kOffsets ? 5u : 6u;
}

// A table entry: extra value bits in bits 0-4, state bits in 8-12, state count in 16-25, mantissa in 27-31.
// A code's value is (mantissa << extra) + bits, match lengths then plus 3; the next state is
// (count << state bits) + bits, which carries the table's size as its highest bit.
struct Entry {
  static constexpr u32 kCodeMask = 0xf800001fu;
  DAMACY_HOST_DEVICE static u32 code(u32 extra, u32 mantissa) { return extra | mantissa << 27; }
  DAMACY_HOST_DEVICE static u32 single(u32 code) { return code | 1u << 16; }  // the table of a single symbol
  DAMACY_HOST_DEVICE static u32 extra(u32 entry) { return entry & 31; }
  DAMACY_HOST_DEVICE static u32 state_bits(u32 entry) { return entry >> 8 & 31; }
  DAMACY_HOST_DEVICE static u32 count(u32 entry) { return entry >> 16 & 1023; }
  DAMACY_HOST_DEVICE static u32 mantissa(u32 entry) { return entry >> 27; }
};

DAMACY_HOST_DEVICE inline u32 literal_length_code(u32 c) {
  if (c < 16) return Entry::code(0, c);
  const u32 extra = c < 20 ? 1 : c < 22 ? 2 : c < 24 ? 3 : c == 24 ? 4 : c - 19;
  const u32 mantissa = c < 20 ? c - 8 : c < 22 ? c - 14 : c < 24 ? c - 18 : c == 24 ? 3 : 1;
  return Entry::code(extra, mantissa);
}

DAMACY_HOST_DEVICE inline u32 match_length_code(u32 c) {
  if (c < 32) return Entry::code(0, c);
  const u32 extra = c < 36 ? 1 : c < 38 ? 2 : c < 40 ? 3 : c < 42 ? 4 : c == 42 ? 5 : c - 36;
  const u32 mantissa = c < 36 ? c - 16 : c < 38 ? c - 26 : c < 40 ? c - 32 : c < 42 ? c - 36 : c == 42 ? 3 : 1;
  return Entry::code(extra, mantissa);
}

DAMACY_HOST_DEVICE inline u32 code_entry(int alphabet, u32 c) {
  if (alphabet == kLiteralLengths) return literal_length_code(c);
  return alphabet == kOffsets ? Entry::code(c, 1) : match_length_code(c);
}

DAMACY_HOST_DEVICE inline int default_count(int alphabet, u32 s) {
  if (alphabet == kLiteralLengths) {
    if (s == 0) return 4;
    if (s == 1 || s == 25) return 3;
    if (s >= 32) return -1;
    return (s >= 13 && s <= 15) || s >= 27 ? 1 : 2;
  }
  if (alphabet == kOffsets) return s >= 29 ? 0 : s >= 24 ? -1 : s >= 6 && s <= 8 ? 2 : 1;
  return s >= 46 ? -1 : s == 1 ? 4 : s == 2 ? 3 : s >= 3 && s <= 8 ? 2 : 1;
}

DAMACY_HOST_DEVICE inline void default_counts(int alphabet, i16* counts) {
  for (u32 s = 0; s <= max_symbol(alphabet); ++s) counts[s] = static_cast<i16>(default_count(alphabet, s));
}

// Reads a table description (RFC 8878, 4.1.1) into counts[0..last_symbol], which sum to 1 << log.
// Returns the bytes used, 0 when it is malformed.
DAMACY_HOST_DEVICE inline u32 read_counts(ByteView in, u32 log_limit, u32 last_symbol, i16* counts, u32& log) {
  if (in.size == 0) return 0;
  log = in.bits(0, 4) + 5;
  if (log > log_limit) return 0;
  const u32 end = in.size * 8;
  u32 bit = 4, symbol = 0;
  int left = 1 << log;
  while (left > 0) {
    if (symbol > last_symbol || bit > end) return 0;
    const u32 width = log2_floor(static_cast<u32>(left) + 1) + 1;
    const u32 short_values = (1u << width) - 2 - static_cast<u32>(left);  // values below this take one bit less
    u32 value = in.bits(bit, width - 1);
    if (value < short_values) {
      bit += width - 1;
    } else {
      value = in.bits(bit, width);
      bit += width;
      if (value >= 1u << (width - 1)) value -= short_values;
    }
    const int count = static_cast<int>(value) - 1;
    counts[symbol++] = static_cast<i16>(count);
    left -= count < 0 ? 1 : count;
    if (count != 0) continue;
    for (u32 zeros = 3; zeros == 3;) {  // runs of absent symbols, two bits each
      zeros = in.bits(bit, 2);
      bit += 2;
      if (bit > end || symbol + zeros > last_symbol + 1) return 0;
      for (u32 k = 0; k < zeros; ++k) counts[symbol++] = 0;
    }
  }
  if (left != 0 || bit > end) return 0;
  while (symbol <= last_symbol) counts[symbol++] = 0;
  return (bit + 7) >> 3;
}

// Fills table[0 .. 1 << log) and destroys counts, which must sum to the size, so that any state leads to a valid entry.
// `code(symbol)` has bits only where Entry::kCodeMask has.
template <class Code>
DAMACY_HOST_DEVICE inline void build_table(u32* table, i16* counts, u32 last_symbol, u32 log, Code code) {
  const u32 size = 1u << log, mask = size - 1, step = (size >> 1) + (size >> 3) + 3;
  u32 high = size;
  for (u32 s = 0; s <= last_symbol; ++s)
    if (counts[s] < 0) table[--high] = code(s) | s << 8;
  u32 position = 0;
  for (u32 s = 0; s <= last_symbol; ++s) {  // laid down with its number in bits 8-15
    int left = counts[s];
    if (left < 0) counts[s] = 1;
    if (left <= 0) continue;
    const u32 entry = code(s) | s << 8;
    for (; left != 0; --left) {
      table[position] = entry;
      do position = (position + step) & mask;
      while (position >= high);
    }
  }
  for (u32 i = 0; i < size; ++i) {
    const u32 s = table[i] >> 8 & 255;
    const u32 count = static_cast<u32>(counts[s]);
    counts[s] = static_cast<i16>(count + 1);
    table[i] = (table[i] & Entry::kCodeMask) | (log - log2_floor(count)) << 8 | count << 16;
  }
}

}  // namespace damacy::gpu
