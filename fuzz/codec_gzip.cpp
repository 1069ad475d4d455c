// gzip, zlib and the deflate data in them: we accept what zlib accepts, with the same bytes, and nothing that neither
// it nor the definition does (ACCEPTED_DIFFERENCES.md). Checksums are repaired after mutation, or nothing would get
// past them.
#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>
#include <zlib.h>

#include "codec_support.h"
#include "damacy/codec/deflate.h"
#include "naive_inflate.h"
#include "support/encoders.h"
#include "support/oracles.h"

namespace {

using namespace damacy;
using codec_test::Maybe;
using fuzz::Bytes;
using fuzz::require;

constexpr std::size_t kMost = 1 << 16;

// One stream by zlib, `window_bits` as inflateInit2 takes them; consumed and produced bytes.
bool zlib_stream(std::span<const std::byte> in, int window_bits, Bytes& out, std::size_t& consumed,
                 std::size_t& produced) {
  z_stream stream{};
  require(inflateInit2(&stream, window_bits) == Z_OK, "inflateInit2");
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data()));
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data()) + produced;
  stream.avail_out = static_cast<uInt>(out.size() - produced);
  const int code = inflate(&stream, Z_FINISH);
  consumed += stream.total_in;
  produced += stream.total_out;
  inflateEnd(&stream);
  return code == Z_STREAM_END;
}

Maybe zlib_decoded(std::span<const std::byte> in, bool gzip, std::size_t size) {
  Bytes out(size + 1);
  std::size_t consumed = 0, produced = 0;
  do {
    if (!zlib_stream(in.subspan(consumed), gzip ? 31 : 15, out, consumed, produced)) return std::nullopt;
  } while (gzip && consumed < in.size() && in[consumed] != std::byte{0});
  for (std::size_t i = consumed; i < in.size(); ++i)
    if (!gzip || in[i] != std::byte{0}) return std::nullopt;
  if (produced != size) return std::nullopt;
  out.resize(size);
  return out;
}

// The wrapper is 10 bytes for gzip (no optional fields: their test is zlib's agreement), 2 for zlib.
Maybe defined(std::span<const std::byte> in, bool gzip, std::size_t size) {
  const std::size_t header = gzip ? 10 : 2;
  const std::size_t trailer = gzip ? 8 : 4;
  Bytes out;
  std::size_t at = 0;
  do {
    if (in.size() - at < header || (gzip && in[at + 3] != std::byte{0})) return std::nullopt;
    fuzz::NaiveInflate inflate(in.subspan(at + header), size - out.size());
    const Maybe member = inflate.decoded();
    if (!member) return std::nullopt;
    out.insert(out.end(), member->begin(), member->end());
    at += header + inflate.used() + trailer;
  } while (gzip && at < in.size() && in[at] != std::byte{0});
  return out;
}

void check(std::span<const std::byte> encoded, bool gzip, std::size_t size) {
  static fuzz::GuardedBuffer in_buffer(4 * kMost), out_buffer(4 * kMost);
  static InflateDecoder decoder;
  const std::span<std::byte> in = in_buffer.copy_of(encoded);
  const std::span<std::byte> out = out_buffer.filled(size, std::byte{0xa5});
  const bool accepted = (gzip ? decoder.decode_gzip(in, out) : decoder.decode_zlib(in, out)).ok();
  const Maybe by_zlib = zlib_decoded(in, gzip, size);
  require(accepted || !by_zlib, "refused what zlib accepts");
  if (!accepted) return;
  const Maybe by_definition = defined(in, gzip, size);
  require(by_zlib || by_definition, "accepted what zlib and the definition refuse");
  for (const Maybe& reference : {by_zlib, by_definition})
    require(!reference || std::equal(out.begin(), out.end(), reference->begin(), reference->end()), "other bytes");
}

// A member around deflate data, whose checksum fits what our library makes of them.
Bytes repaired_member(const Bytes& body, std::size_t& size) {
  Bytes out(kMost);
  static inflate_state state;
  isal_inflate_init(&state);
  state.next_in = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(body.data()));
  state.avail_in = static_cast<std::uint32_t>(body.size());
  state.next_out = reinterpret_cast<unsigned char*>(out.data());
  state.avail_out = static_cast<std::uint32_t>(out.size());
  const bool whole = isal_inflate_stateless(&state) == ISAL_DECOMP_OK;
  size = whole ? state.total_out : 0;
  Bytes member = codec_test::bytes_of({0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255});
  member.insert(member.end(), body.begin(), body.end() - (whole ? state.avail_in : 0));
  codec_test::append_le(member, crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(out.data()), size), 4);
  codec_test::append_le(member, size, 4);
  return member;
}

Bytes deflate_body(FuzzedDataProvider& data) {
  const Bytes raw = fuzz::contents(data, kMost / 2);
  Bytes packed(compressBound(static_cast<uLong>(raw.size())) + 64);
  z_stream stream{};
  require(deflateInit2(&stream, data.ConsumeIntegralInRange(0, 9), Z_DEFLATED, -15, 8,
                       data.ConsumeIntegralInRange(0, 4)) == Z_OK,
          "deflateInit2");
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(raw.data()));
  stream.avail_in = static_cast<uInt>(raw.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  FuzzedDataProvider data(bytes, count);
  std::size_t size = data.ConsumeIntegral<std::uint16_t>();
  switch (data.ConsumeIntegralInRange(0, 3)) {
    case 0:
      check(fuzz::taken(data, kMost), data.ConsumeBool(), size);
      break;
    case 1: {
      Bytes body = deflate_body(data);
      fuzz::mutate(data, body);
      const Bytes member = repaired_member(body, size);
      check(member, true, size);
      break;
    }
    case 2: {
      const Bytes member = repaired_member(fuzz::taken(data, 4096), size);
      check(member, true, size);
      check(codec_test::joined({member, member, Bytes(3)}), true, 2 * size);
      break;
    }
    default: {
      const bool gzip = data.ConsumeBool();
      const Bytes raw = fuzz::contents(data, kMost / 2);
      Bytes packed = codec_test::deflated(raw, gzip ? IGZIP_GZIP : IGZIP_ZLIB);
      fuzz::mutate(data, packed);
      check(packed, gzip, raw.size());
    }
  }
  return 0;
}
