// Placements for tests: random boxes of random chunks to random places, and the host copier's way with one. Knows no
// device; addresses are of host memory, or of what the caller puts in their place.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "damacy/copy/placement.h"
#include "damacy/core/formatted.h"
#include "support/draw.h"
#include "support/random_finish.h"

namespace damacy::copy_cuda::testing {

using Bytes = std::vector<std::byte>;

using damacy::testing::Draw;

// What is not to be drawn.
struct Wishes {
  std::optional<CopyOp> op;
  std::optional<ChunkLayout::Shuffle> shuffle;
  bool plain_rows = false;  // nothing transposed, turned round or repeated, and whole blocks
  bool finished = false;    // elements are finished, too
};

class HostStream final : public Stream {
 public:
  void copy(std::span<std::byte>, std::span<const std::byte>) override {}
  void fill(std::span<std::byte>, std::byte) override {}
  void host_task(std::function<void()>) override {}
  void enqueue(Work work) override { work.on_host(); }
  void wait(const Event&) override {}
  Event record(bool) override { return {}; }
  std::uint64_t native_handle() const noexcept override { return 0; }
};

inline void place_on_host(const Placement& placement) {
  PlacementList list;
  list.add(placement);
  const auto copier = make_host_copier();
  Bytes image(copier->image_bytes(list));
  copier->write_image(list, image);
  HostStream stream;
  copier->enqueue(stream, list, image);
}

class RandomPlacement {
 public:
  static constexpr std::byte kGuard{0xa5};
  static constexpr std::size_t kGuardBytes = 64;

  Placement placement;

  explicit RandomPlacement(std::uint64_t seed, const Wishes& wishes = {}) : seed_(seed), draw_(seed), wishes_(wishes) {
    draw_op();
    if (wishes_.finished) draw_finish();
    draw_shape();
    draw_layout();
    fill_chunk();
    place();
  }
  RandomPlacement(const RandomPlacement&) = delete;
  RandomPlacement& operator=(const RandomPlacement&) = delete;

  // The chunk's bytes exactly, at any alignment of an allocation that ends with it.
  std::span<const std::byte> chunk() const { return std::span(chunk_).last(placement.layout.chunk_bytes); }
  std::size_t chunk_skew() const { return chunk_.size() - placement.layout.chunk_bytes; }
  const Bytes& destination() const { return destination_; }
  void clear_destination() const { std::fill(destination_.begin(), destination_.end(), kGuard); }
  std::size_t dst_begin() const {
    return static_cast<std::size_t>(placement.dst - reinterpret_cast<std::uint64_t>(destination_.data()));
  }

  std::string text() const {
    const CopyOp& op = placement.op;
    std::string out = formatted("seed {} {}->{}{} shuffle {} T {} block {} of {} offset {}", seed_, name_of(op.from),
                                name_of(op.to), op.swap_bytes ? " swapped" : "",
                                static_cast<int>(placement.layout.shuffle), static_cast<int>(placement.layout.typesize),
                                placement.layout.block_bytes, placement.layout.chunk_bytes, placement.src_offset);
    for (std::uint32_t i = 0; i < placement.rank; ++i)
      out += formatted(" [{} {} {}]", placement.axes[i].extent, placement.axes[i].src_stride,
                       placement.axes[i].dst_stride);
    return out;
  }

 private:
  static constexpr int kStored = 17;  // dtypes

  void draw_op() {
    if (wishes_.op) {
      op_ = *wishes_.op;
      return;
    }
    op_.swap_bytes = draw_.one_in(3);
    if (draw_.one_in(4)) {
      op_.from = op_.to = static_cast<Dtype>(draw_.from(0, kStored - 1));
      return;
    }
    constexpr Dtype kCommon[] = {Dtype::u8, Dtype::u16, Dtype::i16, Dtype::f32};
    op_.from = draw_.one_in(2) ? kCommon[draw_.from(0, 3)] : static_cast<Dtype>(draw_.from(0, kBatchDtypes - 1));
    op_.to = static_cast<Dtype>(draw_.one_in(2) ? draw_.from(0, 2) : draw_.from(0, kBatchDtypes - 1));
  }

  void draw_finish() {
    if (!is_batch_dtype(op_.from)) op_.from = op_.to = Dtype::f16;
    finish_ = damacy::testing::random_finish(draw_, op_.from, op_.to);
    op_.finish = &finish_;
  }

  // A box of a chunk in C order, its axes in any order in the destination, whose rows may be longer than the box.
  void draw_shape() {
    rank_ = static_cast<std::size_t>(draw_.from(0, static_cast<std::int64_t>(Placement::kRank)));
    std::int64_t budget = draw_.one_in(20) ? 60'000 : 3'000;
    for (std::size_t i = rank_; i-- > 0;) {
      const std::int64_t most = std::min<std::int64_t>(budget, draw_.one_in(3) ? 70 : 12);
      shape_[i] = draw_.from(1, std::max<std::int64_t>(most, 1));
      if (i + 1 == rank_ && draw_.one_in(4)) shape_[i] = draw_.from(1, std::max<std::int64_t>(budget / 4, 1));
      budget /= shape_[i];
      start_[i] = draw_.from(0, shape_[i] - 1);
      extent_[i] = draw_.one_in(3) ? shape_[i] - start_[i] : draw_.from(1, shape_[i] - start_[i]);
    }
  }

