// zstd: whatever we accept, libzstd accepts in one call and gives the same bytes; a part equals the same part of it.
#include "codec_support.h"
#include "damacy/codec/zstd.h"
#include "support/encoders.h"
#include "support/oracles.h"

namespace {

using namespace damacy;
using fuzz::Bytes;
using fuzz::require;

constexpr std::size_t kMost = 1 << 14;

Bytes good_frame(FuzzedDataProvider& data, std::size_t& size) {
  const Bytes raw = fuzz::contents(data, kMost / 2);
  size += raw.size();
  switch (data.ConsumeIntegralInRange(0, 3)) {
    case 0:
      return codec_test::zstd_packed(raw, data.ConsumeIntegralInRange(-3, 7), data.ConsumeBool());
    case 1:
      return codec_test::zstd_streamed(raw, data.ConsumeIntegralInRange(10, 27), data.ConsumeBool(),
                                       data.ConsumeIntegralInRange<std::size_t>(100, 5000));
    case 2:
      return codec_test::joined({codec_test::zstd_header({.window_byte = data.ConsumeIntegralInRange(0, 255)}),
                                 codec_test::zstd_raw_block(raw, true)});
    default:
      size -= raw.size();
      return codec_test::zstd_skippable(data.ConsumeIntegralInRange(0u, 15u), raw);
  }
}

void check(std::span<const std::byte> encoded, std::size_t size, std::size_t needed) {
  static fuzz::GuardedBuffer out_buffer(4 * kMost);
  static ZstdDecoder decoder;
  const codec_test::Maybe reference = codec_test::libzstd_decoded(encoded, size);
  const std::span<std::byte> out = out_buffer.filled(size, std::byte{0xa5});
  if (decoder.decode(encoded, out, size).ok()) {
    require(reference.has_value(), "accepted what libzstd refuses");
    require(std::equal(out.begin(), out.end(), reference->begin()), "other bytes than libzstd");
  }
  const std::span<std::byte> part = out_buffer.filled(size, std::byte{0x5a});
  if (decoder.decode(encoded, part, needed).ok() && reference)
    require(std::equal(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(std::min(needed, size)),
                       reference->begin()),
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
