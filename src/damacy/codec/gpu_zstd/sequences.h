// A sequences section: which tables it uses, the repeat-offset history, and the packed record of one sequence.
// Knows no bit stream reader: host and device have their own. One source for host and device.
#pragma once

#include "damacy/codec/gpu_zstd/descriptors.h"
#include "damacy/codec/gpu_zstd/fse.h"

namespace damacy::gpu {

enum class TableMode : u32 { predefined, single, described, repeated };

DAMACY_HOST_DEVICE inline TableMode table_mode(u32 modes_byte, int alphabet) {
  return static_cast<TableMode>(modes_byte >> (6 - 2 * alphabet) & 3);
}

// The three tables of a block before they are built. Counts lie behind each other: LL 36, OF 32, ML 53.
struct TableSet {
  u32 log[3];
  u32 single[3];  // the code of a table of one symbol, else kNone
  u32 stream;     // where the bit stream begins, from the block's source
};

inline constexpr u32 kCountsWords = 124;  // i16 counts of all three alphabets, rounded up
DAMACY_HOST_DEVICE inline u32 counts_begin(int alphabet) {
  return alphabet == kLiteralLengths ? 0 : alphabet == kOffsets ? 36 : 68;
}

namespace tables {

// Reads one table's description at `at` and moves `at` behind it. Repeated tables take no bytes. False when malformed.
DAMACY_HOST_DEVICE inline bool read_table(ByteView block, u32& at, int alphabet, TableMode mode, i16* counts, u32& log,
                                          u32& single) {
  single = kNone;
  if (mode == TableMode::described) {
    if (at >= block.size) return false;
    const u32 used = read_counts(block.from(at), max_log(alphabet), max_symbol(alphabet), counts, log);
    at += used;
    return used != 0;
  }
  if (mode == TableMode::single) {
    if (at >= block.size) return false;
    single = block.at(at++);
    log = 0;
    return single <= max_symbol(alphabet);
  }
  if (mode == TableMode::predefined) {
    default_counts(alphabet, counts);
    log = default_log(alphabet);
  }
  return true;
}

// Walks the block that defines a repeated table up to that table. `skipped` receives what is not wanted.
DAMACY_HOST_DEVICE inline bool read_repeated_table(ByteView definer, u32 modes_offset, int alphabet, i16* counts,
                                                   i16* skipped, TableSet& set) {
  u32 at = modes_offset + 1;
  const u32 modes = definer.at(modes_offset);
  for (int earlier = 0; earlier < alphabet; ++earlier) {
    u32 log = 0, single = 0;
    if (!read_table(definer, at, earlier, table_mode(modes, earlier), skipped, log, single)) return false;
  }
  return read_table(definer, at, alphabet, table_mode(modes, alphabet), counts, set.log[alphabet],
                    set.single[alphabet]);
}

}  // namespace tables

// Reads the descriptions of all tables that `block` uses, its own or those of earlier blocks. `skipped` has room for
// the counts of one alphabet. False when malformed.
DAMACY_HOST_DEVICE inline bool read_table_set(const u8* source, const Block* blocks, const Block& block, i16* counts,
                                              i16* skipped, TableSet& set) {
  const ByteView content{source + block.source, block.size};
  const u32 modes = content.at(block.sequence_offset);
  u32 at = block.sequence_offset + 1;
  for (int alphabet = 0; alphabet < 3; ++alphabet) {
    i16* own = counts + counts_begin(alphabet);
    const TableMode mode = table_mode(modes, alphabet);
    if (mode == TableMode::repeated) {
      const Block& definer = blocks[block.tables[alphabet]];
      const ByteView view{source + definer.source, definer.size};
      if (!tables::read_repeated_table(view, definer.sequence_offset, alphabet, own, skipped, set)) return false;
    } else if (!tables::read_table(content, at, alphabet, mode, own, set.log[alphabet], set.single[alphabet])) {
      return false;
    }
  }
  set.stream = at;
  return at < content.size && content.at(content.size - 1) != 0;
}

// Builds the table of one alphabet from what read_table_set found; destroys its counts.
DAMACY_HOST_DEVICE inline void build_sequence_table(const TableSet& set, int alphabet, i16* counts, u32* table) {
  if (set.single[alphabet] != kNone) {
    table[0] = Entry::single(code_entry(alphabet, set.single[alphabet]));
    return;
  }
  build_table(table, counts + counts_begin(alphabet), max_symbol(alphabet), set.log[alphabet],
              [alphabet](u32 s) { return code_entry(alphabet, s); });
}

// The three last offsets. What a block inherits is not known while its sequences are decoded, so it is symbolic:
// "entry i of the history before this block, minus k". Only "minus one" is ever applied to a symbol, so it survives.
struct RepeatOffsets {
  static constexpr u32 kSymbols = 0xc000000u;  // values from here on are symbolic
  static constexpr u32 kZero = 0x800000u;

  u32 value[3];

  DAMACY_HOST_DEVICE static RepeatOffsets initial() { return {{1, 4, 8}}; }
  DAMACY_HOST_DEVICE static RepeatOffsets inherited() {
    return {{kSymbols + kZero, kSymbols + (1u << 24) + kZero, kSymbols + (2u << 24) + kZero}};
  }

  // The offset of a sequence whose coded value is `code_value` (at least 1), and the history behind it.
  // Selects, not branches: nested conditions became branches on the device.
  DAMACY_HOST_DEVICE u32 next(u32 code_value, u32 literal_length) {
    const u32 plain = code_value - 3 < kMaxFrameOutput ? code_value - 3 : kMaxFrameOutput;
    const u32 which = code_value + (literal_length == 0 ? 1u : 0u);  // 1 newest, 2, 3, then a new one or newest - 1
    u32 offset = code_value > 3 ? plain : value[0] - 1;
    offset = which > 3 ? offset : value[2];
    offset = which > 2 ? offset : value[1];
    offset = which > 1 ? offset : value[0];
    value[2] = which > 2 ? value[1] : value[2];
    value[1] = which > 1 ? value[0] : value[1];
    value[0] = offset;
    return offset;
  }

  // Puts this history in place of the symbols of a block that inherits it. 0 is no offset.
  DAMACY_HOST_DEVICE u32 resolve(u32 offset) const {
    if (offset < kSymbols) return offset;
    const u32 entry = (offset - kSymbols) >> 24, minus = kZero - (offset & 0xffffffu);
    const u32 base = entry == 0 ? value[0] : entry == 1 ? value[1] : value[2];
    return minus < base ? base - minus : 0u;
  }
};

// A sequence as the executor reads it: running positions in its block, so that no prefix sum is needed.
struct SequenceRecord {
  DAMACY_HOST_DEVICE static u64 pack(u32 output_end, u32 literal_end, u32 offset) {
    // Sums, since shift and add are one instruction; no two of them share a bit.
    return static_cast<u64>((literal_end >> 14) + (offset << 4)) << 32 | (output_end + (literal_end << 18));
  }
  DAMACY_HOST_DEVICE static u32 output_end(u64 record) { return static_cast<u32>(record) & 0x3ffff; }
  DAMACY_HOST_DEVICE static u32 literal_end(u64 record) { return static_cast<u32>(record >> 18) & 0x3ffff; }
  DAMACY_HOST_DEVICE static u32 offset(u64 record) { return static_cast<u32>(record >> 36); }
};

}  // namespace damacy::gpu
