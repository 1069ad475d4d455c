// A stream decoder of host devices that decodes as a GPU does: the same scan, and the reference of its kernels, one
// byte after the other. For comparisons of verdicts; not fast.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "damacy/codec/stream_decoder.h"
#include "damacy/core/mutex.h"
#include "support/reference_decoder.h"

namespace damacy::stages {

class ScannedFrameList final : public FrameList {
 public:
  explicit ScannedFrameList(const FrameLimits& limits)
      : most_(static_cast<std::uint32_t>(
            std::min<std::uint64_t>(limits.frames, limits.image_bytes / (sizeof(GpuFrame) + sizeof(std::uint32_t))))) {}

  DecodeResult add(std::span<const std::byte> bytes, const GpuFrame& frame, std::uint32_t& index) override {
    const Lock lock(mutex_);
    index = kHost;
    if (const DecodeResult result = scan_frame(bytes, frame, scan_); !result.ok()) return result;
    if (scan_.ask_host || frames_.size() >= most_) return {};
    index = static_cast<std::uint32_t>(frames_.size());
    frames_.push_back(frame);
    return {};
  }
  double fill() const override {
    const Lock lock(mutex_);
    return static_cast<double>(frames_.size()) / most_;
  }
  std::uint32_t most_frames() const override { return most_; }
  // What follows needs no lock: one thread calls it, when no add() runs.
  std::uint32_t count() const override DAMACY_NO_THREAD_SAFETY_ANALYSIS {
    return static_cast<std::uint32_t>(frames_.size());
  }
  std::uint64_t image_bytes() const override DAMACY_NO_THREAD_SAFETY_ANALYSIS {
    return frames_.size() * sizeof(GpuFrame);
  }
  std::uint64_t scratch_bytes() const override { return 0; }
  void write_image(std::span<std::byte> image) const override DAMACY_NO_THREAD_SAFETY_ANALYSIS {
    if (!frames_.empty()) std::memcpy(image.data(), frames_.data(), image_bytes());
  }
  void clear() override DAMACY_NO_THREAD_SAFETY_ANALYSIS { frames_.clear(); }

 private:
  const std::uint32_t most_;
  mutable Mutex mutex_;
  FrameScan scan_ DAMACY_GUARDED_BY(mutex_);
  std::vector<GpuFrame> frames_ DAMACY_GUARDED_BY(mutex_);
};

class ReferenceStreamDecoder final : public StreamDecoder {
 public:
  std::unique_ptr<FrameList> make_list(const FrameLimits& limits) override {
    return std::make_unique<ScannedFrameList>(limits);
  }
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
