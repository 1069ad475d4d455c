// The stream decoder of host devices, by the reference libraries: the specification of all others.
#include <algorithm>
#include <cstring>
#include <vector>

#include "damacy/codec/lz4.h"
#include "damacy/codec/stream_decoder.h"
#include "damacy/codec/zstd.h"
#include "damacy/core/mutex.h"

namespace damacy {
namespace {

// The host decodes a failed frame again, which gives the error its text.
constexpr auto kGood = static_cast<std::uint32_t>(gpu::Fault::none);
constexpr auto kAskHost = static_cast<std::uint32_t>(gpu::Fault::ask_host);

class HostFrameList final : public FrameList {
 public:
  explicit HostFrameList(const FrameLimits& limits)
      : most_(static_cast<std::uint32_t>(
            std::min<std::uint64_t>(limits.frames, limits.image_bytes / (sizeof(GpuFrame) + sizeof(std::uint32_t))))) {}

  DecodeResult add(std::span<const std::byte>, const GpuFrame& frame, std::uint32_t& index) override {
    const Lock lock(mutex_);
    index = kHost;
    if (frames_.size() >= most_) return {};
    index = static_cast<std::uint32_t>(frames_.size());
    frames_.push_back(frame);
    return {};
  }
  bool describe(std::span<const std::byte>, const GpuFrame& frame, std::vector<std::byte>& to) const override {
    const auto bytes = std::as_bytes(std::span(&frame, 1));
    to.insert(to.end(), bytes.begin(), bytes.end());
    return true;
  }
  void add_described(std::span<const DescribedFrame> frames, std::span<std::uint32_t> indices) override {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      GpuFrame frame;
      std::memcpy(&frame, frames[i].description.data(), sizeof frame);
      frame.src_offset += frames[i].source;
      frame.dst_offset += frames[i].destination;
      frame.needed_end = frames[i].needed_end;
      static_cast<void>(add({}, frame, indices[i]));
    }
  }
  double fill() const override {
    const Lock lock(mutex_);
    return most_ == 0 ? 1 : static_cast<double>(frames_.size()) / most_;
  }
  std::uint32_t most_frames() const override { return most_; }
  std::uint32_t count() const override {
    const Lock lock(mutex_);
    return static_cast<std::uint32_t>(frames_.size());
  }
  std::uint64_t image_bytes() const override { return count() * sizeof(GpuFrame); }
  std::uint64_t scratch_bytes() const override { return 0; }
  void write_image(std::span<std::byte> image) const override {
    const Lock lock(mutex_);
    std::ranges::copy(std::as_bytes(std::span(frames_)), image.begin());
  }
  void clear() override {
    const Lock lock(mutex_);
    frames_.clear();
  }

 private:
  const std::uint32_t most_;
  mutable Mutex mutex_;
  std::vector<GpuFrame> frames_ DAMACY_GUARDED_BY(mutex_);
};

bool decode(const GpuFrame& frame, std::span<const std::byte> source, std::span<std::byte> destination,
            ZstdDecoder& zstd) {
  // An integer: the bytes may lie outside of `source`.
  const auto at = reinterpret_cast<std::uint64_t>(source.data()) + frame.src_offset;
  const std::span in(reinterpret_cast<const std::byte*>(at), frame.src_size);
  const auto out = destination.subspan(frame.dst_offset, frame.dst_size);
  switch (frame.codec) {
    case GpuCodec::raw:
      if (in.size() != out.size()) return false;
      std::memcpy(out.data(), in.data(), in.size());
      return true;
    case GpuCodec::zstd:
      return zstd.decode(in, out, frame.needed_end == 0 ? out.size() : frame.needed_end).ok();
    case GpuCodec::lz4:
      return decode_lz4_block(in, out).ok();
  }
  return false;
}

class HostStreamDecoder final : public StreamDecoder {
 public:
  std::unique_ptr<FrameList> make_list(const FrameLimits& limits) override {
    return std::make_unique<HostFrameList>(limits);
  }
  void enqueue(Stream& stream, const FrameList&, const WaveMemory& memory) override {
    stream.enqueue({[memory] {
                      ZstdDecoder zstd;
                      for (std::size_t i = 0; i * sizeof(GpuFrame) < memory.image.size(); ++i) {
                        GpuFrame frame;
                        std::memcpy(&frame, memory.image.data() + i * sizeof frame, sizeof frame);
                        const std::uint32_t word =
                            decode(frame, memory.source, memory.destination, zstd) ? kGood : kAskHost;
                        std::memcpy(memory.status.data() + 4 * i, &word, 4);
                      }
                    },
                    {}});
  }
};

}  // namespace

DecodeResult FrameList::add_chunk(std::span<const std::byte> bytes, std::uint64_t at, std::span<const GpuFrame> frames,
                                  std::span<std::uint32_t> indices) {
  std::ranges::fill(indices, kHost);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const auto own = bytes.subspan(frames[i].src_offset - at, frames[i].src_size);
    if (const DecodeResult result = add(own, frames[i], indices[i]); !result.ok()) return result;
    if (indices[i] == kHost) break;
  }
  return {};
}

bool FrameList::describe(std::span<const std::byte>, const GpuFrame&, std::vector<std::byte>&) const {
  return false;
}

void FrameList::add_described(std::span<const DescribedFrame>, std::span<std::uint32_t> indices) {
  std::ranges::fill(indices, kHost);
}

std::unique_ptr<StreamDecoder> make_host_stream_decoder() {
  return std::make_unique<HostStreamDecoder>();
}

}  // namespace damacy
