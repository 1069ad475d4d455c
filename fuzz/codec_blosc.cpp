// blosc: whatever we accept, a decoder written from the format alone accepts and gives the same bytes. Of zlib streams
// the definition counts where zlib itself refuses more (ACCEPTED_DIFFERENCES.md).
#include <zlib.h>

#include "codec_blosc_input.h"
#include "damacy/codec/blosc.h"
#include "naive_inflate.h"
#include "support/oracles.h"

namespace {

using namespace damacy;
using fuzz::Bytes;
using fuzz::require;

// By the definition alone: codes that leave bit patterns unused, which zlib refuses (ACCEPTED_DIFFERENCES.md).
codec_test::Maybe defined_inflated(std::span<const std::byte> in, std::size_t size) {
  if (in.size() < 6) return std::nullopt;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(in[i]); };
  if ((byte(0) & 15) != 8 || byte(0) >> 4 > 7 || (byte(0) << 8 | byte(1)) % 31 != 0 || (byte(1) & 32) != 0)
    return std::nullopt;
  fuzz::NaiveInflate inflate(in.subspan(2, in.size() - 6), size);
  const codec_test::Maybe out = inflate.decoded();
  if (!out || out->size() != size || inflate.used() + 6 != in.size()) return std::nullopt;
  const std::size_t end = in.size() - 4;
  const unsigned stored = byte(end) << 24 | byte(end + 1) << 16 | byte(end + 2) << 8 | byte(end + 3);
  const uLong sum = adler32(adler32(0, nullptr, 0), reinterpret_cast<const Bytef*>(out->data()), uInt(size));
  return sum == stored ? out : std::nullopt;
}

codec_test::Maybe inflated(std::span<const std::byte> in, std::size_t size) {
  Bytes out(size);
  uLongf got = size;
  uLong used = in.size();
  const int code =
      uncompress2(reinterpret_cast<Bytef*>(out.data()), &got, reinterpret_cast<const Bytef*>(in.data()), &used);
  if (code != Z_OK || got != size || used != in.size()) return defined_inflated(in, size);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  static fuzz::GuardedBuffer in_buffer(1 << 20), out_buffer(1 << 17);
  static ZstdDecoder zstd;
  static InflateDecoder inflate;
  static BloscDecoder decoder;
  FuzzedDataProvider data(bytes, count);
  std::size_t size = 0;
  const Bytes input = fuzz::blosc_input(data, size);
  const std::span<std::byte> encoded = in_buffer.copy_of(input);
  const std::span<std::byte> out = out_buffer.filled(size, std::byte{0xa5});
  const ByteRange everything{0, encoded.size()};
  const ByteRange all{0, size};
  if (!decoder.decode(encoded, {&everything, 1}, out, {&all, 1}, zstd, inflate).ok()) return 0;
  const codec_test::Maybe defined = codec_test::NaiveBlosc(encoded, size, inflated).decoded();
  require(defined.has_value(), "accepted what the format forbids");
  require(std::equal(out.begin(), out.end(), defined->begin()), "other bytes than the format says");
  return 0;
}
