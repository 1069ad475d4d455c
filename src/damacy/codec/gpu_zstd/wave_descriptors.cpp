#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "damacy/codec/gpu_decoder.h"
#include "damacy/codec/gpu_zstd/wave_layout.h"

namespace damacy {
namespace {

using gpu::Block;
using gpu::u32;
using gpu::u64;

bool has_sequences(const Block& block) {
  return block.type == gpu::BlockType::compressed && block.sequence_count != 0;
}

bool has_packed_literals(const Block& block) {
  return block.type == gpu::BlockType::compressed && block.literal_type != gpu::LiteralType::raw &&
         block.literal_size != 0;
}

WaveShape shape_of(const FrameScan& scan) {
  WaveShape shape;
  shape.frames = 1;
  const bool lz4 = scan.codec == GpuCodec::lz4;
  shape.lz4_frames = lz4 ? 1 : 0;
  shape.zstd_frames = lz4 ? 0 : 1;
  shape.lz4_runs = lz4 ? scan.frame.block_count : 0;
  shape.zstd_bytes = lz4 ? 0 : scan.frame.size;
  shape.blocks = static_cast<u32>(scan.blocks.size());
  shape.segments = static_cast<u32>(scan.segments.size());
  for (const gpu::Segment& segment : scan.segments) shape.checksums += segment.has_checksum;
  for (const Block& block : scan.blocks) {
    shape.sequence_blocks += has_sequences(block) ? 1 : 0;
    shape.literal_blocks += has_packed_literals(block) ? 1 : 0;
  }
  shape.literal_bytes = scan.literal_bytes;
  shape.records = scan.records;
  shape.sequences = scan.sequences;
  return shape;
}

WaveShape sum(const WaveShape& a, const WaveShape& b) {
  WaveShape shape;
  shape.frames = a.frames + b.frames;
  shape.zstd_frames = a.zstd_frames + b.zstd_frames;
  shape.lz4_frames = a.lz4_frames + b.lz4_frames;
  shape.blocks = a.blocks + b.blocks;
  shape.segments = a.segments + b.segments;
  shape.checksums = a.checksums + b.checksums;
  shape.sequence_blocks = a.sequence_blocks + b.sequence_blocks;
  shape.literal_blocks = a.literal_blocks + b.literal_blocks;
  shape.lz4_runs = a.lz4_runs + b.lz4_runs;
  shape.literal_bytes = a.literal_bytes + b.literal_bytes;
  shape.records = a.records + b.records;
  shape.sequences = a.sequences + b.sequences;
  shape.zstd_bytes = a.zstd_bytes + b.zstd_bytes;
  return shape;
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

u64 scratch_room(const WaveLimits& limits) {
  return limits.scratch_bytes - std::min(limits.scratch_bytes, gpu::ScratchLayout::kPadding);
}

u64 image_room(const WaveLimits& limits) {
  return limits.image_bytes - std::min(limits.image_bytes, gpu::ImageLayout::kPadding);
}

double share(u64 taken, u64 room) {
  return room == 0 ? 1 : static_cast<double>(taken) / static_cast<double>(room);
}

// A lock for tens of nanoseconds: sleeping would cost more, and asking only when it looks free spares its holder the
// cache misses.
class BriefLock {
 public:
  explicit BriefLock(std::atomic<bool>& held) : held_(held) {
    for (int asked = 0; held_.exchange(true, std::memory_order_acquire);)
      while (held_.load(std::memory_order_relaxed)) {
        if (++asked % 256 == 0)
          std::this_thread::yield();  // its holder may wait for our core
        else
          pause();
      }
  }
  BriefLock(const BriefLock&) = delete;
  BriefLock& operator=(const BriefLock&) = delete;
  ~BriefLock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool>& held_;
};

// Indices and positions of one frame become those of the wave, whose next free places are `base`.
void rebase(Block& block, u64 source, const WaveShape& base) {
  block.source += source;
  block.literals += base.literal_bytes;
  block.records += base.records;
  block.huffman_block += base.blocks;
  for (u32& table : block.tables) table += base.blocks;
}

// Items sorted by falling key, so that the longest work starts first. A counting sort: order within a bucket is free.
class LongestFirst {
 public:
  void add(u32 item, u32 key) {
    items_.push_back({item, key});
    largest_ = std::max(largest_, key);
  }
  void write(std::byte* destination) const {
    constexpr u32 kBuckets = 1024;
    const auto bucket = [&](u32 key) {
      return static_cast<u32>(u64{largest_ - key} * (kBuckets - 1) / std::max(largest_, 1u));
    };
    std::array<u32, kBuckets + 1> begin{};
    for (const Item& item : items_) ++begin[bucket(item.key) + 1];
    for (u32 i = 0; i < kBuckets; ++i) begin[i + 1] += begin[i];
    for (const Item& item : items_)
      std::memcpy(destination + sizeof(u32) * begin[bucket(item.key)]++, &item.index, sizeof(u32));
  }

 private:
  struct Item {
    u32 index, key;
  };
  std::vector<Item> items_;
  u32 largest_ = 0;
};

}  // namespace

u64 image_bytes(const WaveShape& shape) noexcept {
  return gpu::ImageLayout(shape).total;
}

u64 scratch_bytes(const WaveShape& shape) noexcept {
  return gpu::ScratchLayout(shape).total;
}

WaveDescriptors::WaveDescriptors(const WaveLimits& limits)
    : limits_(limits),
      frames_(std::make_unique_for_overwrite<gpu::Frame[]>(limits.frames)),
      codecs_(std::make_unique_for_overwrite<GpuCodec[]>(limits.frames)),
      blocks_(std::make_unique_for_overwrite<gpu::Block[]>(limits.blocks)),
      segments_(std::make_unique_for_overwrite<gpu::Segment[]>(limits.blocks)) {}

bool WaveDescriptors::reserve(const WaveShape& more, WaveShape& base) {
  const u64 scratch = gpu::ScratchLayout(more, /*alignment=*/1).total;
  const u64 image = gpu::ImageLayout(more, /*alignment=*/1).total + sizeof(u32) * u64{more.frames};
  const BriefLock lock(reserving_);
  base = shape_;
  const WaveShape next = sum(shape_, more);
  if (next.frames > limits_.frames || next.blocks > limits_.blocks || next.segments > limits_.blocks ||
      scratch > scratch_room(limits_) - scratch_ || image > image_room(limits_) - image_)
    return false;
  shape_ = next;
  scratch_ += scratch;
  image_ += image;
  return true;
}

double WaveDescriptors::fill() const {
  const BriefLock lock(reserving_);
  return std::max({share(shape_.frames, limits_.frames), share(shape_.blocks, limits_.blocks),
                   share(shape_.segments, limits_.blocks), share(scratch_, scratch_room(limits_)),
                   share(image_, image_room(limits_))});
}

u32 WaveDescriptors::add(const FrameScan& scan) {
  WaveShape base;
  if (!reserve(shape_of(scan), base)) return kFull;
  put(scan, base);
  return base.frames;
}

void WaveDescriptors::add(std::span<const FrameScan> scans, std::span<u32> indices) {
  WaveShape all, base;
  for (const FrameScan& scan : scans) all = sum(all, shape_of(scan));
  const bool fit = reserve(all, base);
  for (std::size_t i = 0; i < scans.size(); ++i) {
    indices[i] = fit ? base.frames : add(scans[i]);
    if (!fit) continue;
    put(scans[i], base);
    base = sum(base, shape_of(scans[i]));
  }
}

// `base`: the first places that are the frame's.
void WaveDescriptors::put(const FrameScan& scan, const WaveShape& base) {
  gpu::Frame& frame = frames_[base.frames];
  frame = scan.frame;
  codecs_[base.frames] = scan.codec;
  frame.first_segment = base.segments;
  frame.records = base.records;
  frame.first_block = scan.codec == GpuCodec::lz4 ? base.lz4_runs : base.blocks;
  for (std::size_t i = 0; i < scan.blocks.size(); ++i) {
    Block& block = blocks_[base.blocks + i];
    block = scan.blocks[i];
    rebase(block, scan.frame.source, base);
  }
  for (std::size_t i = 0; i < scan.segments.size(); ++i) {
    segments_[base.segments + i] = scan.segments[i];
    segments_[base.segments + i].frame = base.frames;
  }
}

void WaveDescriptors::write_image(std::span<std::byte> image) const {
  const gpu::ImageLayout layout(shape_);
  const auto put = [&](u64 at, const auto& items, u32 count) {
    if (count != 0) std::memcpy(image.data() + at, items.get(), count * sizeof(items[0]));
  };
  put(layout.frames, frames_, shape_.frames);
  put(layout.segments, segments_, shape_.segments);
  put(layout.blocks, blocks_, shape_.blocks);
  LongestFirst sequences, literals, zstd, lz4;
  for (u32 i = 0; i < shape_.blocks; ++i) {
    if (has_sequences(blocks_[i])) sequences.add(i, blocks_[i].sequence_count);
    if (has_packed_literals(blocks_[i])) literals.add(i, blocks_[i].literal_size);
  }
  for (u32 i = 0; i < shape_.frames; ++i) {
    if (codecs_[i] == GpuCodec::lz4)
      lz4.add(i, frames_[i].source_size);
    else
      zstd.add(i, frames_[i].size);
  }
  sequences.write(image.data() + layout.sequence_order);
  literals.write(image.data() + layout.literal_order);
  zstd.write(image.data() + layout.zstd_order);
  lz4.write(image.data() + layout.lz4_order);
}

void WaveDescriptors::clear() noexcept {
  shape_ = {};
  scratch_ = image_ = 0;
}

GpuVerdict verdict_of(u32 status_word) noexcept {
  using gpu::Fault;
  const auto frame = [](const char* detail) { return GpuVerdict{{DecodeStatus::frame, detail, 0, 0}, false}; };
  switch (static_cast<Fault>(status_word)) {
    case Fault::none:
      return {};
    case Fault::truncated:
      return frame("a frame is cut off");
    case Fault::header:
      return frame("zstd: a frame header");
    case Fault::block:
      return frame("zstd: a block gives more than 128 KiB");
    case Fault::literals:
      return frame("zstd: more literals used than there are");
    case Fault::huffman:
      return frame("zstd: a Huffman tree");
    case Fault::fse:
      return frame("zstd: an FSE table");
    case Fault::sequences:
      return frame("zstd: a sequences section");
    case Fault::bits:
      return frame("zstd: a bit stream does not end where it should");
    case Fault::offset:
      return frame("zstd: a match before the frame's first byte");
    case Fault::size:
      return {{DecodeStatus::size, "decoded size differs from the size expected", 0, 0}, false};
    case Fault::checksum:
      return {{DecodeStatus::checksum, "zstd: content checksum", 0, 0}, false};
    case Fault::dictionary:
      return {{DecodeStatus::dictionary, "zstd: dictionary id", 0, 0}, false};
    case Fault::limit:
      return {{DecodeStatus::limit, "a limit of the decoder", 0, 0}, false};
    case Fault::lz4:
      return frame("lz4: a block does not decode into the expected size");
    case Fault::ask_host:
      return {{}, true};
    case Fault::pending:
      break;
  }
  return frame("no verdict");
}

}  // namespace damacy
