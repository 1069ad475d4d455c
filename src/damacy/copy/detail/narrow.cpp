// One loop along the long axis; the short one is unrolled inside. Lines that no hardware would foresee are asked for.
#include "damacy/copy/detail/narrow.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "damacy/copy/detail/row_kernels.h"

namespace damacy::copy_detail {
namespace {

constexpr std::int64_t kWidth = 8;   // elements of the short axis at most
constexpr std::int64_t kAhead = 64;  // steps of the long axis
constexpr std::int64_t kFar = 128;   // bytes a step, from which on lines are asked for

bool is_move(const CopyOp& op) {
  return op.from == op.to && op.from != Dtype::boolean && (!op.swap_bytes || size_of(op.to) == 1);
}

Place begin_of(const BlockCopy& copy, const Place& base) {
  return {base.src + copy.src_offset, base.dst + copy.dst_offset};
}

struct Plane {
  CopyAxis along;
  CopyAxis across;
};

// Into the second cache: many more lines can be on their way there than to the first. Inlined, as GCC takes a function
// that only asks for one without effect.
[[gnu::always_inline]] inline void ask_for(const std::byte* line) {
  __builtin_prefetch(line, /*to write=*/0, /*locality=*/2);
}

// A few elements lie in a line or two.
[[gnu::always_inline]] inline void ask_for_ends(const std::byte* first, std::int64_t to_last) {
  ask_for(first);
  ask_for(first + to_last);
}

template <class T, std::int64_t kCount>
void move_plane(const Plane& plane, Place at, const Place& next) {
  const std::int64_t count = kCount > 0 ? kCount : plane.across.extent;
  const std::int64_t src_step = plane.along.src_stride, dst_step = plane.along.dst_stride;
  const bool read_far = std::abs(src_step) >= kFar, write_far = std::abs(dst_step) >= kFar;
  const std::int64_t last_ahead = std::max<std::int64_t>(plane.along.extent - kAhead, 0);
  Place ahead{at.src + kAhead * src_step, at.dst + kAhead * dst_step};
  for (std::int64_t i = 0; i < plane.along.extent; ++i) {
    if (i == last_ahead) ahead = next;
    if (read_far) ask_for_ends(ahead.src, (count - 1) * plane.across.src_stride);
    if (write_far) ask_for_ends(ahead.dst, (count - 1) * plane.across.dst_stride);
    T values[kWidth];
    for (std::int64_t k = 0; k < count; ++k) std::memcpy(&values[k], at.src + k * plane.across.src_stride, sizeof(T));
    for (std::int64_t k = 0; k < count; ++k) std::memcpy(at.dst + k * plane.across.dst_stride, &values[k], sizeof(T));
    at = {at.src + src_step, at.dst + dst_step};
    ahead = {ahead.src + src_step, ahead.dst + dst_step};
  }
}

using PlaneMove = void (*)(const Plane&, Place, const Place&);

template <class T>
PlaneMove move_of_width(std::int64_t count) {
  constexpr PlaneMove kMoves[] = {move_plane<T, 0>, move_plane<T, 1>, move_plane<T, 2>, move_plane<T, 3>,
                                  move_plane<T, 4>};
  return kMoves[count <= 4 ? count : 0];
}

struct Pair {
  std::uint64_t low, high;
};

PlaneMove move_of(std::size_t bytes, std::int64_t count) {
  switch (bytes) {
    case 1:
      return move_of_width<std::uint8_t>(count);
    case 2:
      return move_of_width<std::uint16_t>(count);
    case 4:
      return move_of_width<std::uint32_t>(count);
    case 8:
      return move_of_width<std::uint64_t>(count);
    default:
      return move_of_width<Pair>(count);
  }
}

// Which axes make the plane; false: the block is not narrow.
bool choose(std::span<const CopyAxis> axes, std::int64_t element, std::size_t& along, std::size_t& across) {
  const std::size_t inner = axes.size() - 1;
  const auto contiguous =
      std::ranges::find_if(axes, [&](const CopyAxis& a) { return std::abs(a.src_stride) == element; });
  const auto closest = static_cast<std::size_t>(contiguous - axes.begin());
  if (axes[inner].extent <= kWidth) {
    across = inner;
    along = inner == 0 ? 1 : 0;
    for (std::size_t i = 0; i < inner; ++i)
      if (axes[i].extent > axes[along].extent) along = i;
    if (closest < inner && axes[closest].extent > kWidth) along = closest;
    return true;
  }
  if (closest >= inner || axes[closest].extent > kWidth) return false;
  across = closest;
  along = inner;
  return true;
}

// Where a walk over the outer axes of a block stands.
struct Walk {
  Place place;
  std::array<std::int64_t, kMaxRank> at{};

