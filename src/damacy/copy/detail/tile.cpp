// Loops over tiles, and the squares of elements that are turned in registers.
#include "damacy/copy/detail/tile.h"

#include <cstdint>
#include <cstring>
#include <utility>

namespace damacy::copy_detail {
namespace {

template <std::size_t kBytes>
void gather(const Tile& tile) {
  std::byte* dst = tile.dst;
  for (std::size_t row = 0; row < tile.rows; ++row) {
    const std::byte* src = tile.src + static_cast<std::ptrdiff_t>(row) * tile.pitch;
    for (std::size_t i = 0; i < tile.count; ++i, dst += kBytes)
      std::memcpy(dst, src + static_cast<std::ptrdiff_t>(i) * tile.step, kBytes);
  }
}

template <std::size_t kBytes>
void scatter(const Tile& tile) {
  const std::byte* src = tile.src;
  for (std::size_t row = 0; row < tile.rows; ++row) {
    std::byte* dst = tile.dst + static_cast<std::ptrdiff_t>(row) * tile.pitch;
    for (std::size_t i = 0; i < tile.count; ++i, src += kBytes)
      std::memcpy(dst + static_cast<std::ptrdiff_t>(i) * tile.step, src, kBytes);
  }
}

// A square of elements in registers: kSide vectors of kSide elements.
template <class T>
struct Square {
  static constexpr std::size_t kSide = 16 / sizeof(T);
  typedef T Vector __attribute__((vector_size(16)));
  Vector rows[kSide];

  template <std::size_t... kIndex>
  static void interleave(Vector a, Vector b, Vector& low, Vector& high, std::index_sequence<kIndex...>) {
    low = __builtin_shufflevector(a, b, (kIndex / 2 + kIndex % 2 * kSide)...);
    high = __builtin_shufflevector(a, b, (kSide / 2 + kIndex / 2 + kIndex % 2 * kSide)...);
  }

  // Interleaving the first half of the rows with the second, as often as 2 goes into kSide, turns rows into columns.
  void turn() {
    for (std::size_t done = 1; done < kSide; done *= 2) {
      Vector next[kSide];
      for (std::size_t i = 0; i < kSide / 2; ++i)
        interleave(rows[i], rows[i + kSide / 2], next[2 * i], next[2 * i + 1], std::make_index_sequence<kSide>{});
      std::memcpy(rows, next, sizeof rows);
    }
  }
};

template <class T>
void turn_square(const Tile& tile, std::size_t row, std::size_t i) {
  Square<T> square;
  const std::byte* src = tile.src + row * sizeof(T) + static_cast<std::ptrdiff_t>(i) * tile.step;
  for (auto& vector : square.rows) {
    std::memcpy(&vector, src, sizeof vector);
    src += tile.step;
  }
  square.turn();
  std::byte* dst = tile.dst + (row * tile.count + i) * sizeof(T);
  for (const auto& vector : square.rows) {
    std::memcpy(dst, &vector, sizeof vector);
    dst += tile.count * sizeof(T);
  }
}

// A tile that is no multiple of a square has its last squares overlap the ones before: the same bytes are written
// again.
template <class T>
void gather_turned(const Tile& tile) {
  constexpr std::size_t kSide = Square<T>::kSide;
  if (tile.count < kSide || tile.rows < kSide) return gather<sizeof(T)>(tile);
  for (std::size_t i = 0; i < tile.count; i += kSide) {
    const std::size_t at = i + kSide <= tile.count ? i : tile.count - kSide;
    for (std::size_t row = 0; row < tile.rows; row += kSide)
      turn_square<T>(tile, row + kSide <= tile.rows ? row : tile.rows - kSide, at);
  }
}

// The elements of a word in the other order.
template <class T>
std::uint64_t reversed(std::uint64_t word) {
  if constexpr (sizeof(T) == 1) return __builtin_bswap64(word);
  word = word >> 32 | word << 32;
  if constexpr (sizeof(T) == 4) return word;
  return (word >> 16 & 0x0000ffff0000ffffu) | (word & 0x0000ffff0000ffffu) << 16;
}

// `last`: the last element in the source, which becomes the first.
template <class T>
void reverse_word(std::byte* dst, const std::byte* last) {
  std::uint64_t word;
  std::memcpy(&word, last + sizeof(T) - sizeof word, sizeof word);
  word = reversed<T>(word);
  std::memcpy(dst, &word, sizeof word);
}

template <class T>
void gather_reversed(const Tile& tile) {
  const std::size_t bytes = tile.count * sizeof(T);
  if (bytes < sizeof(std::uint64_t)) return gather<sizeof(T)>(tile);
  for (std::size_t row = 0; row < tile.rows; ++row) {
    std::byte* __restrict dst = tile.dst + row * bytes;
    const std::byte* __restrict src = tile.src + static_cast<std::ptrdiff_t>(row) * tile.pitch;
    std::size_t at = 0;
    for (; at + 8 <= bytes; at += 8) reverse_word<T>(dst + at, src - at);
    if (at < bytes) reverse_word<T>(dst + bytes - 8, src - (bytes - 8));
  }
}

template <class T>
TileKernel gather_of(std::ptrdiff_t step, std::ptrdiff_t pitch) {
  constexpr auto kBytes = static_cast<std::ptrdiff_t>(sizeof(T));
  if constexpr (sizeof(T) < 8)
    if (step == -kBytes) return gather_reversed<T>;
  return pitch == kBytes ? gather_turned<T> : gather<sizeof(T)>;
}

}  // namespace

TileKernel gather_kernel(std::size_t bytes, std::ptrdiff_t step, std::ptrdiff_t pitch) noexcept {
  switch (bytes) {
    case 1:
      return gather_of<std::uint8_t>(step, pitch);
    case 2:
      return gather_of<std::uint16_t>(step, pitch);
    case 4:
      return gather_of<std::uint32_t>(step, pitch);
    case 8:
      return gather_of<std::uint64_t>(step, pitch);
    default:
      return gather<16>;
  }
}

TileKernel scatter_kernel(std::size_t bytes) noexcept {
  switch (bytes) {
    case 1:
      return scatter<1>;
    case 2:
      return scatter<2>;
    case 4:
      return scatter<4>;
    case 8:
      return scatter<8>;
    default:
      return scatter<16>;
  }
}

}  // namespace damacy::copy_detail
