// Three ways through a block, one picked for all of it: rows that lie side by side in the source; one value for a row;
// and tiles, whose rows have to be gathered first. All hand their rows to Emitter, which puts them where they belong.
#include "damacy/copy/detail/execute.h"

#include <algorithm>
#include <cstdlib>

#include "damacy/copy/detail/narrow.h"
#include "damacy/copy/detail/stream.h"
#include "damacy/copy/detail/tile.h"

namespace damacy::copy_detail {
namespace {

constexpr std::size_t kScratchBytes = 8192;  // of each of two: both stay in the first cache

// From here on it pays to stream a row whose ends share lines with its neighbours.
constexpr std::int64_t kLongRowBytes = 512;

// The two axes that kernels walk, and the others around them, outermost first.
struct Layout {
  std::int64_t src_start;
  std::int64_t dst_start;
  CopyAxis inner{1, 0, 0};
  CopyAxis row{1, 0, 0};
  std::uint32_t outer_count = 0;
  std::array<CopyAxis, kMaxRank> outer;
};

bool is_closer(std::int64_t stride, std::int64_t than) {
  return stride != 0 && (than == 0 || std::abs(stride) < std::abs(than));
}

// Up the source's memory, as the tile kernels like it.
void walk_rows_from_the_other_end(Layout& layout) {
  CopyAxis& row = layout.row;
  layout.src_start += (row.extent - 1) * row.src_stride;
  layout.dst_start += (row.extent - 1) * row.dst_stride;
  row.src_stride = -row.src_stride;
  row.dst_stride = -row.dst_stride;
}

// The innermost axis is the closest in the destination. With `turn`, the one closest in the source makes the rows.
Layout lay_out(const BlockCopy& copy, bool turn) {
  Layout layout;
  layout.src_start = copy.src_offset;
  layout.dst_start = copy.dst_offset;
  if (copy.rank == 0) return layout;
  const auto axes = copy.used();
  layout.inner = axes.back();
  if (axes.size() == 1) return layout;
  const std::size_t others = axes.size() - 1;
  std::size_t row = others - 1;
  for (std::size_t i = 0; turn && i < others; ++i)
    if (is_closer(axes[i].src_stride, axes[row].src_stride)) row = i;
  layout.row = axes[row];
  for (std::size_t i = 0; i < others; ++i)
    if (i != row) layout.outer[layout.outer_count++] = axes[i];
  if (turn && layout.row.src_stride < 0) walk_rows_from_the_other_end(layout);
  return layout;
}

// body(dst offset, src offset) for each index of the outer axes.
template <class Body>
void for_each_plane(const Layout& layout, const Body& body) {
  std::int64_t src = layout.src_start;
  std::int64_t dst = layout.dst_start;
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

// How rows reach the destination: each row in one piece, past the cache or not, or element by element.
enum class Put { together, streamed, apart };

// A line that is streamed in part is read and written for nothing, so rows must be whole lines, or long.
Put choose_put(const BlockCopy& copy, const std::byte* dst, bool stream) {
  const auto bytes = static_cast<std::int64_t>(size_of(copy.op.to));
  if (copy.rank == 0) return Put::together;
  const CopyAxis& inner = copy.used().back();
  if (inner.dst_stride != bytes) return Put::apart;
  if (!stream) return Put::together;
  const std::int64_t row_bytes = inner.extent * bytes;
  auto ends = row_bytes | static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(dst + copy.dst_offset) % kLine);
  for (const CopyAxis& axis : copy.used().first(copy.rank - 1)) ends |= axis.dst_stride;
  return row_bytes >= kLongRowBytes || ends % static_cast<std::int64_t>(kLine) == 0 ? Put::streamed : Put::together;
}

// Rows whose source lies side by side: converted, and put where the destination wants them.
class Emitter {
 public:
  Emitter(const CopyOp& op, Isa isa, Put how, std::int64_t dst_step)
      : kernel_(op.finish == nullptr ? row_kernel(op, isa) : finish_kernel(op, isa)),
        finish_(op.finish),
        scatter_(scatter_kernel(size_of(op.to))),
        from_(size_of(op.from)),
        to_(size_of(op.to)),
        dst_step_(dst_step),
        how_(how),
        is_move_(op.finish == nullptr && op.from == op.to && op.from != Dtype::boolean &&
                 (!op.swap_bytes || to_ == 1)) {}

