// Runs plans on cores: the same tiles as on a device, each as a block copy followed by the element operations.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "damacy/copy/copy_plan.h"
#include "damacy/copy/detail/execute.h"
#include "damacy/copy/detail/float_mode.h"
#include "damacy/copy/detail/narrow.h"
#include "damacy/copy/element_ops.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/thread.h"

namespace damacy::copy {
namespace {

constexpr std::uint64_t kAloneBytes = 1 << 20;       // below this the caller works alone
constexpr std::uint64_t kStreamedBytes = 32u << 20;  // written by one run: what no cache keeps until it is read
constexpr std::size_t kScratchBytes = 32768;         // of a tile at most

using copy_detail::Place;
using Addresses = std::span<const std::uint64_t>;

struct SubBox {
  std::int64_t src_offset;
  std::int64_t dst_offset;
  std::int64_t extents[Piece::kAxes];
};

SubBox sub_box(const Piece& piece, std::uint32_t tile) {
  SubBox box{piece.src_offset, piece.dst_offset, {}};
  for (int axis = Piece::kAxes - 1; axis >= 0; --axis) {
    const std::int64_t start = tile % piece.tile_counts[axis] * piece.tile[axis];
    tile /= piece.tile_counts[axis];
    box.extents[axis] = std::min(piece.tile[axis], piece.axes[axis].extent - start);
    box.src_offset += start * piece.axes[axis].src_stride;
    box.dst_offset += start * piece.axes[axis].dst_stride;
  }
  return box;
}

Place base_of(const Piece& piece, Addresses bases) {
  return {reinterpret_cast<const std::byte*>(bases[piece.src_slot]),
          reinterpret_cast<std::byte*>(bases[piece.dst_slot])};
}

// A tile, and where it begins in memory on the side that lies further apart.
struct PlacedTile {
  std::uint64_t address;
  std::uint32_t piece;
  std::uint32_t tile;
};

Place begin_of(const Phase& phase, const PlacedTile& tile, Addresses bases) {
  const Piece& piece = phase.pieces[tile.piece];
  const SubBox box = sub_box(piece, tile.tile);
  const Place base = base_of(piece, bases);
  return {base.src + box.src_offset, base.dst + box.dst_offset};
}

// If nothing is converted: types of the same size, so that bits are copied.
CopyOp move_or_cast(const Piece& piece) {
  if (piece.from != piece.to) return {piece.from, piece.to, false};
  constexpr Dtype kOfSize[] = {Dtype::u8, Dtype::u16, Dtype::u32, Dtype::u64, Dtype::complex128};
  const Dtype type = kOfSize[std::bit_width(size_of(piece.to)) - 1];
  return {type, type, false};
}

BlockCopy block_of(const Piece& piece, const SubBox& box) {
  BlockCopy block;
  block.src_offset = box.src_offset;
  block.dst_offset = box.dst_offset;
  block.op = move_or_cast(piece);
  for (std::uint32_t axis = 0; axis < Piece::kAxes; ++axis)
    if (box.extents[axis] > 1)
      block.axes[block.rank++] = {box.extents[axis], piece.axes[axis].src_stride, piece.axes[axis].dst_stride};
  return block;
}

// Elements of a row that is `stride` apart; `more` (dense) is added if there is any.
template <class T>
void apply_row(std::byte* row, std::int64_t stride, std::int64_t count, const std::byte* more, bool negate) {
  const auto work = [&](std::int64_t step) {
    for (std::int64_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, more != nullptr ? more + i * static_cast<std::int64_t>(sizeof(T)) : row + i * step,
                  sizeof value);
      if (negate) value = negated(value);
      if (more != nullptr) {
        T before;
        std::memcpy(&before, row + i * step, sizeof before);
        value = sum(before, value);
      }
      std::memcpy(row + i * step, &value, sizeof value);
    }
  };
  if (stride == sizeof(T))
    work(sizeof(T));
  else
    work(stride);
}

void apply_box(const Piece& piece, const SubBox& box, std::byte* dst, const std::byte* more) {
  with_type(piece.to, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t a = 0; a < box.extents[0]; ++a)
      for (std::int64_t b = 0; b < box.extents[1]; ++b)
        for (std::int64_t c = 0; c < box.extents[2]; ++c) {
          std::byte* row = dst + box.dst_offset + a * piece.axes[0].dst_stride + b * piece.axes[1].dst_stride +
                           c * piece.axes[2].dst_stride;
          apply_row<T>(row, piece.axes[3].dst_stride, box.extents[3], more, piece.negate);
          if (more != nullptr) more += box.extents[3] * static_cast<std::int64_t>(sizeof(T));
        }
  });
}

void run_added(const Piece& piece, const SubBox& box, const std::byte* src, std::byte* dst) {
  thread_local std::vector<std::byte> scratch(kScratchBytes);
  BlockCopy block = block_of(piece, box);
  block.dst_offset = 0;
  auto stride = static_cast<std::int64_t>(size_of(piece.to));
  for (std::uint32_t i = block.rank; i > 0; --i) {
    block.axes[i - 1].dst_stride = stride;
    stride *= block.axes[i - 1].extent;
  }
  copy_detail::execute(block, src, scratch.data(), {copy_detail::best_isa(), false});
  apply_box(piece, box, dst, scratch.data());
}

