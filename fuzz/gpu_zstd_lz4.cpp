// The GPU decoder on LZ4 blocks, its host version and its kernels on the host machine: whatever they accept, liblz4
// accepts and gives the same bytes; they accept what both liblz4 and the format's definition do; a part is as good as
// the whole.
#include "codec_support.h"
#include "support/encoders.h"
#include "support/oracles.h"
#include "support/reference_decoder.h"
#include "support/simt_on_host_impl.h"
#include "support/wave_on_host.h"

namespace {

using namespace damacy;
using fuzz::Bytes;
using fuzz::require;

constexpr std::size_t kMost = 1 << 15;

bool liblz4_decodes(std::span<const std::byte> block, std::span<std::byte> out) {
  const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()), reinterpret_cast<char*>(out.data()),
                                      static_cast<int>(block.size()), static_cast<int>(out.size()));
  return got >= 0 && static_cast<std::size_t>(got) == out.size();
}

// Bytes [0, needed) as the kernels give them, when they accept. The block stands at any place of a 16-byte row.
bool kernels_decode(std::span<const std::byte> block, std::size_t lead, std::size_t needed, Bytes& out) {
  const GpuFrame frame{lead, block.size(), 0, out.size(), GpuCodec::lz4, needed};
  FrameScan scan;
  if (!scan_frame(block, frame, scan).ok() || scan.ask_host) return false;
  WaveDescriptors wave(WaveLimits{.frames = 1, .blocks = 1});
  if (wave.add(scan) != 0) return false;
  const std::size_t padded = (lead + block.size() + 15) / 16 * 16 + WaveBuffers::kSourcePadding;
  const gpu::DeviceMemory source(padded, std::byte{0xee}), destination(out.size(), std::byte{0xab});
  std::memcpy(source.data() + lead, block.data(), block.size());
  auto shapes = gpu::StageShapes::choose(wave.shape(), {.multiprocessors = 1});
  shapes.lz4_warps = 4u << lead % 3;  // as for many frames, or few
  if (gpu::decode_wave_on_host(wave, source, destination, shapes, lead + needed)[0] != 0) return false;
  std::memcpy(out.data(), destination.data(), out.size());
  return true;
}

void check(std::span<const std::byte> block, std::size_t size, std::size_t needed, std::size_t lead) {
  static gpu::ReferenceDecoder decoder;
  Bytes expected(size), out(size), from_kernels(size);
  const bool lz4_accepts = liblz4_decodes(block, expected);
  const bool accepted = decoder.decode(block, GpuCodec::lz4, out).ok();
  if (accepted) {
    require(lz4_accepts, "accepted what liblz4 refuses");
    require(out == expected, "other bytes than liblz4");
  }
  if (size == 0) return;  // the host's
  if (lz4_accepts && codec_test::naive_lz4(block, size)) require(accepted, "refused a good block");
  require(kernels_decode(block, lead, 0, from_kernels) == accepted, "the kernels accept other blocks");
  if (accepted) require(from_kernels == expected, "the kernels give other bytes");
  if (!accepted || needed == 0 || needed >= size) return;
  require(kernels_decode(block, lead, needed, from_kernels), "a part of a good block is refused");
  require(std::equal(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(needed), from_kernels.begin()),
          "a part differs from the whole");
}

}  // namespace

// Or each of 512 fibres would take memory for a second stack, and give it back: 27 times as slow.
extern "C" const char* __asan_default_options() {
  return "detect_stack_use_after_return=0";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  FuzzedDataProvider data(bytes, count);
  static fuzz::GuardedBuffer in_buffer(4 * kMost);
  const std::size_t needed = data.ConsumeIntegral<std::uint16_t>();
  const auto lead = data.ConsumeIntegralInRange<std::size_t>(0, 31);
  std::size_t size = 0;
  Bytes block;
  if (data.ConsumeBool()) {
    const Bytes raw = fuzz::contents(data, kMost);
    size = raw.size();
    block = codec_test::lz4_packed(raw);
    fuzz::mutate(data, block);
  } else {
    size = data.ConsumeIntegralInRange<std::size_t>(0, kMost);
    block = fuzz::taken(data, kMost);
  }
  check(in_buffer.copy_of(block), size, needed, lead);
  return 0;
}
