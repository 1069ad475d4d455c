// Compiling: check, bring each copy into its shortest form, order its loops, and cut it into tiles.
#include "damacy/copy/copy_plan.h"

#include <algorithm>
#include <cstdlib>

#include "damacy/copy/detail/overlap.h"
#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::copy {
namespace {

// Tiles are small enough to occupy a large device, and large enough that a small device does not spend its time on
// reading tile records.
constexpr std::int64_t kLeastTileBytes = 4096;
constexpr std::int64_t kMostTileBytes = 32768;
constexpr std::int64_t kWantedTiles = 512;
constexpr std::int64_t kTinyBytes = 1024;
constexpr std::int64_t kTransposeSide = 64;         // elements of a transposed tile along the source's rows
constexpr std::int64_t kLongestStride = INT32_MAX;  // bytes, within a tile: devices count in 32 bits there
constexpr std::uint32_t kMostMergedAxes = 6;
constexpr std::int64_t kMostUnrolled = 1 << 20;
constexpr std::int64_t kMostTiles = INT32_MAX;

bool is_signed(Dtype type) {
  switch (type) {
    case Dtype::u8:
    case Dtype::u16:
    case Dtype::u32:
    case Dtype::u64:
    case Dtype::boolean:
    case Dtype::datetime64:
      return false;
    default:
      return true;
  }
}

void check_slot(const Slot& slot, std::size_t index) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Status::inval, formatted("slot {}: {}", index, why), "bounds");
  };
  if (slot.shape.size() > kMaxRank || slot.shape.size() != slot.strides.size())
    refuse(formatted("the shape has rank {} and there are {} strides", slot.shape.size(), slot.strides.size()));
  for (const auto extent : slot.shape)
    if (extent < 0) refuse(formatted("extent {} is negative", extent));
}

void check_box(std::span<const Slot> slots, std::span<const detail::Reach> reaches, const Copy& copy,
               const SlotBox& box, std::string_view side) {
  if (box.slot >= slots.size())
    throw Error(Status::inval, formatted("{} slot {} does not exist: there are {}", side, box.slot, slots.size()),
                "bounds");
  if (box.strides.size() != copy.extents.size() || copy.extents.size() > kMaxRank)
    throw Error(
        Status::inval,
        formatted("{} rank {} differs from the {} extents of the copy", side, box.strides.size(), copy.extents.size()),
        "bounds");
  for (const auto extent : copy.extents)
    if (extent < 0) throw Error(Status::inval, formatted("extent {} is negative", extent), "bounds");
  if (std::ranges::find(copy.extents, 0) != copy.extents.end()) return;
  const auto reach = detail::reach_of(box.offset, copy.extents, box.strides, size_of(slots[box.slot].dtype));
  const auto& whole = reaches[box.slot];
  if (reach.begin < whole.begin || reach.end > whole.end)
    throw Error(Status::inval,
                formatted("{} bytes {} to {} are outside of its slot, which has {} to {}", side, reach.begin, reach.end,
                          whole.begin, whole.end),
                "bounds");
}

void check_operation(const Copy& copy, Dtype from, Dtype to) {
  if (from != to && !has_conversion(from, to))
    throw Error(Status::dtype, formatted("no conversion from {} to {}", name_of(from), name_of(to)), "dtype");
  if (copy.op.negate && !is_signed(to)) throw Error(Status::dtype, formatted("cannot negate {}", name_of(to)), "dtype");
  if (copy.op.add && (to == Dtype::boolean || to == Dtype::datetime64))
    throw Error(Status::dtype, formatted("cannot add {}", name_of(to)), "dtype");
}