  std::size_t from() const { return from_; }
  std::size_t to() const { return to_; }

  void convert(Rows rows) const {
    rows.finish = finish_;
    kernel_(rows);
  }

  // Of elements that have their type already; apart only from rows that follow each other.
  void put(const Rows& rows) const {
    if (how_ == Put::apart) return scatter_({rows.dst, rows.src, rows.count, rows.rows, dst_step_, rows.dst_pitch});
    for (std::size_t row = 0; row < rows.rows; ++row) {
      const auto down = static_cast<std::ptrdiff_t>(row);
      std::byte* dst = rows.dst + down * rows.dst_pitch;
      const std::byte* src = rows.src + down * rows.src_pitch;
      if (how_ == Put::streamed)
        stream_bytes(dst, src, rows.count * to_);
      else
        std::memcpy(dst, src, rows.count * to_);
    }
  }

  void emit(const Rows& rows) const {
    if (how_ == Put::together) return convert(rows);
    if (how_ == Put::streamed && is_move_) return put(rows);
    alignas(kLine) std::byte scratch[kScratchBytes];
    const std::size_t most = kScratchBytes / to_;
    const std::size_t width = std::min(rows.count, most);
    const std::size_t height = std::min(rows.rows, most / width);
    for (std::size_t row = 0; row < rows.rows; row += height)
      for (std::size_t i = 0; i < rows.count; i += width) {
        const auto down = static_cast<std::ptrdiff_t>(row);
        const std::size_t count = std::min(width, rows.count - i);
        const std::size_t row_count = std::min(height, rows.rows - row);
        const auto pitch = static_cast<std::ptrdiff_t>(count * to_);
        convert({scratch, rows.src + down * rows.src_pitch + i * from_, count, row_count, pitch, rows.src_pitch});
        std::byte* dst = rows.dst + down * rows.dst_pitch + static_cast<std::ptrdiff_t>(i) * dst_step_;
        put({dst, scratch, count, row_count, rows.dst_pitch, pitch});
      }
  }

 private:
  RowKernel kernel_;
  const Finish* finish_;
  TileKernel scatter_;
  std::size_t from_;
  std::size_t to_;
  std::int64_t dst_step_;
  Put how_;
  bool is_move_;  // the bits stay as they are
};

// Source rows are taken as they lie.
class RowWay {
 public:
  RowWay(const Layout& layout, const Emitter& emitter) : layout_(layout), emitter_(emitter) {}

  void run(std::byte* dst, const std::byte* src) const {
    emitter_.emit({dst, src, static_cast<std::size_t>(layout_.inner.extent),
                   static_cast<std::size_t>(layout_.row.extent), layout_.row.dst_stride, layout_.row.src_stride});
  }

 private:
  const Layout& layout_;
  const Emitter& emitter_;
};

// One value for a row: converted once, repeated in scratch, and copied from there.
class FillWay {
 public:
  FillWay(const Layout& layout, const Emitter& emitter)
      : layout_(layout), emitter_(emitter), count_(static_cast<std::size_t>(layout.inner.extent)) {}

  void run(std::byte* dst, const std::byte* src) {
    const CopyAxis& axis = layout_.row;
    if (axis.src_stride == 0) return fill(dst, src, static_cast<std::size_t>(axis.extent));
    for (std::int64_t row = 0; row < axis.extent; ++row)
      fill(dst + row * axis.dst_stride, src + row * axis.src_stride, 1);
  }

 private:
  void fill(std::byte* dst, const std::byte* src, std::size_t rows) {
    if (src != repeated_) repeat(src);
    const std::size_t most = kScratchBytes / emitter_.to();
    for (std::size_t i = 0; i < count_; i += most)
      emitter_.put({dst + i * emitter_.to(), scratch_, std::min(most, count_ - i), rows, layout_.row.dst_stride, 0});
  }

