// generated_on_host COUNT [FIRST]: zstd frames of levels -5 to 22 (up to 12 above 4 KiB), one to three in a stream, as
// libzstd writes them, decoded by libzstd, by the host decoder and by the GPU decoder's host version: equal, and so are
// parts. Prints a JSON object; exit code 1: one differs.
#include <cstdio>
#include <cstdlib>

#include "damacy/codec/gpu_zstd/reference_decoder.h"
#include "damacy/codec/gpu_zstd/test_frames.h"
#include "damacy/codec/zstd.h"

namespace {

using namespace damacy;
using gpu::testing::Bytes;
using gpu::testing::Random;

struct Decoders {
  ZstdDecoder host;
  gpu::ReferenceDecoder gpu;
};

bool equal_up_to(const Bytes& a, const Bytes& b, std::size_t end) {
  return std::memcmp(a.data(), b.data(), end) == 0;
}

// The name of what differs, or null.
const char* difference(std::uint64_t number, Decoders& decoders) {
  Random random(number * 0x9e3779b97f4a7c15ull + 17);
  const std::size_t most = random() % 64 == 0 ? 200000 : 4096;
  const Bytes content = gpu::testing::random_content(random, 1 + random() % most);
  const Bytes encoded = gpu::testing::random_zstd(random, content);
  const std::size_t size = content.size(), needed = 1 + random() % size;
  Bytes out(size);
  if (ZSTD_decompress(out.data(), size, encoded.data(), encoded.size()) != size || out != content) return "libzstd";
  std::fill(out.begin(), out.end(), std::byte{0xa5});
  if (!decoders.host.decode(encoded, out, size).ok() || out != content) return "host";
  std::fill(out.begin(), out.end(), std::byte{0xa5});
  if (!decoders.host.decode(encoded, out, needed).ok() || !equal_up_to(out, content, needed)) return "host, a part";
  std::fill(out.begin(), out.end(), std::byte{0xa5});
  if (!decoders.gpu.decode(encoded, GpuCodec::zstd, out).ok() || out != content) return "gpu";
  std::fill(out.begin(), out.end(), std::byte{0xa5});
  if (decoders.gpu.decode(encoded, GpuCodec::zstd, out, needed).ok() && !equal_up_to(out, content, needed))
    return "gpu, a part";  // refused is right too: the host does it then
  return nullptr;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) return 2;
  const std::uint64_t frames = std::strtoull(words[1], nullptr, 10);
  const std::uint64_t first = count > 2 ? std::strtoull(words[2], nullptr, 10) : 0;
  Decoders decoders;
  std::uint64_t differ = 0;
  for (std::uint64_t i = first; i < first + frames; ++i) {
    const char* what = difference(i, decoders);
    if (what == nullptr) continue;
    ++differ;
    std::printf("{\"frame\": %llu, \"differs\": \"%s\"}\n", static_cast<unsigned long long>(i), what);
  }
  std::printf("{\"generated_on_host\": %llu, \"first\": %llu, \"differ\": %llu}\n",
              static_cast<unsigned long long>(frames), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(differ));
  return differ == 0 ? 0 : 1;
}
