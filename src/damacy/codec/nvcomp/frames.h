// The frames of a wave for nvCOMP: which ones it may decode, and their records. nvCOMP trusts its input, so each frame
// is checked on the host first: zstd frames by our scan of all headers, LZ4 blocks token by token. Frames that nvCOMP
// would decode wrongly without an error are excluded: several zstd frames in one stream, content checksums, undeclared
// sizes.
#pragma once

#include <memory>
#include <vector>

#include "damacy/codec/nvcomp/library.h"
#include "damacy/codec/nvcomp/wave.h"
#include "damacy/codec/stream_decoder.h"
#include "damacy/core/mutex.h"

namespace damacy::nvcomp {

// Whether decoding these tokens stays inside the input and the output, and fills it.
[[nodiscard]] bool is_good_lz4(std::span<const std::byte> block, std::uint64_t size) noexcept;
// One frame from the first byte to the last, with its size declared and without a checksum.
[[nodiscard]] bool is_plain_zstd(std::span<const std::byte> bytes, const FrameScan& scan) noexcept;

// Where the parts of a wave's scratch lie; `temp` is nvCOMP's.
struct ScratchLayout {
  std::size_t sources, destinations, source_bytes, room, produced, verdicts, temp;
  explicit ScratchLayout(std::size_t packed) noexcept;
};

// Frames [first, first + count) of one codec that nvCOMP decodes by one call.
struct Round {
  std::size_t first, count, temp_bytes;
};

class Frames final : public FrameList {
 public:
  Frames(std::shared_ptr<const NvcompLibrary> library, const FrameLimits& limits);

  DecodeResult add(std::span<const std::byte> bytes, const GpuFrame& frame, std::uint32_t& index) override;
  double fill() const override;
  std::uint32_t most_frames() const override { return most_; }
  // What follows needs no lock: one thread calls it, when no add() runs.
  std::uint32_t count() const override DAMACY_NO_THREAD_SAFETY_ANALYSIS { return count_; }
  std::uint64_t image_bytes() const override DAMACY_NO_THREAD_SAFETY_ANALYSIS { return count_ * sizeof(Record); }
  std::uint64_t scratch_bytes() const override;
  void write_image(std::span<std::byte> image) const override DAMACY_NO_THREAD_SAFETY_ANALYSIS;
  void clear() override DAMACY_NO_THREAD_SAFETY_ANALYSIS;

  std::size_t packed() const noexcept DAMACY_NO_THREAD_SAFETY_ANALYSIS { return zstd_.size() + lz4_.size(); }
  std::size_t zstd_count() const noexcept DAMACY_NO_THREAD_SAFETY_ANALYSIS { return zstd_.size(); }
  // How to decode the frames of `codec` with that much temporary memory. Frames in no round do not fit by themselves
  // and are not decoded.
  std::vector<Round> rounds(GpuCodec codec, std::size_t temp_bytes) const;

 private:
  const std::vector<Record>& of(GpuCodec codec) const noexcept DAMACY_NO_THREAD_SAFETY_ANALYSIS {
    return codec == GpuCodec::lz4 ? lz4_ : zstd_;
  }
  bool suits(std::span<const std::byte> bytes, const GpuFrame& frame) const;
  std::optional<std::size_t> temp_of(GpuCodec codec, std::size_t first, std::size_t count) const;
  std::size_t temp_wanted(std::size_t limit) const;

  std::shared_ptr<const NvcompLibrary> library_;
  std::uint64_t limit_;  // of scratch
  std::uint32_t most_;
  mutable Mutex mutex_;
  std::uint32_t count_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::vector<Record> zstd_ DAMACY_GUARDED_BY(mutex_);
  std::vector<Record> lz4_ DAMACY_GUARDED_BY(mutex_);
  std::vector<Record> raw_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy::nvcomp