void check_copies(std::span<const Slot> slots, std::span<const Copy> copies) {
  std::vector<detail::Reach> reaches;
  reaches.reserve(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    check_slot(slots[i], i);
    reaches.push_back(detail::reach_of(0, slots[i].shape, slots[i].strides, size_of(slots[i].dtype)));
  }
  for (std::size_t i = 0; i < copies.size(); ++i) try {
      const Copy& copy = copies[i];
      check_box(slots, reaches, copy, copy.src, "source");
      check_box(slots, reaches, copy, copy.dst, "destination");
      if (!slots[copy.dst.slot].writable) throw Error(Status::inval, "the destination is read-only", "read-only");
      check_operation(copy, slots[copy.src.slot].dtype, slots[copy.dst.slot].dtype);
    } catch (const Error& error) {
      throw Error(error.status(), formatted("copy {}: {}", i, error.message()), error.where().reason);
    }
}

BlockCopy block_of(std::span<const Slot> slots, const Copy& copy) {
  BlockCopy block;
  block.src_offset = copy.src.offset;
  block.dst_offset = copy.dst.offset;
  block.op = {slots[copy.src.slot].dtype, slots[copy.dst.slot].dtype, false};
  block.rank = static_cast<std::uint32_t>(copy.extents.size());
  for (std::uint32_t axis = 0; axis < block.rank; ++axis)
    block.axes[axis] = {copy.extents[axis], copy.src.strides[axis], copy.dst.strides[axis]};
  normalise(block);
  return block;
}

// The innermost axis is contiguous in the destination, else in the source, else it has the smallest stride (as already
// ordered).
void order_loops(BlockCopy& block) {
  if (block.rank < 2) return;
  const auto to = static_cast<std::int64_t>(size_of(block.op.to));
  const auto from = static_cast<std::int64_t>(size_of(block.op.from));
  auto axes = block.used();
  const auto contiguous = std::ranges::find_if(axes, [&](const CopyAxis& a) { return std::abs(a.src_stride) == from; });
  if (contiguous == axes.end()) return;
  // A transpose has both at the end: the source's rows, then the destination's.
  const std::size_t place = axes.back().dst_stride == to && contiguous != axes.end() - 1 ? 2 : 1;
  std::rotate(contiguous, contiguous + 1, axes.end() - static_cast<std::ptrdiff_t>(place) + 1);
}

Path classify(const Piece& piece) {
  const CopyAxis& inner = piece.axes[3];
  const auto to = static_cast<std::int64_t>(size_of(piece.to));
  const auto from = static_cast<std::int64_t>(size_of(piece.from));
  if (piece.elements() * to < kTinyBytes) return Path::tiny;
  if (inner.dst_stride == to && inner.src_stride == from) return Path::rows;
  if (inner.dst_stride == to && piece.axes[2].extent > 1 && std::abs(piece.axes[2].src_stride) == from)
    return Path::transpose;
  return Path::strided;
}

void cut(Piece& piece, std::int64_t tile_bytes) {
  const auto bytes = static_cast<std::int64_t>(std::max(size_of(piece.from), size_of(piece.to)));
  std::int64_t room = tile_bytes / bytes;
  const auto take = [&](std::uint32_t axis, std::int64_t most) {
    const CopyAxis& whole = piece.axes[axis];
    const std::int64_t longest = std::max(std::abs(whole.src_stride), std::abs(whole.dst_stride));
    if (longest > kLongestStride) most = 1;
    piece.tile[axis] = std::clamp<std::int64_t>(std::min(room, most), 1, whole.extent);
    room /= piece.tile[axis];
  };
  if (piece.path == Path::transpose) take(2, kTransposeSide);
  take(3, INT64_MAX);
  if (piece.path != Path::transpose) take(2, INT64_MAX);
  take(1, INT64_MAX);
  take(0, INT64_MAX);
  std::int64_t tiles = 1;
  for (std::uint32_t axis = 0; axis < Piece::kAxes; ++axis) {
    const std::int64_t count = ceil_div(piece.axes[axis].extent, piece.tile[axis]);
    tiles = count > kMostTiles / tiles ? kMostTiles + 1 : tiles * count;
    if (tiles > kMostTiles) throw Error(Status::inval, formatted("copy {} is too large", piece.copy), "bounds");
    piece.tile_counts[axis] = static_cast<std::uint32_t>(count);
  }
}

