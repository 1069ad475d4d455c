// Three ways through a block, one picked for all of it: rows that lie side by side in the source; one value for a row;
// and tiles, where rows have to be gathered first. All hand their rows to Emitter, which puts them where they belong.
#include "damacy/copy/detail/execute.h"

#include <algorithm>
#include <cstdlib>

#include "damacy/copy/detail/stream.h"
#include "damacy/copy/detail/tile.h"

namespace damacy::copy_detail {
namespace {

constexpr std::size_t kScratchBytes = 4096;  // of each of two; both stay in the first cache

// The two axes that kernels walk, and the others around them, outermost first.
struct Layout {
  CopyAxis inner{1, 0, 0};
  CopyAxis row{1, 0, 0};
  std::uint32_t outer_count = 0;
  std::array<CopyAxis, kMaxRank> outer;
};

bool closer(std::int64_t stride, std::int64_t than) {
  return stride != 0 && (than == 0 || std::abs(stride) < std::abs(than));
}

// The innermost axis is the closest in the destination. Where another is closer in the source it makes the rows of a
// tile.
Layout lay_out(const BlockCopy& copy, bool source_rows_are_apart) {
  Layout layout;
  if (copy.rank == 0) return layout;
  const auto axes = copy.used();
  layout.inner = axes.back();
  std::size_t row = axes.size() - 1;  // none
  if (axes.size() > 1) {
    row = axes.size() - 2;
    if (source_rows_are_apart)
      for (std::size_t i = 0; i + 1 < axes.size(); ++i)
        if (closer(axes[i].src_stride, axes[row].src_stride)) row = i;
    layout.row = axes[row];
  }
  for (std::size_t i = 0; i + 1 < axes.size(); ++i)
    if (i != row) layout.outer[layout.outer_count++] = axes[i];
  return layout;
}

// body(dst offset, src offset) for each index of the outer axes.
template <class Body>
void for_each_plane(const Layout& layout, std::int64_t dst, std::int64_t src, const Body& body) {
  std::array<std::int64_t, kMaxRank> at;
  std::fill_n(at.begin(), layout.outer_count, 0);
  while (true) {
    body(dst, src);
    std::size_t i = layout.outer_count;
    for (; i > 0; --i) {
      const CopyAxis& axis = layout.outer[i - 1];
      if (++at[i - 1] < axis.extent) {
        dst += axis.dst_stride;
        src += axis.src_stride;
        break;
      }
      at[i - 1] = 0;
      dst -= (axis.extent - 1) * axis.dst_stride;
      src -= (axis.extent - 1) * axis.src_stride;
    }
    if (i == 0) return;
  }
}

// Rows whose source lies side by side: converted, and stored wherever the destination wants them.
class Emitter {
 public:
  Emitter(const CopyOp& op, const Manner& manner, std::int64_t dst_step)
      : kernel_(row_kernel(op, manner.isa)),
        from_(size_of(op.from)),
        to_(size_of(op.to)),
        dst_step_(dst_step),
        together_(dst_step == static_cast<std::int64_t>(to_)),
        stream_(manner.stream && together_),
        move_(op.from == op.to && op.from != Dtype::boolean && (!op.swap_bytes || to_ == 1)),
        scatter_(together_ ? nullptr : scatter_kernel(to_)) {}

  std::size_t from() const { return from_; }
  std::size_t to() const { return to_; }
  bool stream() const { return stream_; }

  void convert(const Rows& rows) const { kernel_(rows); }

  void emit(const Rows& rows) const {
    if (together_ && !stream_)
      kernel_(rows);
    else if (stream_ && move_)
      stream_rows(rows, rows.count);
    else
      emit_by_way_of_scratch(rows);
  }

 private:
  void stream_rows(const Rows& rows, std::size_t count) const {
    for (std::size_t i = 0; i < rows.rows; ++i)
      stream_bytes(rows.dst + static_cast<std::ptrdiff_t>(i) * rows.dst_pitch,
                   rows.src + static_cast<std::ptrdiff_t>(i) * rows.src_pitch, count * to_);
  }

  void emit_by_way_of_scratch(const Rows& rows) const {
    alignas(kLine) std::byte scratch[kScratchBytes];
    const std::size_t most = kScratchBytes / to_;
    const std::size_t width = std::min(rows.count, most);
    const std::size_t height = std::min(rows.rows, most / width);
    for (std::size_t row = 0; row < rows.rows; row += height)
      for (std::size_t i = 0; i < rows.count; i += width) {
        const std::size_t count = std::min(width, rows.count - i);
        const std::size_t row_count = std::min(height, rows.rows - row);
        const auto pitch = static_cast<std::ptrdiff_t>(count * to_);
        const auto down = static_cast<std::ptrdiff_t>(row);
        kernel_({scratch, rows.src + down * rows.src_pitch + i * from_, count, row_count, pitch, rows.src_pitch});
        std::byte* dst = rows.dst + down * rows.dst_pitch + static_cast<std::ptrdiff_t>(i) * dst_step_;
        if (stream_)
          stream_rows({dst, scratch, count, row_count, rows.dst_pitch, pitch}, count);
        else
          scatter_({dst, scratch, count, row_count, dst_step_, rows.dst_pitch});
      }
  }