  void repeat(const std::byte* src) {
    repeated_ = src;
    emitter_.convert({scratch_, src, 1, 1, 0, 0});
    const std::size_t bytes = std::min(count_ * emitter_.to(), kScratchBytes);
    for (std::size_t done = emitter_.to(); done < bytes; done *= 2)
      std::memcpy(scratch_ + done, scratch_, std::min(done, bytes - done));
  }

  const Layout& layout_;
  const Emitter& emitter_;
  std::size_t count_;
  const std::byte* repeated_ = nullptr;
  alignas(kLine) std::byte scratch_[kScratchBytes];
};

// A tile is 64 bytes of the source high, so that each line is read once, and as wide as the scratch allows.
class TileWay {
 public:
  TileWay(const Layout& layout, const Emitter& emitter)
      : layout_(layout),
        emitter_(emitter),
        gather_(gather_kernel(emitter.from(), layout.inner.src_stride, layout.row.src_stride)) {
    height_ = std::min(static_cast<std::size_t>(layout.row.extent), kLine / emitter.from());
    width_ = std::min(static_cast<std::size_t>(layout.inner.extent), kScratchBytes / emitter.from() / height_);
  }

  void run(std::byte* dst, const std::byte* src) {
    const CopyAxis& inner = layout_.inner;
    const CopyAxis& row = layout_.row;
    for (std::int64_t i = 0; i < inner.extent; i += static_cast<std::int64_t>(width_))
      for (std::int64_t k = 0; k < row.extent; k += static_cast<std::int64_t>(height_)) {
        const auto count = std::min(width_, static_cast<std::size_t>(inner.extent - i));
        const auto rows = std::min(height_, static_cast<std::size_t>(row.extent - k));
        const auto pitch = static_cast<std::ptrdiff_t>(count * emitter_.from());
        const std::byte* corner = src + i * inner.src_stride + k * row.src_stride;
        gather_({scratch_, corner, count, rows, inner.src_stride, row.src_stride});
        emitter_.emit({dst + i * inner.dst_stride + k * row.dst_stride, scratch_, count, rows, row.dst_stride, pitch});
      }
  }

 private:
  const Layout& layout_;
  const Emitter& emitter_;
  TileKernel gather_;
  std::size_t width_ = 1;
  std::size_t height_ = 1;
  alignas(kLine) std::byte scratch_[kScratchBytes];
};

template <class Way>
void run(const Layout& layout, const Emitter& emitter, const std::byte* src, std::byte* dst) {
  Way way(layout, emitter);
  for_each_plane(layout, [&](std::int64_t to, std::int64_t from) { way.run(dst + to, src + from); });
}

}  // namespace

bool streams_rows(const BlockCopy& copy, const std::byte* dst) noexcept {
  return choose_put(copy, dst, /*stream=*/true) == Put::streamed;
}

void execute(const BlockCopy& copy, const std::byte* src, std::byte* dst, const Manner& manner) {
  if (const Place base{src, dst}; copy.op.finish == nullptr && move_narrow(copy, base, base)) return;
  const auto element = static_cast<std::int64_t>(size_of(copy.op.from));
  const std::int64_t src_step = copy.rank == 0 ? element : copy.used().back().src_stride;
  const std::int64_t dst_step = copy.rank == 0 ? 0 : copy.used().back().dst_stride;
  const Put how = choose_put(copy, dst, manner.stream);
  const Emitter emitter(copy.op, manner.isa, how, dst_step);
  const bool rows = src_step == element;
  const bool fill = src_step == 0 && how != Put::apart;
  const Layout layout = lay_out(copy, /*turn=*/!rows && !fill);

  if (rows)
    run<RowWay>(layout, emitter, src, dst);
  else if (fill)
    run<FillWay>(layout, emitter, src, dst);
  else
    run<TileWay>(layout, emitter, src, dst);
  if (how == Put::streamed) end_stream();
}

}  // namespace damacy::copy_detail
