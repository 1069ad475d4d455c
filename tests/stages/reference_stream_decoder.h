// A stream decoder of host devices that decodes as a GPU does: the same scan, and the reference of its kernels, one
// byte after the other. For comparisons of verdicts; not fast.
#pragma once

#include <cstring>
#include <memory>
#include <utility>

#include "damacy/codec/stream_decoder.h"
#include "damacy/core/mutex.h"
#include "support/reference_decoder.h"

namespace damacy::stages {

// A list of host devices, for the frames that a GPU would take.
class ScannedFrameList final : public FrameList {
 public:
  explicit ScannedFrameList(std::unique_ptr<FrameList> list) : list_(std::move(list)) {}

  DecodeResult add(std::span<const std::byte> bytes, const GpuFrame& frame, std::uint32_t& index) override {
    index = kHost;
    {
      const Lock lock(mutex_);
      if (const DecodeResult result = scan_frame(bytes, frame, scan_); !result.ok()) return result;
      if (scan_.ask_host) return {};
    }
    return list_->add(bytes, frame, index);
  }
  double fill() const override { return list_->fill(); }
  std::uint32_t most_frames() const override { return list_->most_frames(); }
  std::uint32_t count() const override { return list_->count(); }
  std::uint64_t image_bytes() const override { return list_->image_bytes(); }
  std::uint64_t scratch_bytes() const override { return list_->scratch_bytes(); }
  void write_image(std::span<std::byte> image) const override { list_->write_image(image); }
  void clear() override { list_->clear(); }

 private:
  const std::unique_ptr<FrameList> list_;
  Mutex mutex_;
  FrameScan scan_ DAMACY_GUARDED_BY(mutex_);
};

class ReferenceStreamDecoder final : public StreamDecoder {
 public:
  std::unique_ptr<FrameList> make_list(const FrameLimits& limits) override {
    return std::make_unique<ScannedFrameList>(make_host_stream_decoder()->make_list(limits));
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
