// Decodes frames as a wave does: packed sources, destinations with guards in between, scan, upload, decode, and checks
// of the output. Knows the decoder's API, not its kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "crew.h"
#include "damacy/codec/gpu_decoder.h"
#include "gpu/device.h"

namespace damacy::bench {

using Bytes = std::vector<std::byte>;

struct Item {
  std::span<const std::byte> encoded;
  std::size_t size = 0;  // decoded
  GpuCodec codec = GpuCodec::zstd;
};

inline constexpr std::uint8_t kPoison = 0xab;
inline constexpr std::size_t kPortion = 16;  // frames that a worker scans before it adds them

// One object is used for many loads, so that memory is allocated once.
class Batch {
 public:
  // Destinations stand `guard` bytes apart and are aligned to 16.
  Batch(std::size_t guard, Crew& crew) : guard_(guard), crew_(crew), scans_(crew.size(), Portion(kPortion)) {}

  // Call only when no work of the previous load is under way. Memory of the items must stay valid until the next scan
  // has ended.
  void load(std::vector<Item> items);

  // Runs on the crew, as readers do. Returns wall-clock seconds.
  double scan();
  void upload_image();
  void poison();
  void decode();  // enqueues
  void wait() const { stream_.wait(); }
  [[nodiscard]] const CudaStream& stream() const { return stream_; }
  [[nodiscard]] const WaveShape& shape() const { return wave_->shape(); }
  [[nodiscard]] const WaveBuffers& buffers() const { return buffers_; }
  [[nodiscard]] std::size_t output_bytes() const { return output_bytes_; }  // decoded, without guards

  // After decode and wait.
  void fetch_status();
  [[nodiscard]] bool scanned(std::size_t i) const { return indices_[i] != WaveDescriptors::kFull; }
  [[nodiscard]] bool refused_by_scan(std::size_t i) const { return refused_[i] != 0; }
  [[nodiscard]] std::uint32_t status(std::size_t i) const { return status_.as<std::uint32_t>()[indices_[i]]; }
  [[nodiscard]] std::size_t accepted() const;
  // Frames whose bytes differ from reference[map[i]] (device comparison), among those with status 0.
  std::size_t count_wrong(const std::vector<const Bytes*>& expected);
  // Bytes between destinations that are no longer poison.
  std::size_t count_escaped();
  [[nodiscard]] std::span<const std::byte> all_output();  // guards included; until the next load
  [[nodiscard]] const std::vector<GpuFrame>& frames() const { return frames_; }
  [[nodiscard]] std::size_t count() const { return items_.size(); }
  [[nodiscard]] std::uint64_t source_bytes() const { return source_bytes_; }

 private:
  using Portion = std::vector<FrameScan>;  // of one worker

  void place();
  void pack();
  void make_room();

  std::size_t guard_;
  Crew& crew_;
  std::vector<Item> items_;
  std::vector<GpuFrame> frames_;
  std::vector<std::uint32_t> indices_;
  std::vector<std::uint8_t> refused_;
  WaveLimits limits_{.frames = 0, .blocks = 0, .scratch_bytes = 0};
  std::unique_ptr<WaveDescriptors> wave_;
  std::vector<Portion> scans_;
  std::uint64_t source_bytes_ = 0, destination_bytes_ = 0, output_bytes_ = 0;
  WaveBuffers buffers_;
  GpuDecoder decoder_;
  CudaStream stream_;
  PinnedBuffer packed_, image_, status_, output_;
  DeviceBuffer source_, destination_, scratch_, descriptors_, status_words_, frames_there_, escaped_;
};

}  // namespace damacy::bench
