// Dims: one number per axis (a shape, an index, strides), stored in place. Box: a half-open range per axis. Neither
// allocates memory. Border: what an axis has beyond its ends.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace damacy {

inline constexpr std::size_t kMaxRank = 32;

class Dims {
 public:
  constexpr Dims() noexcept = default;
  // `rank` <= kMaxRank; the caller has checked it.
  constexpr Dims(std::size_t rank, std::int64_t value) noexcept : rank_(static_cast<std::uint32_t>(rank)) {
    for (std::size_t i = 0; i < rank; ++i) at_[i] = value;
  }
  constexpr Dims(std::initializer_list<std::int64_t> values) noexcept {
    for (const auto v : values) push_back(v);
  }
  static Dims of(std::span<const std::int64_t> values) noexcept {
    Dims dims;
    for (const auto v : values) dims.push_back(v);
    return dims;
  }
  Dims(const Dims& other) noexcept { *this = other; }
  Dims& operator=(const Dims& other) noexcept {  // copies what is used, not all 32
    rank_ = other.rank_;
    std::copy_n(other.at_.begin(), rank_, at_.begin());
    return *this;
  }
  ~Dims() = default;

  constexpr std::size_t size() const noexcept { return rank_; }
  constexpr bool empty() const noexcept { return rank_ == 0; }
  constexpr std::int64_t operator[](std::size_t axis) const noexcept { return at_[axis]; }
  constexpr std::int64_t& operator[](std::size_t axis) noexcept { return at_[axis]; }
  constexpr void push_back(std::int64_t value) noexcept { at_[rank_++] = value; }
  constexpr const std::int64_t* begin() const noexcept { return at_.data(); }
  constexpr const std::int64_t* end() const noexcept { return at_.data() + rank_; }
  constexpr std::int64_t* begin() noexcept { return at_.data(); }
  constexpr std::int64_t* end() noexcept { return at_.data() + rank_; }
  std::span<const std::int64_t> span() const noexcept { return {at_.data(), rank_}; }

  friend bool operator==(const Dims& a, const Dims& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::uint32_t rank_ = 0;
  std::array<std::int64_t, kMaxRank + 1>
      at_;  // only the first rank_ are set; a batch has one axis more than its samples
};

// What lies beyond the ends of an axis, as numpy.pad has it.
enum class Border : std::uint8_t {
  none,      // nothing: such indices are refused
  constant,  // a value of the batch
  edge,
  reflect,
  symmetric,
  wrap,
};

// Empty if the product does not fit in 63 bits. The product of no axes is 1.
[[nodiscard]] inline std::optional<std::int64_t> product(std::span<const std::int64_t> values) noexcept {
  std::int64_t total = 1;
  for (const auto v : values) {
    if (__builtin_mul_overflow(total, v, &total)) return std::nullopt;
  }
  return total;
}

// Strides of a row-major (C order) block, in elements.
[[nodiscard]] inline Dims row_major_strides(const Dims& shape) noexcept {
  Dims strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

struct Box {
  Dims start;
  Dims stop;  // exclusive; same rank as start

  std::size_t rank() const noexcept { return start.size(); }
  Dims extents() const noexcept {
    Dims extents(rank(), 0);
    for (std::size_t i = 0; i < rank(); ++i) extents[i] = stop[i] - start[i];
    return extents;
  }
  friend bool operator==(const Box&, const Box&) = default;
};

// The common part; an axis without one has start == stop.
[[nodiscard]] inline Box intersect(const Box& a, const Box& b) noexcept {
  Box common{Dims(a.rank(), 0), Dims(a.rank(), 0)};
  for (std::size_t i = 0; i < a.rank(); ++i) {
    common.start[i] = std::max(a.start[i], b.start[i]);
    common.stop[i] = std::max(common.start[i], std::min(a.stop[i], b.stop[i]));
  }
  return common;
}

// "(1, 2, 3)", "(5,)", "()": as Python writes a tuple.
[[nodiscard]] std::string tuple_text(std::span<const std::int64_t> values);

}  // namespace damacy
