// Sequences of zstd blocks: a block of one warp, in which each of the first kLanes lanes decodes one zstd block into
// records. The tables of a lane's block and the ring of its bit stream are in shared memory.
//
// What costs time is the chain from one sequence to the next, so: every value of the format is (mantissa << extra) +
// bits, one funnel shift; the three table entries are added once, which sums their value bits in the low byte and their
// state bits in the second; there is no bit buffer, words are read at the bit position; loads of the next step are
// issued before this one's values are made. More than 32 value bits in one sequence are rare: they are noted, and the
// period is done again.
#pragma once

#include "damacy/codec/cuda/backward_ring.cuh"
#include "damacy/codec/cuda/wave_view.cuh"
#include "damacy/codec/gpu_zstd/sequences.h"

namespace damacy::gpu {

using SequenceRing = BackwardRing<16>;
inline constexpr u32 kPeriod = 8;  // sequences between two fetches: at most 90 bytes of a ring of 256

struct SequenceMemory {
  u32 literal_lengths[512];
  u32 match_lengths[512];
  u32 offsets[256];
  u32 ring[SequenceRing::kWords];

  // Before the stream is read the ring has room for the counts, and the tables for counts that are not wanted.
  __device__ __forceinline__ i16* counts() { return reinterpret_cast<i16*>(ring); }
  __device__ __forceinline__ i16* skipped() { return reinterpret_cast<i16*>(literal_lengths); }
  __device__ __forceinline__ u32* table(int alphabet) {
    return alphabet == kLiteralLengths ? literal_lengths : alphabet == kOffsets ? offsets : match_lengths;
  }
};
static_assert(sizeof(SequenceMemory) == 1348 * sizeof(u32) &&
              kCountsWords * sizeof(i16) <= sizeof(SequenceMemory::ring));

__device__ __noinline__ inline bool read_table_set_of(const WaveView& wave, const Block& block, SequenceMemory& memory,
                                                      TableSet& set) {
  return read_table_set(wave.source, wave.blocks, block, memory.counts(), memory.skipped(), set);
}

// One lane at work on one block. All of it lives in registers.
class SequenceLane {
 public:
  __device__ __forceinline__ SequenceLane(SequenceMemory& memory, const TableSet& set, const u8* stream, u32 size,
                                          bool first_of_segment)
      : bits_(memory.ring, stream, size),
        history_(first_of_segment ? RepeatOffsets::initial() : RepeatOffsets::inherited()),
        // States carry their table's size as highest bit.
        literal_lengths_(memory.literal_lengths, 1u << set.log[kLiteralLengths]),
        match_lengths_(memory.match_lengths, 1u << set.log[kMatchLengths]),
        offsets_(memory.offsets, 1u << set.log[kOffsets]) {
    bits_.fetch();
    copy_async_wait();
    literal_length_ = literal_lengths_[first_state(set.log[kLiteralLengths])];
    offset_ = offsets_[first_state(set.log[kOffsets])];
    match_length_ = match_lengths_[first_state(set.log[kMatchLengths])];
    load_window();
  }

  __device__ __forceinline__ void fetch() { bits_.fetch(); }
  __device__ __forceinline__ bool broken() const { return bits_.overrun() || output_end_ > kMaxBlock; }

  // A finished lane keeps stepping with the others, over garbage that stays in its ring and tables.
  __device__ __forceinline__ void idle() {
    bits_.rewind();
    output_end_ = literal_end_ = 0;
  }

  __device__ __forceinline__ SequenceResult result(u32 literal_size, u32 limit) const {
    SequenceResult result{
        Fault::none, output_end_, literal_end_, {history_.value[0], history_.value[1], history_.value[2]}};
    if (!bits_.at_start() || output_end_ > kMaxBlock) {
      result.fault = Fault::bits;
    } else if (literal_end_ > literal_size) {
      result.fault = Fault::literals;
    } else if (output_end_ + (literal_size - literal_end_) > limit) {
      result.fault = Fault::block;
    }
    return result;
  }

