#include "damacy/codec/nvcomp/frames.h"

#include <algorithm>
#include <cstring>

#include "damacy/codec/gpu_zstd/lz4_records.h"
#include "damacy/core/checked.h"
#include "damacy/core/mutex.h"

namespace damacy::nvcomp {
namespace {

constexpr std::size_t kAligned = 256;

// Lists take at most this share of the scratch; the rest is nvCOMP's.
constexpr std::uint64_t kListShare = 4;

}  // namespace

bool is_good_lz4(std::span<const std::byte> block, std::uint64_t size) noexcept {
  struct Reader {
    std::span<const std::byte> bytes;
    u32 byte(u32 i) const { return i < bytes.size() ? static_cast<u32>(bytes[i]) : 0u; }
  };
  using Step = gpu::Lz4Parser::Step;
  gpu::Lz4Parser parser(static_cast<u32>(block.size()), static_cast<u32>(size));
  u32 produced = 0;
  for (;;) {
    const Step step = parser.sequence(Reader{block}, produced);
    if (step != Step::more) return step == Step::done;
    produced += parser.output_bytes();
  }
}

bool is_plain_zstd(std::span<const std::byte> bytes, const FrameScan& scan) noexcept {
  if (scan.segments.size() != 1 || scan.blocks.empty()) return false;
  const gpu::Segment& segment = scan.segments.front();
  if (segment.has_checksum != 0 || segment.content_size != scan.frame.size) return false;
  const gpu::Block& last = scan.blocks.back();
  constexpr std::byte kMagic[4] = {std::byte{0x28}, std::byte{0xb5}, std::byte{0x2f}, std::byte{0xfd}};
  return std::equal(std::begin(kMagic), std::end(kMagic), bytes.begin()) &&
         last.source + last.size == scan.frame.source_size;
}

ScratchLayout::ScratchLayout(std::size_t packed) noexcept {
  sources = 0;
  destinations = sources + sizeof(void*) * packed;
  source_bytes = destinations + sizeof(void*) * packed;
  room = source_bytes + sizeof(std::size_t) * packed;
  produced = room + sizeof(std::size_t) * packed;
  verdicts = produced + sizeof(std::size_t) * packed;
  temp = round_up(verdicts + sizeof(int) * packed, kAligned);
}

Frames::Frames(std::shared_ptr<const NvcompLibrary> library, const FrameLimits& limits)
    : library_(std::move(library)),
      limit_(limits.scratch_bytes),
      most_(static_cast<std::uint32_t>(
          std::min<std::uint64_t>(limits.frames, limits.image_bytes / (sizeof(Record) + sizeof(std::uint32_t))))) {}

double Frames::fill() const {
  const Lock lock(mutex_);
  const auto share = [](std::uint64_t taken, std::uint64_t room) {
    return room == 0 ? 1 : static_cast<double>(taken) / static_cast<double>(room);
  };
  return std::max(share(count_, most_), share(ScratchLayout(packed()).temp, limit_ / kListShare));
}

bool Frames::suits(std::span<const std::byte> bytes, const GpuFrame& frame) const {
  const NvcompLibrary::Alignment need = library_->alignment(frame.codec);
  if (frame.src_offset % need.source != 0 || frame.dst_offset % need.destination != 0) return false;
  return frame.codec != GpuCodec::lz4 || is_good_lz4(bytes, frame.dst_size);
}

DecodeResult Frames::add(std::span<const std::byte> bytes, const GpuFrame& frame, std::uint32_t& index) {
  thread_local FrameScan scan;
  index = kHost;
  GpuFrame whole = frame;  // nvCOMP decodes all or nothing
  whole.needed_end = 0;
  if (const DecodeResult result = scan_frame(bytes, whole, scan); !result.ok()) return result;
  if (scan.ask_host || frame.dst_size == 0) return {};
  if (frame.codec == GpuCodec::zstd && !is_plain_zstd(bytes, scan)) return {};
  if (frame.codec != GpuCodec::raw && !suits(bytes, frame)) return {};
  const std::uint64_t temp_limit = limit_ - limit_ / kListShare;
  if (frame.codec != GpuCodec::raw &&
      library_->temp_bytes(frame.codec, 1, frame.dst_size, frame.dst_size).value_or(temp_limit + 1) > temp_limit)
    return {};
  const Lock lock(mutex_);
  if (count_ >= most_ || ScratchLayout(packed() + 1).temp > limit_ / kListShare) return {};
  auto& list = frame.codec == GpuCodec::zstd ? zstd_ : frame.codec == GpuCodec::lz4 ? lz4_ : raw_;
  list.push_back({frame.src_offset, frame.dst_offset, static_cast<u32>(frame.src_size),
                  static_cast<u32>(frame.dst_size), count_, 0});
  index = count_++;
  return {};
}

std::optional<std::size_t> Frames::temp_of(GpuCodec codec, std::size_t first, std::size_t count) const {
  std::size_t largest = 0, total = 0;
  for (std::size_t i = first; i < first + count; ++i) {
    largest = std::max<std::size_t>(largest, of(codec)[i].bytes);
    total += of(codec)[i].bytes;
  }
  return library_->temp_bytes(codec, count, largest, total);
}

std::size_t Frames::temp_wanted(std::size_t limit) const {
  std::size_t most = 0;
  for (const GpuCodec codec : {GpuCodec::zstd, GpuCodec::lz4})
    if (!of(codec).empty()) most = std::max(most, temp_of(codec, 0, of(codec).size()).value_or(limit));
  return std::min(most, limit);
}

std::uint64_t Frames::scratch_bytes() const {
  const ScratchLayout layout(packed());
  return layout.temp + temp_wanted(limit_ - std::min<std::uint64_t>(limit_, layout.temp));
}

void Frames::write_image(std::span<std::byte> image) const {
  for (const auto* list : {&zstd_, &lz4_, &raw_}) {
    if (list->empty()) continue;
    const std::size_t bytes = list->size() * sizeof(Record);
    std::memcpy(image.data(), list->data(), bytes);
    image = image.subspan(bytes);
  }
}

void Frames::clear() {
  count_ = 0;
  zstd_.clear();
  lz4_.clear();
  raw_.clear();
}

std::vector<Round> Frames::rounds(GpuCodec codec, std::size_t temp_bytes) const {
  std::vector<Round> rounds;
  for (std::size_t first = 0; first < of(codec).size();) {
    std::size_t count = of(codec).size() - first;
    std::optional<std::size_t> temp = temp_of(codec, first, count);
    while (count > 1 && (!temp || *temp > temp_bytes)) temp = temp_of(codec, first, count /= 2);
    if (temp && *temp <= temp_bytes) rounds.push_back({first, count, *temp});
    first += count;
  }
  return rounds;
}

}  // namespace damacy::nvcomp
