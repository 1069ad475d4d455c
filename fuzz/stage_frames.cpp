// Chunks as the stream engine decodes them, by libraries and by the reference of the CUDA kernels, against the host's
// decoder: the delivered bytes must be those of the host, and nothing is written out of bounds. The first eight bytes
// of an input choose good chunks and boxes of them; the rest changes encoded bytes.
#include <array>

#include "codec_support.h"
#include "damacy/device/host_device.h"
#include "stages/comparison.h"
#include "stages/reference_stream_decoder.h"

namespace {

using damacy::stages::Chunk;
using damacy::stages::Comparison;

// The checksums around a frame are right again, now and then.
void repair_checksums(Chunk& chunk) {
  for (const damacy::CodecSpec& codec : chunk.codecs->codecs()) {
    if (codec.id != damacy::CodecId::crc32c || chunk.encoded.size() < 4 || chunk.codecs->codecs().size() > 2) continue;
    const std::span<std::byte> all(chunk.encoded);
    const auto content = codec.checksum_at_start ? all.subspan(4) : all.first(all.size() - 4);
    const std::uint32_t sum = damacy::crc32c(content);
    std::memcpy(codec.checksum_at_start ? all.data() : all.data() + all.size() - 4, &sum, sizeof sum);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static Comparison libraries(damacy::make_host_device(), damacy::make_host_stream_decoder(),
                              damacy::make_host_copier());
  static Comparison reference(damacy::make_host_device(), std::make_unique<damacy::stages::ReferenceStreamDecoder>(),
                              damacy::make_host_copier());
  FuzzedDataProvider data(bytes, size);
  damacy::stages::ChunkSource source(data.ConsumeIntegral<std::uint64_t>());
  std::array<Chunk, 4> chunks;
  for (Chunk& chunk : chunks) {
    source.next(chunk);
    if (data.remaining_bytes() == 0) continue;
    damacy::fuzz::mutate(data, chunk.encoded);
    if (data.ConsumeBool()) damacy::stages::repair(damacy::stages::Frame::Kind::blosc, chunk.encoded);
    if (data.ConsumeBool()) repair_checksums(chunk);
  }
  const auto found = [](std::size_t, const std::string& what) { damacy::fuzz::require(false, what.c_str()); };
  libraries.run(chunks, found);
  reference.run(chunks, found);
  return 0;
}
