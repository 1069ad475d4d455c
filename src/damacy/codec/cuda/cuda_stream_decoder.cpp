// The stream decoder of CUDA devices. FrameList has a wave's descriptors, and enqueue() launches the kernels. Knows
// neither kernels nor CUDA types; GpuDecoder does.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "damacy/codec/stream_decoder.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/device/trace.h"

namespace damacy {
namespace {

// A wave's worth: what does not fit is decoded on the host.
constexpr std::uint32_t kFrames = 1u << 16;
constexpr std::uint32_t kBlocks = 1u << 17;

// Frames of a chunk that are scanned before they are added.
constexpr std::size_t kPortion = 16;
// The same of frames that need no scan: readers that add them all the time would wait for each other.
constexpr std::size_t kDescribedPortion = 128;

// No kernel writes this, so a frame that none wrote is refused.
constexpr std::byte kNoVerdict{0xff};

class CudaFrameList final : public FrameList {
 public:
  explicit CudaFrameList(const FrameLimits& limits)
      : most_(std::min(kFrames, limits.frames)),
        wave_({.frames = most_,
               .blocks = kBlocks,
               .scratch_bytes = limits.scratch_bytes,
               .image_bytes = limits.image_bytes}) {}

  DecodeResult add(std::span<const std::byte> bytes, const GpuFrame& frame, std::uint32_t& index) override {
    thread_local FrameScan scan;
    index = kHost;
    if (const DecodeResult result = scan_frame(bytes, frame, scan); !result.ok()) return result;
    if (scan.ask_host) return {};
    static_assert(kHost == WaveDescriptors::kFull);
    index = wave_.add(scan);
    return {};
  }

  DecodeResult add_chunk(std::span<const std::byte> bytes, std::uint64_t at, std::span<const GpuFrame> frames,
                         std::span<std::uint32_t> indices) override {
    thread_local std::vector<FrameScan> scans(kPortion);
    std::ranges::fill(indices, kHost);
    for (std::size_t first = 0; first < frames.size(); first += kPortion) {
      const std::size_t count = std::min(kPortion, frames.size() - first);
      for (std::size_t i = 0; i < count; ++i) {
        const GpuFrame& frame = frames[first + i];
        const auto own = bytes.subspan(frame.src_offset - at, frame.src_size);
        if (const DecodeResult result = scan_frame(own, frame, scans[i]); !result.ok()) return result;
        if (scans[i].ask_host) return {};
      }
      const auto taken = indices.subspan(first, count);
      wave_.add(std::span(scans).first(count), taken);
      if (std::ranges::find(taken, kHost) != taken.end()) return {};
    }
    return {};
  }

  bool describe(std::span<const std::byte> bytes, const GpuFrame& frame, std::vector<std::byte>& to) const override {
    thread_local FrameScan scan;
    if (!scan_frame(bytes, frame, scan).ok() || scan.ask_host) return false;
    append_scan(scan, to);
    return true;
  }

  void add_described(std::span<const DescribedFrame> frames, std::span<std::uint32_t> indices) override {
    thread_local std::vector<FrameScan> scans(kDescribedPortion);
    std::ranges::fill(indices, kHost);
    for (std::size_t first = 0; first < frames.size(); first += kDescribedPortion) {
      const std::size_t count = std::min(kDescribedPortion, frames.size() - first);
      for (std::size_t i = 0; i < count; ++i) {
        const DescribedFrame& frame = frames[first + i];
        read_scan(frame.description, scans[i]);
        scans[i].frame.source += frame.source;
        scans[i].frame.destination += frame.destination;
        cut_scan(scans[i], frame.needed_end);
      }
      const auto taken = indices.subspan(first, count);
      wave_.add(std::span(scans).first(count), taken);
      if (std::ranges::find(taken, kHost) != taken.end()) return;
    }
  }

  double fill() const override { return wave_.fill(); }
  std::uint32_t most_frames() const override { return most_; }
  std::uint32_t count() const override { return shape().frames; }
  std::uint64_t image_bytes() const override { return damacy::image_bytes(shape()); }
  std::uint64_t scratch_bytes() const override { return damacy::scratch_bytes(shape()); }
  void write_image(std::span<std::byte> image) const override { wave_.write_image(image); }
  void clear() override { wave_.clear(); }

  const WaveShape& shape() const noexcept { return wave_.shape(); }

 private:
  const std::uint32_t most_;
  WaveDescriptors wave_;
};

std::uint64_t address(const std::byte* memory) noexcept {
  return reinterpret_cast<std::uint64_t>(memory);
}

void require_room(const char* what, std::uint64_t bytes, std::uint64_t needed) {
  if (bytes < needed)
    throw Error(Status::inval, formatted("decoder: {} of {} bytes, {} are needed", what, bytes, needed), "buffers");
}

class CudaStreamDecoder final : public StreamDecoder {
 public:
  std::unique_ptr<FrameList> make_list(const FrameLimits& limits) override {
    return std::make_unique<CudaFrameList>(limits);
  }

  void enqueue(Stream& stream, const FrameList& list, const WaveMemory& memory) override {
    const WaveShape& shape = static_cast<const CudaFrameList&>(list).shape();
    if (shape.frames == 0) return;
    const TraceRange stage("damacy decode");
    require_room("image", memory.image.size(), image_bytes(shape));
    require_room("scratch", memory.scratch.size(), scratch_bytes(shape));
    require_room("status words", memory.status.size(), std::uint64_t{4} * shape.frames);
    const WaveBuffers buffers{address(memory.source.data()), address(memory.destination.data()),
                              address(memory.scratch.data()), address(memory.image.data()),
                              address(memory.status.data())};
    stream.fill(memory.status, kNoVerdict);
    Work work;
    work.launch = [&](std::uint64_t handle) {
      if (!decoder_) decoder_.emplace();
      return decoder_->decode_wave(handle, shape, buffers);
    };
    stream.enqueue(std::move(work));
  }

 private:
  std::optional<GpuDecoder> decoder_;  // made at the first wave, when the device's context is current
};

}  // namespace

std::unique_ptr<StreamDecoder> make_cuda_stream_decoder() {
  return std::make_unique<CudaStreamDecoder>();
}

}  // namespace damacy
