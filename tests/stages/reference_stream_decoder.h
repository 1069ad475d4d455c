// A stream decoder of host devices that decodes as a GPU does: the same scan, and the reference of its kernels, one
// byte after the other. For comparisons of verdicts; not fast.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "damacy/codec/gpu_zstd/reference_decoder.h"
#include "damacy/codec/stream_decoder.h"

namespace damacy::stages {

class ScannedFrameList final : public FrameList {
 public:
  DecodeResult add(std::span<const std::byte> bytes, const GpuFrame& frame, std::uint32_t& index) override {
    index = kHost;
    if (const DecodeResult result = scan_frame(bytes, frame, scan_); !result.ok()) return result;
    if (scan_.ask_host) return {};
    index = count();
    frames_.push_back(frame);
    return {};
  }
  std::uint32_t count() const override { return static_cast<std::uint32_t>(frames_.size()); }
  std::uint64_t image_bytes() const override { return frames_.size() * sizeof(GpuFrame); }
  std::uint64_t scratch_bytes() const override { return 0; }
  void write_image(std::span<std::byte> image) const override {
    if (!frames_.empty()) std::memcpy(image.data(), frames_.data(), image_bytes());
  }
  void clear() override { frames_.clear(); }
  double fill() const override { return 0; }  // there is no limit
  std::uint32_t most_frames() const override { return ~std::uint32_t{0}; }

 private:
  FrameScan scan_;
  std::vector<GpuFrame> frames_;
};

class ReferenceStreamDecoder final : public StreamDecoder {
 public:
  std::unique_ptr<FrameList> make_list(const FrameLimits&) override { return std::make_unique<ScannedFrameList>(); }
  void enqueue(Stream& stream, const FrameList&, const WaveMemory& memory) override {
    stream.enqueue({[this, memory] {
                      for (std::size_t i = 0; i * sizeof(GpuFrame) < memory.image.size(); ++i) {
                        GpuFrame frame;
                        std::memcpy(&frame, memory.image.data() + i * sizeof frame, sizeof frame);
                        const auto out = memory.destination.subspan(frame.dst_offset, frame.dst_size);
                        const auto in = memory.source.subspan(frame.src_offset, frame.src_size);
                        const auto fault =
                            static_cast<std::uint32_t>(decoder_.decode(in, frame.codec, out, frame.needed_end).fault);
                        std::memcpy(memory.status.data() + 4 * i, &fault, 4);
                      }
                    },
                    {}});
  }

 private:
  gpu::ReferenceDecoder decoder_;
};

}  // namespace damacy::stages
