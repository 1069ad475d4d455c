#include "support/reference_decoder.h"

#include <cstring>

#include "damacy/codec/gpu_zstd/lz4_records.h"
#include "damacy/codec/gpu_zstd/xxh64.h"

namespace damacy::gpu {
namespace {

// Bits from the end of a stream to its start. What lies before the start reads as zero and shows as an overrun.
class StreamBits {
 public:
  StreamBits(const u8* bytes, u32 size) : bytes_(bytes), size_(size) {
    const u32 last = size == 0 ? 0 : bytes[size - 1];
    position_ = last == 0 ? -1 : 8 * (std::int64_t{size} - 1) + log2_floor(last);
  }
  bool marked() const { return position_ >= 0; }
  bool overrun() const { return position_ < 0; }
  bool at_start() const { return position_ == 0; }

  u32 peek(u32 count) const {
    if (count == 0) return 0;
    const std::int64_t bit = position_ - count;
    u64 value = 0;
    for (int i = 0; i < 6; ++i) {
      const std::int64_t byte = (bit >> 3) + i;
      if (byte >= 0 && byte < size_) value |= u64{bytes_[byte]} << (8 * i);
    }
    return static_cast<u32>(value >> (bit & 7) & ((u64{1} << count) - 1));
  }
  void skip(u32 count) { position_ -= count; }
  u32 take(u32 count) {
    const u32 value = peek(count);
    skip(count);
    return value;
  }