// Every position of the axes before the last four becomes a separate piece.
void add_pieces(const Copy& copy, std::uint32_t index, const BlockCopy& block, std::int64_t tile_bytes, Phase& phase) {
  Piece piece;
  piece.src_slot = copy.src.slot;
  piece.dst_slot = copy.dst.slot;
  piece.copy = index;
  piece.from = block.op.from;
  piece.to = block.op.to;
  piece.negate = copy.op.negate;
  piece.add = copy.op.add;
  const std::uint32_t outer = block.rank > Piece::kAxes ? block.rank - Piece::kAxes : 0;
  for (std::uint32_t i = 0; i < block.rank - outer; ++i)
    piece.axes[Piece::kAxes - (block.rank - outer) + i] = block.axes[outer + i];
  piece.path = classify(piece);
  cut(piece, tile_bytes);

  std::int64_t count = 1;
  for (std::uint32_t i = 0; i < outer; ++i) count = std::min(count * block.axes[i].extent, kMostUnrolled + 1);
  if (count > kMostUnrolled) throw Error(Status::inval, formatted("copy {} has too many outer rows", index), "bounds");
  for (std::int64_t n = 0; n < count; ++n) {
    piece.src_offset = block.src_offset;
    piece.dst_offset = block.dst_offset;
    for (std::int64_t rest = n, i = static_cast<std::int64_t>(outer) - 1; i >= 0; --i) {
      const CopyAxis& axis = block.axes[static_cast<std::size_t>(i)];
      piece.src_offset += rest % axis.extent * axis.src_stride;
      piece.dst_offset += rest % axis.extent * axis.dst_stride;
      rest /= axis.extent;
    }
    piece.first_tile = phase.tiles;
    const auto tiles = static_cast<std::int64_t>(phase.tiles) + piece.tiles();
    if (tiles > kMostTiles) throw Error(Status::inval, "the copies are too large together", "bounds");
    phase.tiles = static_cast<std::uint32_t>(tiles);
    phase.pieces.push_back(piece);
  }
}

// The long axes stay loops.
void move_short_axes_out(BlockCopy& block) {
  if (block.rank <= Piece::kAxes) return;
  const auto axes = block.used();
  std::stable_sort(axes.begin(), axes.end() - 2,
                   [](const CopyAxis& a, const CopyAxis& b) { return a.extent < b.extent; });
}

std::vector<std::uint32_t> phases_of(std::size_t copies, std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs) {
  std::vector<std::uint32_t> phase(copies, 0);
  std::ranges::sort(pairs, {}, [](const auto& pair) { return std::pair(pair.second, pair.first); });
  for (const auto& [earlier, later] : pairs) phase[later] = std::max(phase[later], phase[earlier] + 1);
  return phase;
}

std::int64_t tile_bytes_of(std::span<const Slot> slots, std::span<const Copy> copies) {
  std::int64_t total = 0;
  for (const Copy& copy : copies) {
    const auto count = product(copy.extents.span());
    total += std::min(count.value_or(INT32_MAX), std::int64_t{INT32_MAX}) *
             static_cast<std::int64_t>(size_of(slots[copy.dst.slot].dtype));
  }
  const auto wanted =
      static_cast<std::int64_t>(round_up(static_cast<std::uint64_t>(total / kWantedTiles), std::uint64_t{4096}));
  return std::clamp(wanted, kLeastTileBytes, kMostTileBytes);
}