  void draw_layout() {
    const std::size_t size = size_of(op_.from);
    ChunkLayout& layout = placement.layout;
    layout.chunk_bytes = size;
    for (std::size_t i = 0; i < rank_; ++i) layout.chunk_bytes *= static_cast<std::uint64_t>(shape_[i]);
    if (!wishes_.plain_rows && draw_.one_in(4)) layout.chunk_bytes += static_cast<std::uint64_t>(draw_.from(0, 9));
    if (wishes_.plain_rows) layout.chunk_bytes = (layout.chunk_bytes + 8 * size - 1) / (8 * size) * (8 * size);
    layout.shuffle = static_cast<ChunkLayout::Shuffle>(draw_.from(0, 2));
    if (wishes_.shuffle) layout.shuffle = *wishes_.shuffle;
    if (layout.shuffle == ChunkLayout::Shuffle::none) return;
    const bool odd = !wishes_.plain_rows && draw_.one_in(4);
    layout.typesize = static_cast<std::uint8_t>(odd ? draw_.from(1, 20) : static_cast<std::int64_t>(size));
    const std::int64_t unit = draw_.one_in(4) && !wishes_.plain_rows ? layout.typesize : 8 * layout.typesize;
    layout.block_bytes =
        static_cast<std::uint32_t>(draw_.one_in(3) ? draw_.from(1, 4) * unit : draw_.from(1, 60) * unit);
    if (draw_.one_in(3)) layout.block_bytes = static_cast<std::uint32_t>(layout.chunk_bytes);
    if (odd && draw_.one_in(3)) layout.block_bytes = static_cast<std::uint32_t>(draw_.from(40, 4000));
  }

  void fill_chunk() {
    const auto skew = draw_.one_in(3) ? draw_.from(0, 15) : draw_.from(0, 3) * 16;
    chunk_.resize(placement.layout.chunk_bytes + static_cast<std::size_t>(skew));
    for (std::byte& b : chunk_)
      b = draw_.one_in(8) ? std::byte{static_cast<unsigned char>(draw_.from(0, 1) * 0xff)} : draw_.byte();
    if (op_.from == Dtype::boolean)
      for (std::byte& b : chunk_) b &= std::byte{3};
  }

  void place() {
    BlockCopy copy;
    copy.op = op_;
    copy.rank = static_cast<std::uint32_t>(rank_);
    std::int64_t src_stride = static_cast<std::int64_t>(size_of(op_.from));
    for (std::size_t i = rank_; i-- > 0; src_stride *= shape_[i]) {
      copy.axes[i] = {extent_[i], src_stride, 0};
      copy.src_offset += start_[i] * src_stride;
      if (wishes_.plain_rows) continue;
      if (draw_.one_in(12)) turn(copy, copy.axes[i]);
      if (draw_.one_in(12)) copy.axes[i].src_stride = 0;
    }
    const bool fills = !wishes_.plain_rows && draw_.one_in(12);
    if (fills)
      for (CopyAxis& axis : copy.used()) axis.src_stride = 0;
    if (!wishes_.plain_rows && draw_.one_in(4)) shuffle_axes(copy);
    std::int64_t dst_stride = static_cast<std::int64_t>(size_of(op_.to));
    for (std::size_t i = rank_; i-- > 0;) {
      copy.axes[i].dst_stride = dst_stride;
      dst_stride *= copy.axes[i].extent + (draw_.one_in(2) ? draw_.from(0, 5) : 0);
      if (draw_.one_in(3)) dst_stride = (dst_stride + 31) / 32 * 32;
    }
    normalise(copy);
    take(copy, static_cast<std::size_t>(dst_stride));
  }

  static void turn(BlockCopy& copy, CopyAxis& axis) {
    copy.src_offset += (axis.extent - 1) * axis.src_stride;
    axis.src_stride = -axis.src_stride;
  }

  void shuffle_axes(BlockCopy& copy) {
    for (std::size_t i = rank_; i > 1; --i)
      std::swap(copy.axes[i - 1], copy.axes[static_cast<std::size_t>(draw_.from(0, static_cast<std::int64_t>(i) - 1))]);
  }

  void take(const BlockCopy& copy, std::size_t dst_bytes) {
    const std::size_t to = size_of(op_.to);
    std::size_t skew = static_cast<std::size_t>(draw_.from(0, 7)) * to;
    if (!wishes_.plain_rows && draw_.one_in(20)) skew += static_cast<std::size_t>(draw_.from(0, 7));
    destination_.assign(dst_bytes + skew + 2 * kGuardBytes, kGuard);
    placement.src = reinterpret_cast<std::uint64_t>(chunk().data());
    placement.dst = reinterpret_cast<std::uint64_t>(destination_.data()) + kGuardBytes + skew;
    placement.src_offset = copy.src_offset;
    placement.rank = copy.rank;
    placement.op = op_;
    std::copy_n(copy.axes.begin(), copy.rank, placement.axes);
  }

  std::uint64_t seed_;
  Draw draw_;
  Wishes wishes_;
  CopyOp op_;
  Finish finish_;
  std::size_t rank_ = 0;
  std::int64_t shape_[Placement::kRank] = {}, start_[Placement::kRank] = {}, extent_[Placement::kRank] = {};
  Bytes chunk_;
  mutable Bytes destination_;
};

}  // namespace damacy::copy_cuda::testing
