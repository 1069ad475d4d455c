// Literals of zstd blocks. describe_trees: one lane a block reads the Huffman weights, gives every symbol its first
// table entry, and files the block under its table size. decode_literals: eight blocks a warp, four lanes each, one
// lane a stream. Raw literals are never copied: the executor reads them where they lie.
#pragma once

#include "damacy/codec/cuda/backward_ring.cuh"
#include "damacy/codec/cuda/wave_view.cuh"
#include "damacy/codec/gpu_zstd/huffman.h"

namespace damacy::gpu {

inline constexpr u32 kTreesPerWarp = 8;  // byte reads of more lanes would only queue
inline constexpr u32 kBlocksPerWarp = 8;
inline constexpr u32 kSmallestTable = 9;  // bits
using LiteralRing = BackwardRing<8>;

__device__ __forceinline__ bool describe_tree(const WaveView& wave, const Block& block, HuffmanTable& table) {
  const Block& tree = wave.blocks[block.huffman_block];
  Weights weights;
  WeightsScratch scratch;
  if (!read_weights({wave.source + tree.source + tree.literal_offset, tree.literal_stored}, weights, scratch))
    return false;
  u16 next[16];
  number_weights(weights, next);
  for (u32 s = 0; s < weights.symbols; ++s) {
    const u32 weight = weights.weight[s];
    table.weight[s] = static_cast<u8>(weight);
    if (weight == 0) continue;
    table.first[s] = next[weight];
    next[weight] = static_cast<u16>(next[weight] + (1u << (weight - 1)));
  }
  table.symbols = weights.symbols;
  table.bits = weights.bits;
  table.stored = weights.stored;
  return true;
}

static __global__ void __launch_bounds__(kWarp) describe_trees(WaveView wave) {
  const u32 place = blockIdx.x * kTreesPerWarp + threadIdx.x;
  if (threadIdx.x >= kTreesPerWarp || place >= wave.literal_blocks) return;
  const u32 index = wave.literal_order[place];
  const Block& block = wave.blocks[index];
  u32 size_class = 0;
  if (block.has_huffman_literals()) {
    HuffmanTable& table = wave.huffman_tables[place];
    if (!describe_tree(wave, block, table)) {
      wave.literal_faults[index] = static_cast<u32>(Fault::huffman);
      return;
    }
    size_class = table.bits <= kSmallestTable ? 0 : table.bits - kSmallestTable;
  }
  wave.literal_lists[size_class * wave.literal_blocks + atomicAdd(wave.literal_counts + size_class, 1u)] = place;
}

// A block's decoding table: bits in the low byte, symbol above; and a ring for each stream.
template <int kBits>
struct LiteralMemory {
  u16 table[1u << kBits];
  u32 rings[4][LiteralRing::kWords];
};

// One lane of four fills every fourth symbol's entries.
template <int kBits>
__device__ __forceinline__ void fill_table(const HuffmanTable& tree, u32 sub, u16* table) {
  for (u32 s = sub; s < tree.symbols; s += 4) {
    const u32 weight = tree.weight[s];
    if (weight == 0) continue;
    const u32 entry = s << 8 | (tree.bits + 1 - weight);
    const u32 first = tree.first[s];
    if (weight == 1) table[first] = static_cast<u16>(entry);
    u32* pairs = reinterpret_cast<u32*>(table) + first / 2;
    for (u32 i = 0; i < 1u << weight >> 2; ++i) pairs[i] = entry | entry << 16;
  }
}

__device__ __forceinline__ void fill_repeated_literal(const WaveView& wave, const Block& block, u32 sub) {
  const u32 value = wave.source[block.source + block.literal_offset] * 0x01010101u;
  uint4* to = reinterpret_cast<uint4*>(wave.literals + block.literals);
  for (u32 i = sub; i < (block.literal_size + 15) / 16; i += 4) to[i] = make_uint4(value, value, value, value);
}

struct LiteralStream {
  const u8* bytes;
  u8* to;
  u32 size;
  u32 count;
};

// Stream `sub` of a block; size 0 when there is none. False when the section is malformed.
__device__ __forceinline__ bool find_stream(const WaveView& wave, const Block& block, u32 tree_bytes, u32 sub,
                                            LiteralStream& stream) {
  const ByteView section{wave.source + block.source + block.literal_offset, block.literal_stored};
  const u32 begin = block.literal_type == LiteralType::huffman ? tree_bytes : 0;
  LiteralStreams all;
  stream = {section.data, wave.literals + block.literals, 0, 0};
  if (!split_streams(section, begin, block.literal_size, block.has(Block::kFourStreams), all)) return false;
  DAMACY_UNROLL(16)
  for (u32 i = 0; i < 4; ++i) {
    if (i != sub || i >= all.count) continue;
    stream.bytes += all.offset[i];
    stream.to += i * all.produced[0];
    stream.size = all.size[i];
    stream.count = all.produced[i];
  }
  return stream.size == 0 || stream.bytes[stream.size - 1] != 0;
}

class LiteralLane {
 public:
  __device__ __forceinline__ LiteralLane(u32* ring, const u16* table, u32 table_bits, const LiteralStream& stream)
      : bits_(ring, stream.bytes, stream.size), table_(table), shift_(32 - table_bits) {
    bits_.fetch();
    copy_async_wait();
  }