  // Decodes one sequence. `wide` collects whether kCareful would have been needed.
  template <bool kCareful>
  __device__ __forceinline__ u64 step(bool last, u32& wide) {
    const u32 sum = literal_length_ + offset_ + match_length_;
    const u32 literal_code = literal_length_, offset_code = offset_, match_code = match_length_;
    const u32 high = window_high_, low = window_low_;
    u32 states = __funnelshift_l(low, high, sum);  // behind the value bits
    wide |= sum;
    if (kCareful && (sum & 32) != 0) states = __funnelshift_l(peek_below(64), peek_below(32), sum);
    advance(states, sum, last);
    const u32 code_value = __funnelshift_l(high, 1u, offset_code);
    const u32 lengths = __funnelshift_l(low, high, offset_code);
    const u32 match = __funnelshift_l(lengths, Entry::mantissa(match_code), match_code) + 3;
    const u32 literal =
        __funnelshift_l(__funnelshift_l(0u, lengths, match_code), Entry::mantissa(literal_code), literal_code);
    const u32 offset = history_.next(code_value, literal);
    literal_end_ += literal;
    output_end_ += literal + match;
    return SequenceRecord::pack(output_end_, literal_end_, offset);
  }

 private:
  __device__ __forceinline__ u32 first_state(u32 log) {
    const u32 state = __funnelshift_lc(bits_.peek(), 1u, log);
    bits_.position -= static_cast<int>(log);
    return state;
  }

  // 32 bits that end `above` bits below the position.
  __device__ __forceinline__ u32 peek_below(int above) const {
    const int position = bits_.position - above;
    const u32* word = bits_.word_at(position);
    return __funnelshift_r(word[-1], word[0], static_cast<u32>(position));
  }

  __device__ __forceinline__ void load_window() {
    const u32* word = bits_.word_at(bits_.position);
    const u32 a = word[0], b = word[-1], c = word[-2];
    window_high_ = __funnelshift_r(b, a, static_cast<u32>(bits_.position));
    window_low_ = __funnelshift_r(c, b, static_cast<u32>(bits_.position));
  }

  // On to the next sequence's entries and bits. The last sequence has no state bits.
  __device__ __forceinline__ void advance(u32 states, u32 sum, bool last) {
    const u32 literal_bits = literal_length_ >> 8, match_bits = match_length_ >> 8, offset_bits = offset_ >> 8;
    const u32 behind_literal = __funnelshift_l(0u, states, literal_bits);
    const u32 behind_match = __funnelshift_l(0u, behind_literal, match_bits);
    const u32 literal_state = __funnelshift_l(states, Entry::count(literal_length_), literal_bits);
    const u32 match_state = __funnelshift_l(behind_literal, Entry::count(match_length_), match_bits);
    const u32 offset_state = __funnelshift_l(behind_match, Entry::count(offset_), offset_bits);
    if (last) {
      bits_.position -= static_cast<int>(sum & 63);
    } else {
      bits_.position = __dp4a(static_cast<int>(sum), 0xffff, bits_.position);  // less its two low bytes
      literal_length_ = literal_lengths_[literal_state];
      match_length_ = match_lengths_[match_state];
      offset_ = offsets_[offset_state];
    }
    load_window();
  }

