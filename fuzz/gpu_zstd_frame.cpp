// The GPU decoder's host version on zstd frames: whatever it accepts, libzstd accepts in one call and gives the same
// bytes; a part equals the same part of the whole.
#include "codec_support.h"
#include "support/encoders.h"
#include "support/oracles.h"
#include "support/reference_decoder.h"

namespace {

using namespace damacy;
using fuzz::Bytes;
using fuzz::require;

constexpr std::size_t kMost = 1 << 16;

Bytes good_frame(FuzzedDataProvider& data, std::size_t& size) {
  const Bytes raw = fuzz::contents(data, kMost / 2);
  size += raw.size();
  if (data.ConsumeBool()) return codec_test::zstd_packed(raw, data.ConsumeIntegralInRange(-3, 12), data.ConsumeBool());
  return codec_test::zstd_streamed(raw, data.ConsumeIntegralInRange(10, 20), data.ConsumeBool(),
                                   data.ConsumeIntegralInRange<std::size_t>(100, 5000));
}

void check(std::span<const std::byte> encoded, std::size_t size, std::size_t needed) {
  static fuzz::GuardedBuffer out_buffer(4 * kMost);
  static gpu::ReferenceDecoder decoder;
  const codec_test::Maybe expected = codec_test::libzstd_decoded(encoded, size);
  const std::span<std::byte> out = out_buffer.filled(size, std::byte{0xa5});
  if (decoder.decode(encoded, GpuCodec::zstd, out).ok()) {
    require(expected.has_value(), "accepted what libzstd refuses");
    require(std::equal(out.begin(), out.end(), expected->begin()), "other bytes than libzstd");
  }
  if (needed == 0 || needed >= size || !expected) return;
  const std::span<std::byte> part = out_buffer.filled(size, std::byte{0x5a});
  if (decoder.decode(encoded, GpuCodec::zstd, part, needed).ok())
    require(std::equal(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(needed), expected->begin()),
            "a part differs from the whole");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  FuzzedDataProvider data(bytes, count);
  static fuzz::GuardedBuffer in_buffer(16 * kMost);
  const auto needed = data.ConsumeIntegral<std::uint16_t>();
  std::size_t size = 0;
  const Bytes encoded = fuzz::frames_or_noise(data, kMost, good_frame, size);
  check(in_buffer.copy_of(encoded), size, needed);
  return 0;
}
