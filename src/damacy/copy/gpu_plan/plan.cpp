#include "damacy/copy/gpu_plan/plan.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <unordered_set>

namespace damacy::copy_cuda {

Divisor divisor(u64 number) noexcept {
  const u32 shift = static_cast<u32>(std::bit_width(number - 1));
  return {static_cast<u32>(((u64{1} << (31 + shift)) + number - 1) / number), shift};
}

namespace {

using Shuffle = ChunkLayout::Shuffle;

constexpr u64 kFew = u64{1} << 30;  // what kernels with 32-bit numbers count to, with room for a tile more

bool is_move(const CopyOp& op) noexcept {
  return op.from == op.to && op.from != Dtype::boolean;
}

// The place in a list of kernels of the one that does `op`.
template <class List>
u32 find_op(const CopyOp& op) noexcept {
  CopyOp wanted{op.from, op.to, false};
  if (is_move(op)) {
    constexpr Dtype kOfSize[] = {Dtype::u8, Dtype::u16, Dtype::u32, Dtype::u64};
    const std::size_t size = size_of(op.from);
    if (size > 8) return List::kCount;
    wanted.from = wanted.to = kOfSize[std::bit_width(size) - 1];
  }
  return static_cast<u32>(std::find(std::begin(List::kOps), std::end(List::kOps), wanted) - std::begin(List::kOps));
}

// The innermost axis makes the rows if its elements lie side by side in the destination; else each element is a row.
void set_axes(const Placement& placement, Record& record) noexcept {
  u32 rank = placement.rank;
  record.row_elements = 1;
  record.src_step = record.from_bytes;
  if (rank > 0 && placement.axes[rank - 1].dst_stride == record.to_bytes) {
    const CopyAxis& row = placement.axes[--rank];
    record.row_elements = static_cast<u64>(row.extent);
    if (row.extent > 1) record.src_step = row.src_stride;
  }
  record.outer_axes = static_cast<u8>(rank);
  for (u32 i = 0; i < rank; ++i) {
    const CopyAxis& axis = placement.axes[rank - 1 - i];
    record.axes[i] = {axis.src_stride, axis.dst_stride, static_cast<u64>(axis.extent), {}};
  }
}

void set_layout(const Placement& placement, Record& record) noexcept {
  const ChunkLayout& layout = placement.layout;
  record.chunk = placement.src;
  record.chunk_bytes = layout.chunk_bytes;
  record.src_offset = placement.src_offset;
  record.shuffle = static_cast<u8>(layout.shuffle);
  record.typesize = std::max<u8>(layout.typesize, 1);
  if (layout.shuffle == Shuffle::bytes && record.typesize == 1) record.shuffle = static_cast<u8>(Shuffle::none);
  record.block_bytes = static_cast<u32>(std::max<u64>(std::min<u64>(layout.block_bytes, layout.chunk_bytes), 1));
}

void set_reach(Record& record) noexcept {
  record.reach_begin = record.chunk + static_cast<u64>(record.src_offset);
  record.reach_end = record.reach_begin + record.from_bytes;
  const auto extend = [&](u64 extent, i64 stride) {
    const u64 length = (extent - 1) * static_cast<u64>(stride);
    (stride < 0 ? record.reach_begin : record.reach_end) += length;
  };
  extend(record.row_elements, record.src_step);
  for (u32 i = 0; i < record.outer_axes; ++i) extend(record.axes[i].extent, record.axes[i].src_stride);
}

u64 rows_of(const Record& record) noexcept {
  u64 rows = 1;
  for (u32 i = 0; i < record.outer_axes; ++i) rows *= record.axes[i].extent;
  return rows;
}

bool fits(i64 stride) noexcept {
  return stride == static_cast<i32>(stride);
}

// All bits that say where elements of a side lie: what divides this divides each address.
template <auto kStride>
u64 places(const Record& record, u64 first) noexcept {
  for (u32 i = 0; i < record.outer_axes; ++i) first |= static_cast<u64>(record.axes[i].*kStride);
  return first;
}

// Vectors that cover any row, at the alignments that occur.
u64 vectors_of_row(const Record& record) noexcept {
  u64 count = record.to_bytes == 8 ? 4 : 16 / record.to_bytes;
  if (record.shuffle == static_cast<u8>(Shuffle::bits)) count = std::max<u64>(count, 8);
  const u64 bytes = count * record.to_bytes;
  u64 steps = 0;
  for (u32 i = 0; i < record.outer_axes; ++i) steps |= static_cast<u64>(record.axes[i].dst_stride);
  const u64 before = steps % bytes == 0 ? record.dst % bytes / record.to_bytes : count - 1;
  return (before + record.row_elements + count - 1) / count;
}

bool goes_by_vectors(const Record& record, u64 rows) noexcept {
  if (record.row_elements > kFew || rows > kFew || vectors_of_row(record) * rows > kFew) return false;
  if (places<&RecordAxis::dst_stride>(record, record.dst) % record.to_bytes != 0) return false;
  for (u32 i = 0; i < record.outer_axes; ++i) {
    const RecordAxis& axis = record.axes[i];
    if (axis.extent > kFew || !fits(axis.src_stride) || !fits(axis.dst_stride)) return false;
  }
  return true;
}

// Whether the shuffle's elements are the placement's, whole blocks of them.
bool shuffles_elements(const Record& record) noexcept {
  const u64 size = record.from_bytes;
  if (record.typesize != size || record.src_step != static_cast<i64>(size) || record.chunk_bytes > kFew) return false;
  const u64 of_bits = record.shuffle == static_cast<u8>(Shuffle::bits) ? 8 : 1;
  if (record.block_bytes % (size * of_bits) != 0 || record.chunk_bytes % (size * of_bits) != 0) return false;
  return places<&RecordAxis::src_stride>(record, static_cast<u64>(record.src_offset)) % size == 0;
}

u32 vector_kernel(const CopyOp& op, const Record& record, u64 rows) noexcept {
  if (!goes_by_vectors(record, rows)) return kElements;
  if (record.shuffle == static_cast<u8>(Shuffle::none)) {
    const u32 found = find_op<RowOps>(op);
    const bool has = found < RowOps::kCount && (record.src_step == 0 || record.src_step == record.from_bytes);
    return has ? kFirstRows + found : kElements;
  }
  if (!shuffles_elements(record)) return kElements;
  if (record.shuffle == static_cast<u8>(Shuffle::bytes)) {
    const u32 found = find_op<ShuffledOps>(op);
    return found < ShuffledOps::kCount ? kFirstShuffled + found : kElements;
  }
  const u32 found = find_op<BitShuffledOps>(op);
  return found < BitShuffledOps::kCount ? kFirstBitShuffled + found : kElements;
}

// Consecutive rows should use the same cache lines of the source.
void sort_by_source(Record& record) noexcept {
  std::stable_sort(record.axes, record.axes + record.outer_axes, [](const RecordAxis& a, const RecordAxis& b) {
    return std::abs(a.src_stride) < std::abs(b.src_stride);
  });
}

bool is_huge(const Record& record, u64 rows) noexcept {
  if (record.chunk_bytes > kFew || record.row_elements > kFew || rows > kFew) return true;
  return rows * record.row_elements > kFew;
}

void set_divisors(Record& record) noexcept {
  record.by_slots = divisor(record.slots);
  record.by_block = divisor(std::min<u64>(record.block_bytes, kFew));
  for (u32 i = record.outer_axes; i < kOuterAxes; ++i) record.axes[i] = {0, 0, kFew, {}};
  for (RecordAxis& axis : record.axes) axis.by_extent = divisor(std::min(axis.extent, kFew));
}

// All fields of a record except its divisors, which take the most time.
Planned classify(const Placement& placement) noexcept {
  Planned planned{};
  Record& record = planned.record;
  const CopyOp& op = placement.op;
  record.dst = placement.dst;
  record.from = static_cast<u8>(op.from);
  record.to = static_cast<u8>(op.to);
  record.from_bytes = static_cast<u8>(size_of(op.from));
  record.to_bytes = static_cast<u8>(size_of(op.to));
  record.swap = op.swap_bytes && scalar_size_of(op.from) > 1 ? static_cast<u8>(scalar_size_of(op.from)) : u8{0};
  set_layout(placement, record);
  set_axes(placement, record);
  const u64 rows = rows_of(record);
  if (rows == 0 || record.row_elements == 0) return planned;

  set_reach(record);
  planned.kernel = op.finish != nullptr ? kElements : vector_kernel(op, record, rows);
  const bool by_vectors = planned.kernel != kElements;
  if (!by_vectors && record.src_step != record.from_bytes) sort_by_source(record);
  if (!by_vectors && is_huge(record, rows)) planned.kernel = kHugeElements;
  if (op.finish != nullptr) planned.kernel = planned.kernel == kHugeElements ? kHugeFinished : kFinished;
  const u64 slots = by_vectors ? vectors_of_row(record) : record.row_elements;
  const u64 of_tile = by_vectors ? kTileVectors : kTileElements;
  record.slots = static_cast<u32>(std::min(slots, kFew));
  record.units = rows * slots;
  planned.tiles = (record.units + of_tile - 1) / of_tile;
  return planned;
}

}  // namespace

Planned plan_placement(const Placement& placement) noexcept {
  Planned planned = classify(placement);
  if (planned.tiles > 0) set_divisors(planned.record);
  return planned;
}

std::size_t Plan::image_bytes(std::span<const Placement> placements) {
  std::unordered_set<const Finish*> finishes;
  for (const Placement& placement : placements)
    if (placement.op.finish != nullptr) finishes.insert(placement.op.finish);
  return placements.size() * (sizeof(Record) + (2 + kNearOfRecord) * sizeof(u32)) +
         (finishes.size() + 1) * sizeof(Finish);  // one more, as they are aligned
}

void Plan::add_finish(const Finish* finish) {
  if (number_of_finish_.try_emplace(finish, static_cast<u32>(finishes_.size())).second) finishes_.push_back(finish);
}

Plan::Plan(std::span<const Placement> placements) : placements_(placements) {
  parts_.reserve(placements.size());
  records_ = std::make_unique_for_overwrite<Record[]>(placements.size());
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const Planned planned = classify(placements[i]);
    if (planned.tiles == 0) continue;
    records_[i] = planned.record;
    parts_.push_back({static_cast<u32>(i), planned.kernel, planned.tiles});
    if (placements[i].op.finish != nullptr) add_finish(placements[i].op.finish);
  }
  std::ranges::stable_sort(parts_, {}, &Part::kernel);
  const std::size_t first_tiles = parts_.size() * sizeof(Record);
  std::size_t near = first_tiles + parts_.size() * sizeof(u32);
  for (std::size_t i = 0; i < parts_.size();) {
    Launch launch;
    launch.kernel = parts_[i].kernel;
    launch.records = i * sizeof(Record);
    launch.first_tiles = first_tiles + i * sizeof(u32);
    launch.near = near;
    for (; i < parts_.size() && parts_[i].kernel == launch.kernel; ++i, ++launch.count)
      launch.tiles += static_cast<u32>(parts_[i].tiles);
    while ((launch.tiles - 1) >> launch.shift >= u64{kNearOfRecord} * launch.count) ++launch.shift;
    near += (((launch.tiles - 1) >> launch.shift) + 2) * sizeof(u32);
    launches_.push_back(launch);
  }
  for (Launch& launch : launches_) launch.finishes = (near + alignof(Finish) - 1) / alignof(Finish) * alignof(Finish);
}

void Plan::write(std::span<std::byte> image) const {
  const auto put = [&](std::size_t at, const auto& value) { std::memcpy(image.data() + at, &value, sizeof value); };
  for (const Launch& launch : launches_) {
    const u32 entries = ((launch.tiles - 1) >> launch.shift) + 1;
    u32 tile = 0, entry = 0;
    for (u32 i = 0; i < launch.count; ++i) {
      const Part& part = parts_[launch.records / sizeof(Record) + i];
      const Placement& placement = placements_[part.placement];
      Record record = records_[part.placement];
      set_divisors(record);
      if (placement.op.finish != nullptr) record.finish = number_of_finish_.at(placement.op.finish);
      put(launch.records + i * sizeof(Record), record);
      put(launch.first_tiles + i * sizeof(u32), tile);
      tile += static_cast<u32>(part.tiles);
      for (; entry < entries && entry << launch.shift < tile; ++entry) put(launch.near + entry * sizeof(u32), i);
    }
    put(launch.near + entries * sizeof(u32), launch.count - 1);
  }
  for (std::size_t i = 0; i < finishes_.size(); ++i)
    put(launches_.front().finishes + i * sizeof(Finish), *finishes_[i]);
}

}  // namespace damacy::copy_cuda