  SequenceRing bits_;
  RepeatOffsets history_;
  SharedTable literal_lengths_;
  SharedTable match_lengths_;
  SharedTable offsets_;
  u32 literal_length_, match_length_, offset_;  // entries of the current sequence
  u32 window_high_, window_low_;                // 64 bits below the position
  u32 output_end_ = 0, literal_end_ = 0;
};

// A whole period without a branch; done again with care when a sequence was too wide for it.
__device__ __forceinline__ void decode_period(SequenceLane& lane, u32 mask, bool live, u64* records) {
  ulonglong2* to = reinterpret_cast<ulonglong2*>(records);
  const SequenceLane before = lane;
  u32 wide = 0;
  DAMACY_UNROLL(16)
  for (u32 i = 0; i < kPeriod / 2; ++i) {
    ulonglong2 pair;
    pair.x = lane.step<false>(false, wide);
    pair.y = lane.step<false>(false, wide);
    to[i] = pair;
  }
  if (!__any_sync(mask, live && (wide & 32) != 0)) return;
  lane = before;
  DAMACY_UNROLL(1)
  for (u32 i = 0; i < kPeriod / 2; ++i) {
    ulonglong2 pair;
    pair.x = lane.step<true>(false, wide);
    pair.y = lane.step<true>(false, wide);
    to[i] = pair;
  }
}

// What is left of a block's last period, one sequence at a time; the last one has no state bits and gives the result.
__device__ __forceinline__ void decode_rest(SequenceLane& lane, const Block& block, u32& done, u64* records,
                                            SequenceResult& result) {
  DAMACY_UNROLL(1)
  for (u32 i = 0; i < kPeriod; ++i) {
    if (done >= block.sequence_count) continue;
    u32 wide = 0;
    const bool last = done + 1 == block.sequence_count;
    records[done++] = lane.step<true>(last, wide);
    if (last) result = lane.result(block.literal_size, block.limit);  // now: a finished lane keeps stepping
  }
}

// All lanes of `mask` together, until the last is finished.
__device__ __forceinline__ void decode_stream(SequenceLane& lane, u32 mask, const Block& block, u64* records,
                                              u64* aside, SequenceResult& result) {
  u32 count = block.sequence_count, done = 0;
  for (;;) {
    copy_async_wait();
    if (!__any_sync(mask, done < count)) return;
    if (done < count && lane.broken()) {
      result.fault = Fault::bits;
      count = done;
    }
    lane.fetch();
    const bool live = done < count;
    if (__all_sync(mask, !live || count - done > kPeriod)) {
      decode_period(lane, mask, live, live ? records + done : aside);
      if (live)
        done += kPeriod;
      else
        lane.idle();
    } else if (live) {
      decode_rest(lane, block, done, records, result);
    }
  }
}

// The blocks of one warp before their streams are read. Every slot has its block's tables.
template <int kLanes>
struct SequenceSlots {
  TableSet sets[kLanes];
  u32 ready[kLanes];
};

// Lanes 0 .. kLanes read the table descriptions of a block each; then every lane builds one table at a time.
template <int kLanes>
__device__ __forceinline__ void prepare_tables(const WaveView& wave, const Block& block, bool mine,
                                               SequenceMemory* memory, SequenceSlots<kLanes>& slots) {
  const u32 lane = threadIdx.x;
  if (lane < kLanes) slots.ready[lane] = mine && read_table_set_of(wave, block, memory[lane], slots.sets[lane]) ? 1 : 0;
  __syncwarp();
  for (u32 task = lane; task < 3 * kLanes; task += kWarp) {
    const u32 slot = task % kLanes;
    const int alphabet = static_cast<int>(task / kLanes);
    if (slots.ready[slot] != 0)
      build_sequence_table(slots.sets[slot], alphabet, memory[slot].counts(), memory[slot].table(alphabet));
  }
  __syncwarp();
}

template <int kLanes>
__global__ void __launch_bounds__(kWarp) decode_sequences(WaveView wave) {
  DAMACY_DYNAMIC_SHARED(shared);
  __shared__ SequenceSlots<kLanes> slots;
  const u32 lane = threadIdx.x, place = blockIdx.x * kLanes + lane;
  const bool mine = lane < kLanes && place < wave.sequence_blocks;
  const u32 index = mine ? wave.sequence_order[place] : 0;
  const Block& block = wave.blocks[index];
  SequenceMemory* memory = reinterpret_cast<SequenceMemory*>(shared);
  prepare_tables<kLanes>(wave, block, mine, memory, slots);
  const bool on = mine && slots.ready[lane] != 0;
  SequenceResult result{Fault::fse, 0, 0, {0, 0, 0}};
  const u32 mask = __ballot_sync(kWholeWarp, on);
  if (on) {
    const TableSet& set = slots.sets[lane];
    const u8* stream = wave.source + block.source + set.stream;
    SequenceLane decoder(memory[lane], set, stream, block.size - set.stream, block.has(Block::kFirst));
    result.fault = Fault::none;
    decode_stream(decoder, mask, block, wave.records + block.records, wave.aside, result);
  }
  if (mine) wave.sequence_results[index] = result;
}

}  // namespace damacy::gpu
