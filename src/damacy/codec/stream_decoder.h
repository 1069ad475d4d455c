// Interface of decoders that decode the frames of a wave in stream order. Frames are scanned on the thread that read
// them, and a wave's frames are uploaded as one image. Knows frames and memory; not chunks. The host decoder (libzstd,
// liblz4) is the specification. The contract: tests/conformance/stream_decoder_suite.h.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "damacy/codec/gpu_decoder.h"
#include "damacy/device/device.h"

namespace damacy {

// Device memory of a wave.
struct WaveMemory {
  // Where offsets of frames count from. Readable for WaveBuffers::kSourcePadding bytes more, as is other memory that
  // described frames name.
  std::span<const std::byte> source;
  std::span<std::byte> destination;
  std::span<std::byte> scratch;      // scratch_bytes()
  std::span<const std::byte> image;  // uploaded, image_bytes()
  std::span<std::byte> status;       // one 32-bit word a frame
};

// Limits of a list. The host decodes frames that would exceed one.
struct FrameLimits {
  std::uint64_t scratch_bytes = ~std::uint64_t{0};
  std::uint64_t image_bytes = ~std::uint64_t{0};  // descriptors, and a status word a frame
  std::uint32_t frames = ~std::uint32_t{0};
};

// The frames of one wave.
class FrameList {
 public:
  virtual ~FrameList() = default;
  static constexpr std::uint32_t kHost = 0xffffffffu;  // not for this decoder: decode it on the host
  // Any thread. Scans `bytes` (what frame.src_offset names) and takes the frame; `index` is its status word, or kHost.
  virtual DecodeResult add(std::span<const std::byte> bytes, const GpuFrame& frame, std::uint32_t& index) = 0;
  // The same for all frames of one chunk, whose `bytes` begin at `at` in the source. Adding many small frames at once
  // reduces contention. Stops at a frame that is malformed or needs the host. Then some index is kHost, and the host
  // decodes the whole chunk.
  virtual DecodeResult add_chunk(std::span<const std::byte> bytes, std::uint64_t at, std::span<const GpuFrame> frames,
                                 std::span<std::uint32_t> indices);

  // Any thread. Appends to `to` what add_described() of any list of this decoder needs to add the frame without its
  // bytes. False: nothing, because the decoder has no such description, or leaves the frame to the host.
  [[nodiscard]] virtual bool describe(std::span<const std::byte> bytes, const GpuFrame& frame,
                                      std::vector<std::byte>& to) const;
  struct DescribedFrame {
    std::span<const std::byte> description;
    // Added to the offsets that the description has. `source` may lead to memory outside of the wave's, modulo 2^64.
    std::uint64_t source = 0, destination = 0;
    std::uint64_t needed_end = 0;  // as in GpuFrame
  };
  // Any thread. Where an index is kHost, the host decodes the whole chunk.
  virtual void add_described(std::span<const DescribedFrame> frames, std::span<std::uint32_t> indices);

  // Any thread. The used share of the limits: from 0 (empty) to 1 (full).
  virtual double fill() const = 0;
  virtual std::uint32_t most_frames() const = 0;

  // One thread, when no add() runs.
  virtual std::uint32_t count() const = 0;
  virtual std::uint64_t image_bytes() const = 0;
  virtual std::uint64_t scratch_bytes() const = 0;
  virtual void write_image(std::span<std::byte> image) const = 0;
  virtual void clear() = 0;
};

class StreamDecoder {
 public:
  virtual ~StreamDecoder() = default;
  virtual std::unique_ptr<FrameList> make_list(const FrameLimits& limits) = 0;
  // Limited by scratch alone.
  template <std::integral Bytes>
  std::unique_ptr<FrameList> make_list(Bytes scratch_bytes) {
    return make_list(FrameLimits{.scratch_bytes = static_cast<std::uint64_t>(scratch_bytes)});
  }
  // The image is uploaded. Enqueues; the list may be cleared once this work is done.
  virtual void enqueue(Stream& stream, const FrameList& list, const WaveMemory& memory) = 0;
};

std::unique_ptr<StreamDecoder> make_host_stream_decoder();
// For the current context. Throws Error(cuda, "no-device") in a build without CUDA.
std::unique_ptr<StreamDecoder> make_cuda_stream_decoder();

}  // namespace damacy
