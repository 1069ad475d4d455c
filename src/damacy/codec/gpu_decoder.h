// Decodes a wave of zstd and LZ4 streams on a GPU. Three steps: scan_frame (on the thread that read the bytes, while
// they are hot) checks every header and describes the blocks; WaveDescriptors gathers the descriptions of a wave into
// one image to upload; GpuDecoder enqueues the kernels. Knows no arrays, no chunks, no pipeline, and shows no CUDA
// type: device addresses and streams are plain integers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "damacy/codec/gpu_zstd/descriptors.h"
#include "damacy/codec/status.h"

namespace damacy {

enum class GpuCodec : std::uint8_t { raw, zstd, lz4 };  // lz4: a raw block, without a size in front

// One stream: where its bytes are and where they go, from the wave's source and destination bases.
struct GpuFrame {
  std::uint64_t src_offset = 0;
  std::uint64_t src_size = 0;
  std::uint64_t dst_offset = 0;
  std::uint64_t dst_size = 0;
  GpuCodec codec = GpuCodec::zstd;
  std::uint64_t needed_end = 0;  // bytes [0, needed_end) of the output must be right; 0 means all of it
};

// What scanning one frame found. A thread keeps one and uses it again; it stops allocating once it has seen a large
// frame.
struct FrameScan {
  gpu::Frame frame;
  std::vector<gpu::Block> blocks;  // positions and indices count from this frame's own first byte and block
  std::vector<gpu::Segment> segments;
  std::uint64_t literal_bytes = 0;
  std::uint64_t records = 0;
  std::uint64_t sequences = 0;
  GpuCodec codec = GpuCodec::zstd;
  bool ask_host = false;  // doubtful, or not worth describing: the host decodes it, and has the verdict
};

// Checks all headers of `bytes`, which are what frame.src_offset names. An error means the frame is malformed: the
// host's decoder finds the same by the same walk. What only this scan doubts it leaves to the host (ask_host).
[[nodiscard]] DecodeResult scan_frame(std::span<const std::byte> bytes, const GpuFrame& frame, FrameScan& scan);

// What scan_frame() finds in the same frame when only bytes [0, needed_end) of its output must be right; `scan` was
// made for all. 0: all.
void cut_scan(FrameScan& scan, std::uint64_t needed_end) noexcept;

// A scan as bytes, and back. read_scan() takes what append_scan() has written.
void append_scan(const FrameScan& scan, std::vector<std::byte>& to);
void read_scan(std::span<const std::byte> bytes, FrameScan& scan);

// How many of everything a wave has; all that sizes and launch shapes depend on.
struct WaveShape {
  std::uint32_t frames = 0;
  std::uint32_t zstd_frames = 0;  // raw ones included
  std::uint32_t lz4_frames = 0;
  std::uint32_t blocks = 0;
  std::uint32_t segments = 0;
  std::uint32_t checksums = 0;
  std::uint32_t sequence_blocks = 0;
  std::uint32_t literal_blocks = 0;
  std::uint32_t lz4_runs = 0;
  std::uint64_t literal_bytes = 0;
  std::uint64_t records = 0;
  std::uint64_t sequences = 0;
  std::uint64_t zstd_bytes = 0;  // output
};

// Bytes of descriptors to upload, and of device scratch, that a wave of this shape takes.
[[nodiscard]] std::uint64_t image_bytes(const WaveShape& shape) noexcept;
[[nodiscard]] std::uint64_t scratch_bytes(const WaveShape& shape) noexcept;

struct WaveLimits {
  std::uint32_t frames = 1 << 14;
  std::uint32_t blocks = 1 << 16;
  std::uint64_t scratch_bytes = std::uint64_t{1} << 30;
  std::uint64_t image_bytes = ~std::uint64_t{0};  // descriptors, and a status word a frame
};

// The descriptors of one wave. `add` may be called by many threads at once; all else by one, when no `add` runs.
class WaveDescriptors {
 public:
  explicit WaveDescriptors(const WaveLimits& limits);

  // The index of the frame's status word, or kFull: nothing was added, and the frame belongs to the next wave (or to
  // the host, when this wave is empty).
  static constexpr std::uint32_t kFull = 0xffffffffu;
  [[nodiscard]] std::uint32_t add(const FrameScan& scan);
  // The same for each of `scans`. Threads that add many small frames spend less time on each other this way.
  void add(std::span<const FrameScan> scans, std::span<std::uint32_t> indices);

  // Any thread: the largest share that is taken of any limit, from 0 to 1.
  [[nodiscard]] double fill() const;

  [[nodiscard]] const WaveShape& shape() const noexcept { return shape_; }
  // `image` has image_bytes(shape()) bytes; upload them 16-byte aligned.
  void write_image(std::span<std::byte> image) const;
  void clear() noexcept;

 private:
  // Reserves the places that a frame takes, and says which; false when there are not so many.
  bool reserve(const WaveShape& more, WaveShape& base);
  void put(const FrameScan& scan, const WaveShape& base);

  WaveLimits limits_;
  alignas(64) mutable std::atomic<bool> reserving_ = false;  // held for some ten nanoseconds: guards the next three
  WaveShape shape_;
  std::uint64_t scratch_ = 0;  // what shape_ takes at most
  std::uint64_t image_ = 0;    // likewise
  // As many as the limits allow; what no frame has taken is not initialized, so its pages are not there yet.
  alignas(64) std::unique_ptr<gpu::Frame[]> frames_;
  std::unique_ptr<GpuCodec[]> codecs_;
  std::unique_ptr<gpu::Block[]> blocks_;
  std::unique_ptr<gpu::Segment[]> segments_;
};

// The meaning of a frame's status word. `ask_host` is true when the frame may be good, but this decoder cannot say.
struct GpuVerdict {
  DecodeResult result;
  bool ask_host = false;
};
[[nodiscard]] GpuVerdict verdict_of(std::uint32_t status_word) noexcept;

// Device addresses. `source` is 16-byte aligned and readable for kSourcePadding bytes behind the last frame; `scratch`
// and `descriptors` are 256-byte aligned; `status` has one word a frame.
struct WaveBuffers {
  static constexpr std::uint64_t kSourcePadding = 16;
  std::uint64_t source = 0;
  std::uint64_t destination = 0;
  std::uint64_t scratch = 0;
  std::uint64_t descriptors = 0;
  std::uint64_t status = 0;
};

// Enqueues waves. Belongs to one context and one thread at a time; owns the side streams that stages run on.
class GpuDecoder {
 public:
  GpuDecoder();  // for the current context; throws Error when it has no room for streams and events
  ~GpuDecoder();
  GpuDecoder(GpuDecoder&&) noexcept;
  GpuDecoder& operator=(GpuDecoder&&) noexcept;

  // All work is ordered on `stream` (a CUstream); nothing waits. The shape and buffers are those of an uploaded image.
  // Returns 0 or the CUDA error of a launch.
  [[nodiscard]] int decode_wave(std::uint64_t stream, const WaveShape& shape, const WaveBuffers& buffers);

 private:
  struct Side;
  std::unique_ptr<Side> side_;
};

}  // namespace damacy