// `then` is the tile that comes next.
void run_tile(const Phase& phase, const PlacedTile& tile, const PlacedTile& then, Addresses bases, bool stream) {
  const Piece& piece = phase.pieces[tile.piece];
  const SubBox box = sub_box(piece, tile.tile);
  const Place base = base_of(piece, bases);
  if (piece.add) return run_added(piece, box, base.src, base.dst);
  const BlockCopy block = block_of(piece, box);
  const Place next = begin_of(phase, then, bases);
  if (!copy_detail::move_narrow(block, base, next) && (stream || !copy_detail::move_rows_ahead(block, base, next)))
    copy_detail::execute(block, base.src, base.dst, {copy_detail::best_isa(), stream && !piece.negate});
  if (piece.negate) apply_box(piece, box, base.dst, nullptr);
}

std::int64_t reach(const Piece& piece, std::int64_t CopyAxis::* stride) {
  std::int64_t bytes = 0;
  for (const CopyAxis& axis : piece.axes) bytes += (axis.extent - 1) * std::abs(axis.*stride);
  return bytes;
}

// Whether contiguous runs are shorter than a cache line, so that most of a fetched line belongs to other tiles.
bool is_scattered(const Piece& piece) {
  const auto size = static_cast<std::int64_t>(std::min(size_of(piece.from), size_of(piece.to)));
  const bool src = reach(piece, &CopyAxis::src_stride) >= reach(piece, &CopyAxis::dst_stride);
  std::int64_t run = size;
  for (const CopyAxis& axis : piece.axes)
    if (std::abs(src ? axis.src_stride : axis.dst_stride) == size) run = std::max(run, axis.extent * size);
  return run < 64;
}

PlacedTile placed(const Phase& phase, std::uint32_t index, std::uint32_t tile, Addresses bases) {
  const Piece& piece = phase.pieces[index];
  const bool src = reach(piece, &CopyAxis::src_stride) >= reach(piece, &CopyAxis::dst_stride);
  const SubBox box = sub_box(piece, tile);
  auto offset = src ? box.src_offset : box.dst_offset;
  for (std::uint32_t axis = 0; axis < Piece::kAxes; ++axis) {
    const std::int64_t stride = src ? piece.axes[axis].src_stride : piece.axes[axis].dst_stride;
    if (stride < 0) offset += (box.extents[axis] - 1) * stride;
  }
  return {bases[src ? piece.src_slot : piece.dst_slot] + static_cast<std::uint64_t>(offset), index, tile};
}

// The order of tiles: as given, or by address if they are scattered, because opposite edges of an array share lines and
// pages.
std::vector<PlacedTile> ordered_tiles(const Phase& phase, Addresses bases, bool large) {
  std::vector<PlacedTile> tiles;
  tiles.reserve(phase.tiles);
  bool scattered = false;
  for (std::uint32_t i = 0; i < phase.pieces.size(); ++i) {
    scattered = scattered || (large && is_scattered(phase.pieces[i]));
    for (std::uint32_t tile = 0; tile < phase.pieces[i].tiles(); ++tile)
      tiles.push_back(scattered ? placed(phase, i, tile, bases) : PlacedTile{0, i, tile});
  }
  if (scattered) std::ranges::stable_sort(tiles, {}, &PlacedTile::address);
  return tiles;
}

// Takes tiles in runs of a few, until none is left.
void run_tiles(const Phase& phase, std::span<const PlacedTile> tiles, Addresses bases, bool stream,
               std::atomic<std::size_t>& next) {
  constexpr std::size_t kRun = 16;
  const copy_detail::FloatsAsStandard floats(true);
  for (std::size_t first; (first = next.fetch_add(kRun)) < tiles.size();)
    for (std::size_t i = first; i < std::min(first + kRun, tiles.size()); ++i)
      run_tile(phase, tiles[i], tiles[std::min(i + 1, tiles.size() - 1)], bases, stream);
}

}  // namespace

void run(const Plan& plan, std::span<const std::uint64_t> bases, unsigned threads) {
  if (bases.size() != plan.slots().size())
    throw Error(Status::inval, formatted("got {} base addresses for {} slots", bases.size(), plan.slots().size()),
                "arguments");
  const bool stream = plan.bytes() >= kStreamedBytes;
  for (const Phase& phase : plan.phases()) {
    const auto tiles = ordered_tiles(phase, bases, plan.bytes() >= kAloneBytes);
    std::atomic<std::size_t> next{0};
    std::vector<Thread> helpers;
    if (plan.bytes() >= kAloneBytes)
      for (unsigned i = 1; i < threads; ++i)
        helpers.push_back(Thread("damacy-copy", [&] { run_tiles(phase, tiles, bases, stream, next); }));
    run_tiles(phase, tiles, bases, stream, next);
  }
}

void enqueue(Stream& stream, int device, std::shared_ptr<const Plan> plan, Bases bases) {
  stream.enqueue({[plan, bases] { run(*plan, *bases); },
                  [plan = std::move(plan), bases = std::move(bases), device](std::uint64_t handle) {
                    return launch_copies(*plan, *bases, device, handle);
                  }});
}

}  // namespace damacy::copy
