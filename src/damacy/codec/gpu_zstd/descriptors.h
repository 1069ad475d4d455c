// What the kernels of a wave read: one record a frame, a zstd segment and a zstd block. All trivially copyable, no
// pointer: positions count from the wave's source, destination and scratch bases. Knows no kernel and no parser.
#pragma once

#include <type_traits>

#include "damacy/codec/gpu_zstd/words.h"

namespace damacy::gpu {

inline constexpr u32 kMaxBlock = 128u << 10;  // bytes that one zstd block may produce
inline constexpr u32 kLz4Block = 32u << 10;   // output bytes that the records of one LZ4 run describe
inline constexpr u32 kMaxFrameOutput =
    0xbffffff;  // offsets are 28 bits with symbols above; larger frames stay on the host
inline constexpr u32 kUnknownSize = kNone;

// Why a frame was refused; one status word a frame.
enum class Fault : u32 {
  none,
  truncated,
  header,
  block,
  literals,
  huffman,
  fse,
  sequences,
  bits,
  offset,
  size,
  checksum,
  dictionary,
  limit,
  lz4,
  ask_host,  // not an error: this decoder does not do it, or guessed wrongly how much was needed
  pending,   // never written by a kernel
};

enum class BlockType : u8 { raw, rle, compressed };
enum class LiteralType : u8 { raw, rle, huffman, treeless };

// One zstd block. `tables[i]` names the block that defines LL, OF and ML, itself unless repeated.
struct Block {
  u64 source;    // content
  u64 literals;  // scratch byte where decoded literals go, a multiple of 16; unused for raw literals
  u64 records;   // index of its first sequence record
  u32 size;      // content bytes
  u32 produced;  // raw and rle only
  u32 literal_size;
  u32 literal_stored;   // bytes of the literals section after its header
  u32 huffman_block;    // the block that holds the tree
  u32 sequence_offset;  // of the modes byte, from `source`
  u32 sequence_count;
  u32 tables[3];
  BlockType type;
  LiteralType literal_type;
  u8 literal_offset;  // of the literals section after its header, from `source`
  u8 flags;           // kFirst, kLast, kFourStreams
  u32 limit;          // compressed only: bytes that it may produce, kMaxBlock or what its frame's window leaves

  static constexpr u8 kFirst = 1;  // of its segment
  static constexpr u8 kLast = 2;
  static constexpr u8 kFourStreams = 4;

  DAMACY_HOST_DEVICE bool has(u8 flag) const { return (flags & flag) != 0; }
  DAMACY_HOST_DEVICE bool has_huffman_literals() const {
    return literal_type == LiteralType::huffman || literal_type == LiteralType::treeless;
  }
};

// Scratch that a block takes: bytes of decoded literals, and sequence records.
constexpr u32 literal_room(u32 literal_size) {
  return (literal_size + 15) & ~15u;
}
constexpr u32 record_room(u32 sequence_count) {
  return (sequence_count + 3) & ~3u;
}

// One RFC 8878 frame; several may stand in one frame of ours.
struct Segment {
  u32 content_size;  // kUnknownSize when not declared
  u32 checksum;
  u32 has_checksum;
  u32 frame;
};

// One stream to decode: exact source and destination ranges.
struct Frame {
  u64 source;
  u64 destination;
  u64 records;  // lz4: its first record
  u32 source_size;
  u32 size;         // bytes it must produce
  u32 needed;       // bytes of them that anybody wants; decoding may stop there
  u32 first_block;  // zstd: of the blocks; lz4: of the runs
  u32 block_count;
  u32 first_segment;
  u32 segment_count;
  u32 record_capacity;  // lz4
  u32 cut;              // zstd: blocks behind `needed` were left out on a guess
  u32 reserved;
};

// What sequence decoding leaves for the executor, one a block.
struct SequenceResult {
  Fault fault;
  u32 output_end;   // bytes produced by sequences
  u32 literal_end;  // literals used by them
  u32 repeats[3];   // history after the block, may be symbolic
};

// Where a run of LZ4 records starts; one for each kLz4Block of output and one behind the last.
struct Lz4Run {
  u32 first_record;
  u32 literal_base;  // from the frame's source
};

// Where a segment's bytes lie in its frame's output, for its checksum; end 0 until known.
struct SegmentRange {
  u32 begin;
  u32 end;
  u32 complete;
  u32 reserved;
};

static_assert(std::is_trivially_copyable_v<Block> && sizeof(Block) == 72);
static_assert(std::is_trivially_copyable_v<Frame> && sizeof(Frame) == 64);
static_assert(std::is_trivially_copyable_v<Segment> && sizeof(Segment) == 16);

}  // namespace damacy::gpu