class Hasher {
 public:
  void add(std::uint64_t value) noexcept {
    state_ = (state_ ^ value) * 0x9e3779b97f4a7c15u;
    state_ ^= state_ >> 29;
  }
  void add(const Dims& dims) noexcept {
    add(dims.size());
    for (const auto v : dims) add(static_cast<std::uint64_t>(v));
  }
  std::size_t value() const noexcept { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

std::size_t hash_of(std::span<const Slot> slots, std::span<const Copy> copies) {
  Hasher hash;
  for (const Slot& slot : slots) {
    hash.add(static_cast<std::uint64_t>(slot.dtype) << 1 | static_cast<std::uint64_t>(slot.writable));
    hash.add(slot.shape);
    hash.add(slot.strides);
  }
  for (const Copy& copy : copies) {
    for (const SlotBox* box : {&copy.src, &copy.dst}) {
      hash.add(box->slot);
      hash.add(static_cast<std::uint64_t>(box->offset));
      hash.add(box->strides);
    }
    hash.add(copy.extents);
    hash.add(static_cast<std::uint64_t>(copy.op.negate) << 1 | static_cast<std::uint64_t>(copy.op.add));
  }
  return hash.value();
}

std::string_view name_of_path(Path path) {
  constexpr std::string_view kNames[] = {"rows", "strided", "transpose", "tiny"};
  return kNames[static_cast<int>(path)];
}

}  // namespace

Plan::Plan(std::vector<Slot> slots, std::vector<Copy> copies, std::vector<Phase> phases)
    : slots_(std::move(slots)),
      copies_(std::move(copies)),
      phases_(std::move(phases)),
      hash_(hash_of(slots_, copies_)) {
  for (const Phase& phase : phases_)
    for (const Piece& piece : phase.pieces) bytes_ += static_cast<std::uint64_t>(piece.elements()) * size_of(piece.to);
}

std::string Plan::describe() const {
  std::string out;
  for (std::size_t i = 0; i < phases_.size(); ++i)
    for (const Piece& piece : phases_[i].pieces) {
      const auto bytes = static_cast<std::uint64_t>(piece.elements()) * size_of(piece.to);
      out += formatted("copy {}: slot {} -> slot {}, {} bytes, {}, {} tiles{}{}{}\n", piece.copy, piece.src_slot,
                       piece.dst_slot, bytes, name_of_path(piece.path), piece.tiles(), piece.negate ? ", negated" : "",
                       piece.add ? ", added" : "", phases_.size() > 1 ? formatted(", phase {}", i) : "");
    }
  return out;
}

std::shared_ptr<const Plan> compile(std::vector<Slot> slots, std::vector<Copy> copies) {
  check_copies(slots, copies);
  const auto phase_of = phases_of(copies.size(), detail::find_overlaps(slots, copies, {}));
  std::vector<Phase> phases(copies.empty() ? 0 : *std::ranges::max_element(phase_of) + 1);
  for (Phase& phase : phases) phase.pieces.reserve(copies.size());
  const std::int64_t tile_bytes = tile_bytes_of(slots, copies);
  for (std::uint32_t i = 0; i < copies.size(); ++i) {
    BlockCopy block = block_of(slots, copies[i]);
    if (block.rank > 0 && block.axes[0].extent == 0) continue;
    if (block.rank > kMostMergedAxes)
      throw Error(Status::inval,
                  formatted("copy {}: {} axes are left after merging; at most {}", i, block.rank, kMostMergedAxes),
                  "rank");
    order_loops(block);
    move_short_axes_out(block);
    add_pieces(copies[i], i, block, tile_bytes, phases[phase_of[i]]);
  }
  std::erase_if(phases, [](const Phase& phase) { return phase.pieces.empty(); });
  return std::make_shared<const Plan>(std::move(slots), std::move(copies), std::move(phases));
}

void check_overlaps(const Plan& plan, std::span<const std::uint64_t> bases) {
  if (bases.size() != plan.slots().size())
    throw Error(Status::inval, formatted("got {} base addresses for {} slots", bases.size(), plan.slots().size()),
                "arguments");
  detail::find_overlaps(plan.slots(), plan.copies(), bases);
}

}  // namespace damacy::copy