  RowKernel kernel_;
  std::size_t from_;
  std::size_t to_;
  std::int64_t dst_step_;
  bool together_;  // a row's elements, in the destination
  bool stream_;
  bool move_;  // the bits stay as they are
  TileKernel scatter_;
};

void run_rows(const Layout& layout, const Emitter& emitter, std::byte* dst, const std::byte* src) {
  emitter.emit({dst, src, static_cast<std::size_t>(layout.inner.extent), static_cast<std::size_t>(layout.row.extent),
                layout.row.dst_stride, layout.row.src_stride});
}

// One value for a row: converted once, repeated in scratch, and copied from there.
class Filler {
 public:
  Filler(const Emitter& emitter, const CopyAxis& inner)
      : emitter_(emitter), row_bytes_(static_cast<std::size_t>(inner.extent) * emitter.to()) {}

  void set_value(const std::byte* src) {
    std::byte value[16];
    emitter_.convert({value, src, 1, 1, 0, 0});
    const std::size_t bytes = std::min(row_bytes_, kScratchBytes);
    std::memcpy(pattern_, value, emitter_.to());
    for (std::size_t done = emitter_.to(); done < bytes; done *= 2)
      std::memcpy(pattern_ + done, pattern_, std::min(done, bytes - done));
  }

  void fill(std::byte* dst) const {
    for (std::size_t at = 0; at < row_bytes_; at += kScratchBytes) {
      const std::size_t bytes = std::min(kScratchBytes, row_bytes_ - at);
      if (emitter_.stream())
        stream_bytes(dst + at, pattern_, bytes);
      else
        std::memcpy(dst + at, pattern_, bytes);
    }
  }

 private:
  const Emitter& emitter_;
  std::size_t row_bytes_;
  alignas(kLine) std::byte pattern_[kScratchBytes];
};

void run_fill(const Layout& layout, Filler& filler, std::byte* dst, const std::byte* src) {
  for (std::int64_t row = 0; row < layout.row.extent; ++row) {
    if (row == 0 || layout.row.src_stride != 0) filler.set_value(src + row * layout.row.src_stride);
    filler.fill(dst + row * layout.row.dst_stride);
  }
}

// Tiles are 64 bytes of the source high, so that a line is read once, and as wide as the scratch allows.
class Tiler {
 public:
  Tiler(const Layout& layout, const Emitter& emitter)
      : layout_(layout), emitter_(emitter), gather_(gather_kernel(emitter.from(), layout.row.src_stride)) {
    const std::size_t most = kScratchBytes / emitter.from();
    height_ = std::min(static_cast<std::size_t>(layout.row.extent), kLine / emitter.from());
    width_ = std::min(static_cast<std::size_t>(layout.inner.extent), most / height_);
  }

  void run(std::byte* dst, const std::byte* src) const {
    alignas(kLine) std::byte scratch[kScratchBytes];
    const auto& [inner, row, outer_count, outer] = layout_;
    for (std::int64_t i = 0; i < inner.extent; i += static_cast<std::int64_t>(width_))
      for (std::int64_t k = 0; k < row.extent; k += static_cast<std::int64_t>(height_)) {
        const auto count = std::min(width_, static_cast<std::size_t>(inner.extent - i));
        const auto rows = std::min(height_, static_cast<std::size_t>(row.extent - k));
        gather_(
            {scratch, src + i * inner.src_stride + k * row.src_stride, count, rows, inner.src_stride, row.src_stride});
        emitter_.emit({dst + i * inner.dst_stride + k * row.dst_stride, scratch, count, rows, row.dst_stride,
                       static_cast<std::ptrdiff_t>(count * emitter_.from())});
      }
  }

 private:
  const Layout& layout_;
  const Emitter& emitter_;
  TileKernel gather_;
  std::size_t width_ = 1;
  std::size_t height_ = 1;
};

}  // namespace

void execute(const BlockCopy& copy, const std::byte* src, std::byte* dst, const Manner& manner) {
  const auto from = static_cast<std::int64_t>(size_of(copy.op.from));
  const auto to = static_cast<std::int64_t>(size_of(copy.op.to));
  const bool single = copy.rank == 0;
  const std::int64_t src_step = single ? from : copy.used().back().src_stride;
  const std::int64_t dst_step = single ? to : copy.used().back().dst_stride;
  const Emitter emitter(copy.op, manner, dst_step);
  const Layout layout = lay_out(copy, src_step != from);

  if (src_step == from) {
    for_each_plane(layout, copy.dst_offset, copy.src_offset,
                   [&](std::int64_t d, std::int64_t s) { run_rows(layout, emitter, dst + d, src + s); });
  } else if (src_step == 0 && dst_step == to) {
    Filler filler(emitter, layout.inner);
    for_each_plane(layout, copy.dst_offset, copy.src_offset,
                   [&](std::int64_t d, std::int64_t s) { run_fill(layout, filler, dst + d, src + s); });
  } else {
    const Tiler tiler(layout, emitter);
    for_each_plane(layout, copy.dst_offset, copy.src_offset,
                   [&](std::int64_t d, std::int64_t s) { tiler.run(dst + d, src + s); });
  }
  if (emitter.stream()) end_stream();
}

}  // namespace damacy::copy_detail
