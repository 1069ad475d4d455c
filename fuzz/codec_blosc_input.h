// blosc chunks for fuzzing: any writer's, then changed, with the length in the header repaired or not.
#pragma once

#include "codec_support.h"
#include "support/encoders.h"

namespace damacy::fuzz {

inline Bytes blosc_input(FuzzedDataProvider& data, std::size_t& size) {
  constexpr std::size_t kMost = 1 << 13;
  if (data.ConsumeIntegralInRange(0, 7) == 0) {
    size = data.ConsumeIntegral<std::uint16_t>();
    return taken(data, kMost);
  }
  codec_test::BloscWriter writer;
  writer.typesize =
      data.ConsumeBool() ? 1u << data.ConsumeIntegralInRange(0, 4) : data.ConsumeIntegralInRange(1u, 255u);
  writer.blocksize = data.ConsumeBool() ? data.ConsumeIntegralInRange(1u, 64u) * 8 * writer.typesize
                                        : data.ConsumeIntegralInRange(64u, 4096u);
  writer.codec = data.PickValueInArray(
      {BloscCodec::lz4, BloscCodec::zlib, BloscCodec::zstd, BloscCodec::blosclz, BloscCodec::snappy});
  writer.filter_flags = data.PickValueInArray({0u, 1u, 4u, 5u});
  writer.all_raw = data.ConsumeIntegralInRange(0, 7) == 0;
  writer.share_equal_blocks = data.ConsumeBool();
  writer.gap = data.ConsumeIntegralInRange(0u, 20u);
  Bytes raw = contents(data, kMost);
  if (raw.empty()) raw.resize(1);
  size = raw.size();
  // A few blocks say as much as hundreds, and sooner.
  const auto least = static_cast<std::uint32_t>(size / 12 + 1);
  if (writer.blocksize < least) {
    const std::uint32_t step = writer.blocksize % writer.typesize == 0 ? 8 * writer.typesize : 1;
    writer.blocksize = (least + step - 1) / step * step;
  }
  writer.blocksize = std::min(writer.blocksize, static_cast<std::uint32_t>(size));
  const bool divides = writer.blocksize % writer.typesize == 0;
  writer.split = divides && data.ConsumeBool();
  const std::size_t blocks = (size + writer.blocksize - 1) / writer.blocksize;
  writer.write_order.resize(blocks);
  std::iota(writer.write_order.begin(), writer.write_order.end(), 0u);
  if (data.ConsumeBool()) std::ranges::reverse(writer.write_order);
  Bytes encoded = codec_test::blosc_packed(raw, writer);
  mutate(data, encoded);
  if (encoded.size() >= 16 && data.ConsumeBool())
    for (unsigned i = 0; i < 4; ++i) encoded[12 + i] = static_cast<std::byte>(encoded.size() >> (8 * i));
  return encoded;
}

}  // namespace damacy::fuzz
