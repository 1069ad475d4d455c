#include "damacy/wave/stage_frames.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "damacy/codec/blosc.h"
#include "damacy/codec/bytes.h"

namespace damacy {
namespace {

constexpr std::uint64_t kCrcBytes = 4;

// Larger streams are slower on a device than on a core: they are decoded serially.
constexpr std::uint64_t kMaxDeviceChunk = std::uint64_t{64} << 20;

bool has_kernel(CodecId id) noexcept {
  return id == CodecId::zstd || id == CodecId::blosc || id == CodecId::lz4;
}

// A chunk while its frames are found.
struct Staging {
  std::uint64_t decoded_at;
  std::span<const std::byte> bytes;  // of the frame, checksums gone
  std::uint64_t at;                  // of bytes[0], in the slab
  std::uint64_t decoded_size;
  std::vector<ByteRange> needed;
  const NeededBlocks* blocks;  // null: all of the chunk is there
  std::vector<GpuFrame>& frames;
  StagedFrames found = {};
};

enum class Checksums { verified_now, verified_before };

DecodeResult strip_checksums(const CodecChain& codecs, Checksums checksums, Staging& staging) {
  for (std::size_t i = codecs.codecs().size(); i-- > 0 && codecs.codecs()[i].id == CodecId::crc32c;) {
    if (staging.bytes.size() < kCrcBytes)
      return {DecodeStatus::size, "crc32c: fewer bytes than a checksum has", staging.bytes.size(), kCrcBytes};
    const bool front = codecs.codecs()[i].checksum_at_start;
    const auto stored_at = front ? staging.bytes.first(kCrcBytes) : staging.bytes.last(kCrcBytes);
    const std::uint32_t stored = detail::read_le32(stored_at.data());
    staging.bytes = front ? staging.bytes.subspan(kCrcBytes) : staging.bytes.first(staging.bytes.size() - kCrcBytes);
    staging.at += front ? kCrcBytes : 0;
    if (checksums == Checksums::verified_before) continue;
    if (const std::uint32_t computed = crc32c(staging.bytes); stored != computed)
      return {DecodeStatus::checksum, "crc32c: stored checksum", stored, computed};
  }
  return {};
}

// `needed`: bytes [0, needed) of the output must be right; 0: all. As on the host, only plain zstd ends early.
void describe_frame(Staging& staging, GpuCodec codec, ByteRange source, ByteRange target, std::uint64_t needed = 0) {
  GpuFrame frame;
  frame.src_offset = staging.at + source.begin;
  frame.src_size = source.size();
  frame.dst_offset = staging.decoded_at + target.begin;
  frame.dst_size = target.size();
  frame.codec = codec;
  frame.needed_end = needed;
  staging.frames.push_back(frame);
}

// Adds all frames to the wave at once, because contention between readers costs more than a small frame.
DecodeResult add_frames(const FrameSink& sink, Staging& staging) {
  if (staging.found.host || staging.frames.empty()) return {};
  thread_local std::vector<std::uint32_t> indices;
  indices.resize(staging.frames.size());
  const DecodeResult result = sink.frames.add_chunk(staging.bytes, staging.at, staging.frames, indices);
  sink.own(indices);
  staging.found.host = std::ranges::find(indices, FrameList::kHost) != indices.end();
  return result;
}

void in_place(Staging& staging, std::uint64_t offset) {
  staging.found.in_source = staging.at + offset;
}

DecodeResult stage_raw(Staging& staging) {
  if (staging.bytes.size() != staging.decoded_size)
    return {DecodeStatus::size, "size of the stored bytes", staging.bytes.size(), staging.decoded_size};
  in_place(staging, 0);
  return {};
}

DecodeResult stage_lz4(Staging& staging) {
  if (staging.bytes.size() < 4)
    return {DecodeStatus::size, "lz4: fewer bytes than a size has", staging.bytes.size(), 4};
  const std::uint64_t declared = detail::read_le32(staging.bytes.data());
  if (declared != staging.decoded_size)
    return {DecodeStatus::size, "lz4: declared size", declared, staging.decoded_size};
  describe_frame(staging, GpuCodec::lz4, {4, staging.bytes.size()}, {0, staging.decoded_size});
  return {};
}

bool touches(std::span<const ByteRange> needed, ByteRange block) {
  return std::ranges::any_of(needed, [&](const ByteRange& r) { return r.begin < block.end && r.end > block.begin; });
}

// Where the bytes from a position of a chunk on are among those that were staged: all of them, or one part.
struct EncodedPart {
  std::span<const std::byte> bytes;
  std::uint64_t begin;  // of bytes[0], in the chunk
  std::uint64_t at;     // the same, in Staging::bytes
};
EncodedPart part_from(const Staging& staging, std::uint64_t position) {
  if (staging.blocks == nullptr) return {staging.bytes, 0, 0};
  const auto* part = NeededBlocks::part_with(staging.blocks->encoded, {position, position});
  if (part == nullptr) return {{}, position, 0};
  return {staging.bytes.subspan(part->at, part->range.size()), part->range.begin, part->at};
}

// Where the decoded block goes, counted from Staging::decoded_at.
std::uint64_t target_of(const Staging& staging, ByteRange block) {
  if (staging.blocks == nullptr) return block.begin;
  return block.begin + staging.blocks->shift_of(block).value();
}

DecodeResult stage_blosc_block(Staging& staging, const BloscHeader& header, std::uint64_t block) {
  std::uint64_t position = 0;
  if (const DecodeResult r = blosc_block_start(header, staging.bytes, block, position); !r.ok()) return r;
  BloscStreams streams;
  if (const DecodeResult r = blosc_streams(header, block, streams); !r.ok()) return r;
  const EncodedPart part = part_from(staging, position);
  const ByteRange everything{0, part.bytes.size()};
  const std::uint64_t begin = header.block_begin(block);
  std::uint64_t target = target_of(staging, {begin, begin + header.block_size(block)});
  position -= part.begin;
  for (std::uint32_t s = 0; s < streams.count; ++s, target += streams.bytes) {
    ByteRange data;
    if (const DecodeResult r = blosc_stream(part.bytes, {&everything, 1}, streams.bytes, position, data); !r.ok())
      return r;
    const GpuCodec codec = data.size() == streams.bytes      ? GpuCodec::raw
                           : header.codec == BloscCodec::lz4 ? GpuCodec::lz4
                                                             : GpuCodec::zstd;
    describe_frame(staging, codec, {part.at + data.begin, part.at + data.end}, {target, target + streams.bytes});
  }
  return {};
}

DecodeResult stage_blosc_blocks(Staging& staging, const BloscHeader& header) {
  staging.found.layout.typesize = static_cast<std::uint8_t>(header.typesize);
  staging.found.layout.block_bytes = static_cast<std::uint32_t>(header.blocksize);
  if (header.filter == BloscFilter::bytes) staging.found.layout.shuffle = ChunkLayout::Shuffle::bytes;
  if (header.filter == BloscFilter::bits) staging.found.layout.shuffle = ChunkLayout::Shuffle::bits;
  for (std::uint64_t block = 0; block < header.block_count; ++block) {
    const std::uint64_t begin = header.block_begin(block);
    if (!touches(staging.needed, {begin, begin + header.block_size(block)})) continue;
    if (const DecodeResult r = stage_blosc_block(staging, header, block); !r.ok()) return r;
  }
  return {};
}

DecodeResult stage_blosc(Staging& staging) {
  BloscHeader header;
  if (const DecodeResult r = read_blosc_header(staging.bytes, staging.bytes.size(), &staging.decoded_size, header);
      !r.ok())
    return r;
  if (header.memcpyed) {
    in_place(staging, BloscHeader::kBytes);
    return {};
  }
  staging.found.host = !device_decodes(header);
  return staging.found.host ? DecodeResult{} : stage_blosc_blocks(staging, header);
}

DecodeResult find_frames(const CodecChain& codecs, Checksums checksums, Staging& staging) {
  if (staging.blocks != nullptr) return stage_blosc_blocks(staging, staging.blocks->header);
  if (const DecodeResult r = codecs.check_encoded_size(staging.bytes.size(), staging.decoded_size); !r.ok()) return r;
  if (const DecodeResult r = strip_checksums(codecs, checksums, staging); !r.ok()) return r;
  if (codecs.codecs().empty() || codecs.codecs().front().id == CodecId::crc32c) return stage_raw(staging);
  switch (codecs.codecs().front().id) {
    case CodecId::lz4:
      return stage_lz4(staging);
    case CodecId::blosc:
      return stage_blosc(staging);
    default:
      break;
  }
  describe_frame(staging, GpuCodec::zstd, {0, staging.bytes.size()}, {0, staging.decoded_size},
                 std::min(staging.needed.back().end, staging.decoded_size));
  return {};
}

// A note: this, and for each frame a NoteFrame and the description by the list of frames.
struct NoteHead {
  ChunkLayout layout;
  std::uint64_t in_source;
  std::uint32_t frames;
  bool is_in_source;
};
struct NoteFrame {
  ByteRange block;      // of the decoded chunk: the frame is decoded when some of it is needed
  std::uint32_t bytes;  // of the description
  GpuCodec codec;
};
static_assert(std::is_trivially_copyable_v<NoteHead> && std::is_trivially_copyable_v<NoteFrame>);

template <class T>
void append(const T& item, std::vector<std::byte>& to) {
  const auto bytes = std::as_bytes(std::span(&item, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

template <class T>
T take(std::span<const std::byte>& from) {
  T item;
  std::memcpy(&item, from.data(), sizeof item);
  from = from.subspan(sizeof item);
  return item;
}

// The block of blosc that has the decoded byte `at`, or the whole chunk.
ByteRange whole_block(const ChunkLayout& layout, std::uint64_t at) {
  if (layout.block_bytes == 0) return {0, layout.chunk_bytes};
  const std::uint64_t begin = at / layout.block_bytes * layout.block_bytes;
  return {begin, std::min<std::uint64_t>(begin + layout.block_bytes, layout.chunk_bytes)};
}

}  // namespace

bool device_decodes(const CodecChain& codecs) noexcept {
  const auto list = codecs.codecs();
  const std::size_t compressors = static_cast<std::size_t>(
      std::count_if(list.begin(), list.end(), [](const CodecSpec& codec) { return codec.id != CodecId::crc32c; }));
  return compressors == 0 || (compressors == 1 && has_kernel(list.front().id));
}

DecodeResult stage_frames(const CodecChain& codecs, const StagedBytes& chunk, const FrameSink& sink,
                          StagedFrames& found) {
  thread_local std::vector<GpuFrame> frames;
  frames.clear();
  Staging staging{chunk.decoded_at, chunk.packed, chunk.staged_at, chunk.decoded_bytes,
                  chunk.needed,     chunk.blocks, frames};
  staging.found.layout.chunk_bytes = chunk.decoded_bytes;
  DecodeResult result = find_frames(codecs, Checksums::verified_now, staging);
  staging.found.all = result.ok();
  if (result.ok()) result = add_frames(sink, staging);
  found = staging.found;
  found.host = found.host || (chunk.blocks == nullptr && chunk.decoded_bytes > kMaxDeviceChunk);
  return result;
}

bool describe_chunk(const CodecChain& codecs, std::span<const std::byte> packed, std::uint64_t decoded_bytes,
                    const FrameList& list, std::vector<std::byte>& note) {
  thread_local std::vector<GpuFrame> frames;
  frames.clear();
  Staging staging{0, packed, 0, decoded_bytes, {{0, decoded_bytes}}, nullptr, frames};
  staging.found.layout.chunk_bytes = decoded_bytes;
  if (!find_frames(codecs, Checksums::verified_before, staging).ok() || staging.found.host) return false;
  NoteHead head{};
  head.layout = staging.found.layout;
  head.is_in_source = staging.found.in_source.has_value();
  head.in_source = staging.found.in_source.value_or(0);
  head.frames = static_cast<std::uint32_t>(frames.size());
  append(head, note);
  for (GpuFrame& frame : frames) {
    const std::size_t at = note.size();
    NoteFrame entry{whole_block(head.layout, frame.dst_offset), 0, frame.codec};
    frame.needed_end = 0;
    append(entry, note);
    if (!list.describe(packed.subspan(frame.src_offset, frame.src_size), frame, note)) return false;
    entry.bytes = static_cast<std::uint32_t>(note.size() - at - sizeof entry);
    std::memcpy(note.data() + at, &entry, sizeof entry);
  }
  return true;
}

StagedFrames find_described(std::span<const std::byte> note, std::uint64_t source, std::uint64_t destination,
                            std::span<const ByteRange> needed, std::vector<FrameList::DescribedFrame>& frames) {
  const auto head = take<NoteHead>(note);
  StagedFrames found;
  found.layout = head.layout;
  if (head.is_in_source) found.in_source = source + head.in_source;
  for (std::uint32_t i = 0; i < head.frames; ++i) {
    const auto entry = take<NoteFrame>(note);
    const bool ends_early = entry.codec == GpuCodec::zstd && head.layout.block_bytes == 0;
    if (touches(needed, entry.block))
      frames.push_back({note.first(entry.bytes), source, destination,
                        ends_early ? std::min(needed.back().end, entry.block.end) : 0});
    note = note.subspan(entry.bytes);
  }
  return found;
}

}  // namespace damacy