  __device__ __forceinline__ void fetch() { bits_.fetch(); }
  __device__ __forceinline__ bool overrun() const { return bits_.overrun(); }
  __device__ __forceinline__ bool at_start() const { return bits_.at_start(); }

  __device__ __forceinline__ u8 one() {
    load_window();
    const u32 entry = symbol();
    bits_.position -= static_cast<int>(entry & 31);
    return static_cast<u8>(entry >> 8);
  }

  // Eight symbols out of one window: at most 88 of its 96 bits.
  __device__ __forceinline__ uint2 eight() {
    load_window();
    const u32 a = symbol(), b = symbol(), c = symbol(), d = symbol();
    const u32 e = symbol(), f = symbol(), g = symbol(), h = symbol();
    bits_.position -= static_cast<int>((a + b + c + d + e + f + g + h) & 255);
    return make_uint2(second_bytes(a, b, c, d), second_bytes(e, f, g, h));
  }

 private:
  __device__ __forceinline__ static u32 second_bytes(u32 a, u32 b, u32 c, u32 d) {
    return __byte_perm(__byte_perm(a, b, 0x51), __byte_perm(c, d, 0x51), 0x5410);
  }

  __device__ __forceinline__ void load_window() {
    const u32* word = bits_.word_at(bits_.position);
    const u32 a = word[0], b = word[-1], c = word[-2], d = word[-3];
    const u32 shift = static_cast<u32>(bits_.position);
    high_ = __funnelshift_r(b, a, shift);
    middle_ = __funnelshift_r(c, b, shift);
    low_ = __funnelshift_r(d, c, shift);
  }

  __device__ __forceinline__ u32 symbol() {
    const u32 entry = table_[high_ >> shift_];
    high_ = __funnelshift_l(middle_, high_, entry);  // shifts use the low five bits
    middle_ = __funnelshift_l(low_, middle_, entry);
    low_ = __funnelshift_l(0u, low_, entry);
    return entry;
  }

  LiteralRing bits_;
  const u16* table_;
  u32 shift_;
  u32 high_, middle_, low_;
};

// All lanes of `mask` together. Sixteen symbols are one aligned store; the ends go one by one.
__device__ __forceinline__ bool decode_stream(LiteralLane& lane, u32 mask, const LiteralStream& stream) {
  u32 count = stream.count, done = 0;
  u32 unaligned = static_cast<u32>(0 - reinterpret_cast<u64>(stream.to)) & 15;
  for (; unaligned != 0 && done < count; --unaligned) stream.to[done++] = lane.one();
  lane.fetch();
  bool broken = false;
  for (;;) {
    copy_async_wait();
    if (!__any_sync(mask, done + 16 <= count)) break;
    if (lane.overrun()) {
      broken = true;
      count = done;
    }
    lane.fetch();
    DAMACY_UNROLL(1)
    for (u32 i = 0; i < 2; ++i) {
      if (done + 16 > count) continue;
      const uint2 first = lane.eight(), second = lane.eight();
      *reinterpret_cast<uint4*>(stream.to + done) = make_uint4(first.x, first.y, second.x, second.y);
      done += 16;
    }
  }
  lane.fetch();
  copy_async_wait();
  while (done < count) stream.to[done++] = lane.one();
  return !broken && lane.at_start();
}

template <int kBits>
__global__ void __launch_bounds__(kWarp) decode_literals(WaveView wave) {
  DAMACY_DYNAMIC_SHARED(shared);
  const u32 group = threadIdx.x >> 2, sub = threadIdx.x & 3, entry = blockIdx.x * kBlocksPerWarp + group;
  const u32 size_class = kBits - kSmallestTable, total = wave.literal_counts[size_class];
  if (blockIdx.x * kBlocksPerWarp >= total) return;
  LiteralMemory<kBits>& memory = reinterpret_cast<LiteralMemory<kBits>*>(shared)[group];
  const bool mine = entry < total;
  const u32 place = mine ? wave.literal_lists[size_class * wave.literal_blocks + entry] : 0;
  const u32 index = wave.literal_order[place];
  const Block& block = wave.blocks[index];
  const HuffmanTable& tree = wave.huffman_tables[place];
  const bool packed = mine && block.has_huffman_literals();
  if (packed) fill_table<kBits>(tree, sub, memory.table);
  if (mine && !packed) fill_repeated_literal(wave, block, sub);
  LiteralStream stream{};
  const bool good = !packed || find_stream(wave, block, tree.stored, sub, stream);
  if (!good) wave.literal_faults[index] = static_cast<u32>(Fault::literals);
  const bool on = good && packed && stream.size != 0;
  __syncwarp();  // the table is complete
  const u32 mask = __ballot_sync(kWholeWarp, on);
  if (!on) return;
  LiteralLane lane(memory.rings[sub], memory.table, tree.bits, stream);
  if (!decode_stream(lane, mask, stream)) wave.literal_faults[index] = static_cast<u32>(Fault::bits);
}

}  // namespace damacy::gpu