  // Of `count` axes, outermost first; false: that was the last.
  bool step(const CopyAxis* axes, std::size_t count) {
    for (std::size_t i = count; i > 0; --i) {
      const CopyAxis& axis = axes[i - 1];
      const std::int64_t steps = ++at[i - 1] < axis.extent ? 1 : 1 - axis.extent;
      place = {place.src + steps * axis.src_stride, place.dst + steps * axis.dst_stride};
      if (steps == 1) return true;
      at[i - 1] = 0;
    }
    return false;
  }
};

// Asks for the lines of a row, on the sides where rows do not follow each other.
class Asking {
 public:
  Asking(const BlockCopy& copy, std::int64_t bytes)
      : bytes_(bytes),
        src_(copy.axes[copy.rank - 2].src_stride != bytes),
        dst_(copy.axes[copy.rank - 2].dst_stride != bytes) {}

  [[gnu::always_inline]] void operator()(const Place& row) const {
    for (std::int64_t i = 0; i < bytes_; i += 64) {
      if (src_) ask_for(row.src + i);
      if (dst_) ask_for(row.dst + i);
    }
  }

 private:
  std::int64_t bytes_;
  bool src_;
  bool dst_;
};

// Rows that are moved by `move_row`, inlined into a function that may carry an instruction set.
template <class MoveRow>
[[gnu::always_inline]] inline void walk_rows(const BlockCopy& copy, std::int64_t bytes, const Place& begin,
                                             const Place& next, const MoveRow& move_row) {
  constexpr int kRowsAhead = 9;
  const std::size_t count = copy.rank - 1;
  const Asking ask_for_row(copy, bytes);
  Walk now{begin}, ahead{begin};
  const auto step_ahead = [&] {
    if (!ahead.step(copy.axes.data(), count)) ahead = {next};
  };
  for (int i = 0; i < kRowsAhead; ++i) step_ahead();
  do {
    ask_for_row(ahead.place);
    step_ahead();
    move_row(now.place.dst, now.place.src);
  } while (now.step(copy.axes.data(), count));
}

void walk_rows_plain(const BlockCopy& copy, std::int64_t bytes, const Place& begin, const Place& next) {
  walk_rows(copy, bytes, begin, next,
            [bytes](std::byte* to, const std::byte* from) { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
}

#ifdef __x86_64__
// Rows of a few lines: finding out how to move them takes memcpy a third of the time.
[[gnu::target("avx")]] void walk_rows_avx(const BlockCopy& copy, std::int64_t bytes, const Place& begin,
                                          const Place& next) {
  constexpr std::int64_t kStep = 64;
  using Vector [[gnu::vector_size(32)]] = char;
  const auto move_step = [](std::byte* to, const std::byte* from) __attribute__((always_inline)) {
    Vector low, high;
    std::memcpy(&low, from, sizeof low);
    std::memcpy(&high, from + sizeof low, sizeof high);
    std::memcpy(to, &low, sizeof low);
    std::memcpy(to + sizeof low, &high, sizeof high);
  };
  walk_rows(copy, bytes, begin, next, [&](std::byte* to, const std::byte* from) __attribute__((always_inline)) {
    for (std::int64_t i = 0; i + kStep <= bytes; i += kStep) move_step(to + i, from + i);
    move_step(to + bytes - kStep, from + bytes - kStep);
  });
}
#endif

}  // namespace

bool move_rows_ahead(const BlockCopy& copy, const Place& base, const Place& next) {
  const auto element = static_cast<std::int64_t>(size_of(copy.op.to));
  if (!is_move(copy.op) || copy.rank < 2) return false;
  const CopyAxis& inner = copy.used().back();
  const std::int64_t bytes = inner.extent * element;
  if (inner.src_stride != element || inner.dst_stride != element || bytes < 128 || bytes > 4096) return false;
  const Place begin = begin_of(copy, base);
#ifdef __x86_64__
  if (best_isa() != Isa::plain) {
    walk_rows_avx(copy, bytes, begin, next);
    return true;
  }
#endif
  walk_rows_plain(copy, bytes, begin, next);
  return true;
}

bool move_narrow(const BlockCopy& copy, const Place& base, const Place& next) {
  std::size_t along = 0, across = 0;
  const std::size_t bytes = size_of(copy.op.to);
  if (!is_move(copy.op) || copy.rank < 2 || !choose(copy.used(), static_cast<std::int64_t>(bytes), along, across))
    return false;
  const PlaneMove move = move_of(bytes, copy.axes[across].extent);
  const Plane plane{copy.axes[along], copy.axes[across]};
  std::array<CopyAxis, kMaxRank> outer;
  std::size_t count = 0;
  for (std::size_t i = 0; i < copy.rank; ++i)
    if (i != along && i != across) outer[count++] = copy.axes[i];
  Walk walk{begin_of(copy, base)};
  for (bool more = true; more;) {
    const Place now = walk.place;
    more = walk.step(outer.data(), count);
    move(plane, now, more ? walk.place : next);
  }
  return true;
}

}  // namespace damacy::copy_detail
