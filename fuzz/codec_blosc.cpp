// blosc: whatever we accept, a decoder written from the format alone accepts and gives the same bytes. Of zlib streams
// the definition counts where zlib itself refuses more (ACCEPTED_DIFFERENCES.md).
#include <zlib.h>

#include "codec_blosc_input.h"
#include "damacy/codec/blosc.h"
#include "damacy/codec/detail/test_oracles.h"
#include "naive_inflate.h"

namespace {

using namespace damacy;
using fuzz::Bytes;
using fuzz::require;

codec_test::Maybe defined(std::span<const std::byte> in, std::size_t size) {
  constexpr std::size_t kHeader = 2, kTrailer = 4;
  if (in.size() < kHeader + kTrailer || in[0] != std::byte{0x78} || (in[1] & std::byte{0x20}) != std::byte{0})
    return std::nullopt;
  fuzz::NaiveInflate inflate(in.subspan(kHeader), size);
  codec_test::Maybe out = inflate.decoded();
  if (!out || out->size() != size || kHeader + inflate.used() + kTrailer != in.size()) return std::nullopt;
  uLong sum = 0;
  for (const std::byte byte : in.last(kTrailer)) sum = sum << 8 | static_cast<uLong>(byte);
  const uLong is =
      adler32(adler32(0, nullptr, 0), reinterpret_cast<const Bytef*>(out->data()), static_cast<uInt>(size));
  return is == sum ? out : std::nullopt;
}

codec_test::Maybe zlib_decoded(std::span<const std::byte> in, std::size_t size) {
  Bytes out(size);
  uLongf got = size;
  uLong used = in.size();
  const int code =
      uncompress2(reinterpret_cast<Bytef*>(out.data()), &got, reinterpret_cast<const Bytef*>(in.data()), &used);
  if (code != Z_OK || got != size || used != in.size()) return defined(in, size);
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
  const codec_test::Maybe defined = codec_test::NaiveBlosc(encoded, size, zlib_decoded).decoded();
  require(defined.has_value(), "accepted what the format forbids");
  require(std::equal(out.begin(), out.end(), defined->begin()), "other bytes than the format says");
  return 0;
}
