#include "hostile_frames.h"

#include <algorithm>
#include <atomic>

#include "damacy/codec/blosc.h"
#include "support/blosc_writer.h"
#include "support/zstd_frames.h"

namespace damacy::bench {
namespace {

using gpu::testing::below;
using gpu::testing::Random;

Bytes random_blosc(Random& random, const Bytes& content) {
  codec_test::BloscWriter writer;
  writer.typesize = 1u << below(random, 4);
  writer.codec = random() % 2 == 0 ? BloscCodec::lz4 : BloscCodec::zstd;
  const std::size_t step = std::size_t{64} * writer.typesize;
  const std::size_t blocksize = (1 + below(random, 1 + content.size() / step)) * step;
  writer.blocksize = static_cast<std::uint32_t>(std::min(blocksize, content.size()));
  writer.split = writer.blocksize % writer.typesize == 0 && random() % 2 == 0;
  writer.filter_flags = random() % 3 == 0 ? 0u : random() % 2 == 0 ? 1u : 4u;
  writer.all_raw = random() % 16 == 0;
  writer.gap = static_cast<std::uint32_t>(below(random, 5));
  return codec_test::blosc_packed(content, writer, [&](std::span<const std::byte> part) {
    return writer.codec == BloscCodec::lz4 ? gpu::testing::random_lz4(random, part)
                                           : gpu::testing::random_zstd(random, part);
  });
}

Sample make_sample(Random& random, const HostileOptions& options) {
  Sample sample;
  const std::size_t limit = random() % 4 == 0 ? std::min<std::size_t>(options.largest, 64) : options.largest;
  sample.content = gpu::testing::random_content(random, 1 + random() % limit);
  const bool lz4 = options.subject == Subject::lz4 || (options.subject == Subject::mixed && random() % 3 == 0);
  if (lz4) sample.codec = GpuCodec::lz4;
  sample.encoded = options.subject == Subject::blosc ? random_blosc(random, sample.content)
                   : lz4                             ? gpu::testing::random_lz4(random, sample.content)
                                                     : gpu::testing::random_zstd(random, sample.content);
  return sample;
}

// The streams of a chunk, as a reader finds them; false if its container is refused.
bool find_streams(std::span<const std::byte> encoded, std::uint64_t size, std::vector<Item>& streams) {
  BloscHeader header;
  if (!read_blosc_header(encoded, encoded.size(), &size, header).ok()) return false;
  if (header.memcpyed) return true;
  if (header.codec != BloscCodec::lz4 && header.codec != BloscCodec::zstd) return true;  // decoded on the cores
  const ByteRange everything{0, encoded.size()};
  for (std::uint64_t block = 0; block < header.block_count; ++block) {
    std::uint64_t position = 0;
    if (!blosc_block_start(header, encoded, block, position).ok()) return false;
    BloscStreams of_block;
    if (!blosc_streams(header, block, of_block).ok()) return false;
    for (std::uint32_t s = 0; s < of_block.count; ++s) {
      ByteRange data;
      if (!blosc_stream(encoded, {&everything, 1}, of_block.bytes, position, data).ok()) return false;
      const GpuCodec codec = data.size() == of_block.bytes     ? GpuCodec::raw
                             : header.codec == BloscCodec::lz4 ? GpuCodec::lz4
                                                               : GpuCodec::zstd;
      streams.push_back({encoded.subspan(data.begin, data.size()), of_block.bytes, codec});
    }
  }
  return true;
}

}  // namespace

Pool::Pool(std::size_t count, const HostileOptions& options, std::uint64_t seed, Crew& crew) : samples_(count) {
  crew.each(
      count,
      [&](std::size_t i, std::size_t) {
        Random random(seed * 0x9e3779b97f4a7c15ull + i);
        samples_[i] = make_sample(random, options);
      },
      8);
}

void Load::make(const HostileOptions& options, std::uint64_t seed, const Pool& pool, Crew& crew) {
  const bool blosc = options.subject == Subject::blosc;
  encoded_.resize(options.frames);
  contents_.resize(options.frames);
  items_.resize(options.frames);
  streams_.resize(blosc ? options.frames : 0);
  std::atomic<std::uint64_t> refused = 0;
  // Seeds a generator once for many frames: seeding takes as long as mutating three.
  constexpr std::size_t kFrames = 64;
  crew.each((options.frames + kFrames - 1) / kFrames, [&](std::size_t portion, std::size_t) {
    Random random(seed * 0xd1342543de82ef95ull + portion);
    const std::size_t end = std::min(options.frames, (portion + 1) * kFrames);
    for (std::size_t i = portion * kFrames; i < end; ++i) {
      const Sample& sample = pool.at(options.mutate ? random() : i);
      encoded_[i] = sample.encoded;
      if (options.mutate) gpu::testing::mutate(random, encoded_[i]);
      items_[i] = {encoded_[i], sample.content.size(), sample.codec};
      contents_[i] = &sample.content;
      if (!blosc) continue;
      streams_[i].clear();
      if (find_streams(encoded_[i], sample.content.size(), streams_[i])) continue;
      ++refused;
      streams_[i].clear();
    }
  });
  refused_ = refused;
  if (!blosc) return;
  items_.clear();
  contents_.clear();
  for (const auto& streams : streams_) items_.insert(items_.end(), streams.begin(), streams.end());
}

}  // namespace damacy::bench
