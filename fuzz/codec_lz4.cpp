// lz4: we accept exactly what the format's definition accepts, with its bytes; where liblz4 agrees that a block is good
// it gives them too (it also takes offsets of zero).
#include "codec_support.h"
#include "damacy/codec/lz4.h"
#include "support/encoders.h"
#include "support/oracles.h"

namespace {

using namespace damacy;
using fuzz::Bytes;
using fuzz::require;

constexpr std::size_t kMost = 1 << 16;

void check(std::span<const std::byte> block, std::size_t size) {
  static fuzz::GuardedBuffer out_buffer(2 * kMost);
  const std::span<std::byte> out = out_buffer.filled(size, std::byte{0xa5});
  const bool accepted = decode_lz4_block(block, out).ok();
  const codec_test::Maybe defined = codec_test::naive_lz4(block, size);
  require(accepted == defined.has_value(), "accepts other blocks than the definition");
  if (!accepted) return;
  require(std::equal(out.begin(), out.end(), defined->begin()), "other bytes than the definition");
  Bytes reference(size);
  const int got =
      LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()), reinterpret_cast<char*>(reference.data()),
                          static_cast<int>(block.size()), static_cast<int>(size));
  require(got < 0 || std::equal(out.begin(), out.end(), reference.begin()), "other bytes than liblz4");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  FuzzedDataProvider data(bytes, count);
  static fuzz::GuardedBuffer in_buffer(4 * kMost);
  std::size_t size = data.ConsumeIntegral<std::uint16_t>();
  Bytes block;
  if (data.ConsumeBool()) {
    const Bytes raw = fuzz::contents(data, kMost);
    size = raw.size();
    block = codec_test::lz4_packed(raw);
    fuzz::mutate(data, block);
  } else {
    block = fuzz::taken(data, kMost);
  }
  check(in_buffer.copy_of(block), size);
  return 0;
}