 private:
  const u8* bytes_;
  std::int64_t size_;
  std::int64_t position_;
};

u32 take_value(StreamBits& bits, u32 entry) {
  const u32 extra = Entry::extra(entry);
  return (Entry::mantissa(entry) << extra) + bits.take(extra);
}

u32 take_state(StreamBits& bits, u32 entry, u32 log) {
  const u32 width = Entry::state_bits(entry);
  return (Entry::count(entry) << width) + bits.take(width) - (1u << log);
}

struct WholeInput {
  const u8* bytes;
  u32 size;
  u32 byte(u32 i) const { return i < size ? bytes[i] : 0u; }
};

}  // namespace

ReferenceDecoder::Outcome ReferenceDecoder::decode(std::span<const std::byte> bytes, GpuCodec codec,
                                                   std::span<std::byte> out, std::uint64_t needed_end) {
  GpuFrame frame;
  frame.src_size = bytes.size();
  frame.dst_size = out.size();
  frame.codec = codec;
  frame.needed_end = needed_end;
  Outcome outcome;
  outcome.scan = scan_frame(bytes, frame, scan_);
  if (!outcome.scan.ok()) return outcome;
  if (scan_.ask_host) {
    outcome.fault = Fault::ask_host;
    return outcome;
  }
  source_ = reinterpret_cast<const u8*>(bytes.data());
  out_ = reinterpret_cast<u8*>(out.data());
  size_ = static_cast<u32>(out.size());
  position_ = segment_ = segment_begin_ = 0;
  outcome.fault = codec == GpuCodec::lz4 ? decode_lz4() : decode_blocks();
  return outcome;
}

Fault ReferenceDecoder::decode_blocks() {
  const bool partial = scan_.frame.needed < scan_.frame.size;
  for (const Block& block : scan_.blocks) {
    if (partial && position_ >= scan_.frame.needed) return Fault::none;
    if (const Fault fault = decode_block(block); fault != Fault::none) return fault;
  }
  if (partial && position_ >= scan_.frame.needed) return Fault::none;
  if (scan_.frame.cut != 0) return Fault::ask_host;
  return position_ == size_ ? Fault::none : Fault::size;
}

Fault ReferenceDecoder::decode_block(const Block& block) {
  if (block.has(Block::kFirst)) {
    repeats_ = RepeatOffsets::initial();
    segment_begin_ = position_;
  }
  block_begin_ = position_;
  const u8* content = source_ + block.source;
  if (block.type != BlockType::compressed) {
    if (block.produced > size_ - position_) return Fault::size;
    if (block.produced != 0 && block.type == BlockType::raw) std::memcpy(out_ + position_, content, block.produced);
    if (block.produced != 0 && block.type == BlockType::rle) std::memset(out_ + position_, *content, block.produced);
    position_ += block.produced;
  } else {
    if (const Fault fault = decode_literals(block); fault != Fault::none) return fault;
    if (const Fault fault = decode_sequences(block); fault != Fault::none) return fault;
  }
  return block.has(Block::kLast) ? end_segment() : Fault::none;
}

Fault ReferenceDecoder::end_segment() {
  const Segment& segment = scan_.segments[segment_++];
  const u32 produced = position_ - segment_begin_;
  if (segment.content_size != kUnknownSize && segment.content_size != produced) return Fault::size;
  if (segment.has_checksum == 0) return Fault::none;
  const auto hash = static_cast<u32>(Xxh64::hash(out_ + segment_begin_, produced));
  return hash == segment.checksum ? Fault::none : Fault::checksum;
}

Fault ReferenceDecoder::decode_literals(const Block& block) {
  const u8* section = source_ + block.source + block.literal_offset;
  literals_.assign(block.literal_size, 0);
  literal_position_ = 0;
  if (block.has_huffman_literals()) return decode_huffman(block);
  if (block.literal_size == 0) return Fault::none;
  if (block.literal_type == LiteralType::raw)
    std::memcpy(literals_.data(), section, block.literal_size);
  else
    std::memset(literals_.data(), *section, block.literal_size);
  return Fault::none;
}

Fault ReferenceDecoder::decode_huffman(const Block& block) {
  const Block& tree = scan_.blocks[block.huffman_block];
  const ByteView description{source_ + tree.source + tree.literal_offset, tree.literal_stored};
  if (!read_weights(description, weights_, weights_scratch_)) return Fault::huffman;
  u16 next[16];
  number_weights(weights_, next);
  for (u32 s = 0; s < weights_.symbols; ++s) {
    const u32 weight = weights_.weight[s];
    if (weight == 0) continue;
    for (u32 i = 0; i < 1u << (weight - 1); ++i)
      huffman_[next[weight]++] = static_cast<u16>(s | (weights_.bits + 1 - weight) << 8);
  }
  const ByteView section{source_ + block.source + block.literal_offset, block.literal_stored};
  const u32 begin = block.literal_type == LiteralType::huffman ? weights_.stored : 0;
  LiteralStreams streams;
  if (!split_streams(section, begin, block.literal_size, block.has(Block::kFourStreams), streams))
    return Fault::literals;
  u8* to = literals_.data();
  for (u32 i = 0; i < streams.count; ++i) {
    const u8* bytes = section.data + streams.offset[i];
    const Fault fault = decode_stream(bytes, streams.size[i], to, streams.produced[i], weights_.bits);
    if (fault != Fault::none) return fault;
    to += streams.produced[i];
  }
  return Fault::none;
}

Fault ReferenceDecoder::decode_stream(const u8* bytes, u32 size, u8* to, u32 count, u32 bits) {
  StreamBits stream(bytes, size);
  if (!stream.marked()) return Fault::bits;
  for (u32 i = 0; i < count && !stream.overrun(); ++i) {
    const u32 entry = huffman_[stream.peek(bits)];
    to[i] = static_cast<u8>(entry);
    stream.skip(entry >> 8);
  }
  return stream.at_start() ? Fault::none : Fault::bits;
}

Fault ReferenceDecoder::decode_sequences(const Block& block) {
  if (block.sequence_count != 0) {
    TableSet set;
    i16 counts[kCountsWords], skipped[64];
    if (!read_table_set(source_, scan_.blocks.data(), block, counts, skipped, set)) return Fault::fse;
    for (int alphabet = 0; alphabet < 3; ++alphabet) build_sequence_table(set, alphabet, counts, tables_[alphabet]);
    StreamBits bits(source_ + block.source + set.stream, block.size - set.stream);
    u32 state[3];
    for (int i = 0; i < 3; ++i) state[i] = bits.take(set.log[i]);
    for (u32 left = block.sequence_count; left != 0 && !bits.overrun(); --left) {
      const u32 entry[3] = {tables_[0][state[0]], tables_[1][state[1]], tables_[2][state[2]]};
      const u32 code_value = take_value(bits, entry[kOffsets]);
      const u32 match_length = take_value(bits, entry[kMatchLengths]) + 3;
      const u32 literal_length = take_value(bits, entry[kLiteralLengths]);
      const u32 offset = repeats_.next(code_value, literal_length);
      if (left != 1)
        for (const int i : {kLiteralLengths, kMatchLengths, kOffsets})
          state[i] = take_state(bits, entry[i], set.log[i]);
      if (bits.overrun()) return Fault::bits;
      if (const Fault fault = execute(literal_length, match_length, offset); fault != Fault::none) return fault;
    }
    if (!bits.at_start()) return Fault::bits;
  }
  const u32 rest = block.literal_size - literal_position_;
  if (position_ - block_begin_ + rest > block.limit) return Fault::block;
  return copy_out(literals_.data() + literal_position_, rest);
}

Fault ReferenceDecoder::copy_out(const u8* from, u32 count) {
  if (count > size_ - position_) return Fault::size;
  if (count != 0) std::memcpy(out_ + position_, from, count);
  position_ += count;
  return Fault::none;
}

Fault ReferenceDecoder::execute(u32 literal_length, u32 match_length, u32 offset) {
  if (literal_length > literals_.size() - literal_position_) return Fault::literals;
  if (position_ - block_begin_ + literal_length + match_length > kMaxBlock) return Fault::block;
  const Fault fault = copy_out(literals_.data() + literal_position_, literal_length);
  if (fault != Fault::none) return fault;
  literal_position_ += literal_length;
  if (match_length > size_ - position_) return Fault::size;
  if (offset == 0 || offset > position_ - segment_begin_) return Fault::offset;
  for (u32 i = 0; i < match_length; ++i, ++position_) out_[position_] = out_[position_ - offset];
  return Fault::none;
}

Fault ReferenceDecoder::decode_lz4() {
  const Frame& frame = scan_.frame;
  records_.assign(frame.record_capacity, 0);
  runs_.assign(frame.block_count, {});
  const WholeInput input{source_, frame.source_size};
  Lz4RecordWriter writer(records_.data(), frame.record_capacity, runs_.data());
  Lz4Parser parser(frame.source_size, frame.size);
  for (auto step = Lz4Parser::Step::more; step == Lz4Parser::Step::more && writer.produced() < frame.needed;) {
    step = parser.sequence(input, writer.produced());
    if (step == Lz4Parser::Step::fault || !parser.write(writer)) return Fault::lz4;
  }
  writer.finish();
  for (u32 run = 0; position_ < writer.produced(); ++run) {
    const u32 begin = position_;
    for (u32 i = runs_[run].first_record; i < runs_[run + 1].first_record; ++i)
      run_lz4_record(records_[i], runs_[run].literal_base, begin);
  }
  return Fault::none;
}

void ReferenceDecoder::run_lz4_record(u64 record, u32 literal_base, u32 run_begin) {
  const u32 literal_length = Lz4Record::literal_length(record), offset = Lz4Record::offset(record);
  const u8* literals = source_ + literal_base + Lz4Record::literal(record, literal_base);
  if (literal_length != 0) std::memcpy(out_ + position_, literals, literal_length);
  position_ += literal_length;
  for (const u32 end = run_begin + Lz4Record::output_end(record); position_ < end; ++position_)
    out_[position_] = out_[position_ - offset];
}

}  // namespace damacy::gpu
