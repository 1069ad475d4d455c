#include "damacy/copy/gpu_plan/tile_record.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "damacy/copy/gpu_plan/plan.h"

namespace damacy::copy_cuda {
namespace {

using copy::Piece;

// Extents and offsets. Strides fit: the plan cuts axes with longer ones into single steps.
void set_box(TileRecord& record, const Piece& piece, u32 tile) {
  record.src_offset = piece.src_offset;
  record.dst_offset = piece.dst_offset;
  for (u32 i = Piece::kAxes; i-- > 0;) {
    const CopyAxis& axis = piece.axes[i];
    const i64 start = static_cast<i64>(tile % piece.tile_counts[i]) * piece.tile[i];
    tile /= piece.tile_counts[i];
    record.extent[i] = static_cast<u32>(std::min(axis.extent - start, piece.tile[i]));
    record.src_stride[i] = record.extent[i] > 1 ? static_cast<i32>(axis.src_stride) : 0;
    record.dst_stride[i] = record.extent[i] > 1 ? static_cast<i32>(axis.dst_stride) : 0;
    record.src_offset += start * axis.src_stride;
    record.dst_offset += start * axis.dst_stride;
  }
}

void exchange_inner_axes(TileRecord& record) {
  std::swap(record.extent[2], record.extent[3]);
  std::swap(record.src_stride[2], record.src_stride[3]);
  std::swap(record.dst_stride[2], record.dst_stride[3]);
}

// If both sides are contiguous along different axes, and one of these is short, neighbouring threads take the short
// axis first. They then use few cache lines on either side.
Lie set_lie(TileRecord& record) {
  const i32 from = record.from_bytes, to = record.to_bytes;
  const bool dst_runs = record.extent[3] == 1 || record.dst_stride[3] == to;
  if (dst_runs && (record.extent[3] == 1 || record.src_stride[3] == from)) return Lie::runs;
  if (!dst_runs || std::abs(record.src_stride[2]) != from) return Lie::apart;
  if (from == to && to <= 8 && std::min(record.extent[2], record.extent[3]) >= kTransposeLeast) return Lie::turned;
  if (record.extent[2] < record.extent[3]) exchange_inner_axes(record);
  return Lie::apart;
}

void set_bits(TileRecord& record) {
  u64 src = static_cast<u64>(record.src_offset), dst = static_cast<u64>(record.dst_offset);
  for (u32 i = 0; i < Piece::kAxes - (record.lie == Lie::runs ? 1 : 0); ++i) {
    src |= static_cast<u64>(record.src_stride[i]);
    dst |= static_cast<u64>(record.dst_stride[i]);
  }
  record.src_bits = src & 15;
  record.dst_bits = dst & 15;
}

TileRecord record_of(const Piece& piece, u32 tile) {
  TileRecord record{};
  record.src_slot = piece.src_slot;
  record.dst_slot = piece.dst_slot;
  record.from = piece.from;
  record.to = piece.to;
  record.from_bytes = static_cast<u8>(size_of(piece.from));
  record.to_bytes = static_cast<u8>(size_of(piece.to));
  record.negate = piece.negate;
  record.add = piece.add;
  set_box(record, piece, tile);
  record.lie = set_lie(record);
  set_bits(record);
  record.rows = record.extent[0] * record.extent[1] * record.extent[2];
  for (u32 i = 1; i < Piece::kAxes; ++i) record.by[i - 1] = divisor(record.extent[i]);
  const u64 row_bytes = u64{record.extent[3]} * record.to_bytes;
  record.by_8 = divisor(std::max<u64>(row_bytes / 8, 1));
  record.by_16 = divisor(std::max<u64>(row_bytes / 16, 1));
  return record;
}

}  // namespace

std::vector<TileRecord> tile_records(const copy::Phase& phase) {
  std::vector<TileRecord> records;
  records.reserve(phase.tiles);
  for (const Piece& piece : phase.pieces)
    for (u32 tile = 0; tile < piece.tiles(); ++tile) records.push_back(record_of(piece, tile));
  return records;
}

}  // namespace damacy::copy_cuda
