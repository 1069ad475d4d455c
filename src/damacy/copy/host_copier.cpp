// The copier of host devices, and the specification of all others. Written to be read.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "damacy/copy/placement.h"

namespace damacy {
namespace {

using Shuffle = ChunkLayout::Shuffle;

// One shuffled block as it was before: see ChunkLayout.
void unshuffle(const ChunkLayout& layout, std::span<const std::byte> in, std::span<std::byte> out) {
  const std::size_t t = layout.typesize;
  const std::size_t m = in.size() / t;
  std::memcpy(out.data(), in.data(), in.size());
  if (layout.shuffle == Shuffle::bytes) {
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t k = 0; k < t; ++k) out[i * t + k] = in[k * m + i];
  } else if (m % 8 == 0) {
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t k = 0; k < t; ++k) {
        unsigned byte = 0;
        for (std::size_t b = 0; b < 8; ++b)
          byte |= (static_cast<unsigned>(in[(k * 8 + b) * (m / 8) + i / 8]) >> (i % 8) & 1u) << b;
        out[i * t + k] = static_cast<std::byte>(byte);
      }
  }
}

// The source bytes that a copy reads, from the first to behind the last.
struct Reach {
  std::int64_t begin, end;
};
Reach source_reach(const BlockCopy& copy) {
  Reach reach{copy.src_offset, copy.src_offset + static_cast<std::int64_t>(size_of(copy.op.from))};
  for (const CopyAxis& axis : copy.used()) {
    const std::int64_t length = (axis.extent - 1) * axis.src_stride;
    (length < 0 ? reach.begin : reach.end) += length;
  }
  return reach;
}

// The blocks that `copy` reads: of the others there may be nothing. Moves the copy to the first of them.
std::vector<std::byte> unshuffled(const ChunkLayout& layout, const std::byte* chunk, BlockCopy& copy) {
  const Reach reach = source_reach(copy);
  const auto block = static_cast<std::int64_t>(layout.block_bytes);
  const auto chunk_end = static_cast<std::int64_t>(layout.chunk_bytes);
  const std::int64_t first = reach.begin / block * block;
  const std::int64_t end = std::min((reach.end + block - 1) / block * block, chunk_end);
  std::vector<std::byte> out(static_cast<std::size_t>(end - first));
  for (std::int64_t begin = first; begin < end; begin += block) {
    const auto size = static_cast<std::size_t>(std::min(block, chunk_end - begin));
    unshuffle(layout, {chunk + begin, size}, std::span(out).subspan(static_cast<std::size_t>(begin - first), size));
  }
  copy.src_offset -= first;
  return out;
}

BlockCopy as_block_copy(const Placement& placement) {
  BlockCopy copy;
  copy.src_offset = placement.src_offset;
  copy.op = placement.op;
  copy.rank = placement.rank;
  std::copy_n(placement.axes, placement.rank, copy.axes.begin());
  return copy;
}

// `copy` counts from the chunk's first byte and the box's first element.
void run(BlockCopy copy, std::uint64_t src, std::uint64_t to, const ChunkLayout& layout) {
  const auto* chunk = reinterpret_cast<const std::byte*>(src);
  std::int64_t reach = static_cast<std::int64_t>(size_of(copy.op.to));
  for (const CopyAxis& axis : copy.used()) reach += (axis.extent - 1) * axis.dst_stride;
  const std::span<std::byte> dst{reinterpret_cast<std::byte*>(to), static_cast<std::size_t>(reach)};
  if (layout.shuffle == Shuffle::none) return run_block_copy(copy, {chunk, layout.chunk_bytes}, dst);
  const std::vector<std::byte> elements = unshuffled(layout, chunk, copy);
  run_block_copy(copy, elements, dst);
}

void run(const Placement& placement) {
  run(as_block_copy(placement), placement.src, placement.dst, placement.layout);
}

void run(DeepPlacement deep) {
  const auto first = static_cast<std::uint64_t>(std::exchange(deep.copy.dst_offset, 0));
  run(deep.copy, deep.src, deep.dst + first, deep.layout);
}

template <class Each>
void run_all(std::span<const std::byte> image) {
  for (std::size_t at = 0; at < image.size(); at += sizeof(Each)) {
    Each each;
    std::memcpy(&each, image.data() + at, sizeof each);
    run(each);
  }
}

class HostCopier final : public Copier {
 public:
  bool takes_deep() const noexcept override { return true; }
  std::size_t image_bytes(const PlacementList& list) const override {
    return list.placements().size_bytes() + list.deep().size_bytes();
  }
  void write_image(const PlacementList& list, std::span<std::byte> image) const override {
    std::ranges::copy(std::as_bytes(list.placements()), image.begin());
    const auto deep = static_cast<std::ptrdiff_t>(list.placements().size_bytes());
    std::ranges::copy(std::as_bytes(list.deep()), image.begin() + deep);
  }
  void enqueue(Stream& stream, const PlacementList& list, std::span<const std::byte> image) override {
    const std::size_t deep = list.placements().size_bytes();
    stream.enqueue({[image, deep] {
                      run_all<Placement>(image.first(deep));
                      run_all<DeepPlacement>(image.subspan(deep));
                    },
                    {}});
  }
};

}  // namespace

std::unique_ptr<Copier> make_host_copier() {
  return std::make_unique<HostCopier>();
}

}  // namespace damacy
