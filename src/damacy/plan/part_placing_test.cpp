#include "damacy/plan/part_placing.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include "damacy/copy/block_copy.h"
#include "damacy/core/error.h"
#include "damacy/core/limits.h"
#include "support/draw.h"

namespace damacy {
namespace {

using testing::Draw;

// What numpy.pad puts at an index, found by walking there one step at a time.
std::int64_t walked(std::int64_t index, std::int64_t size, Border border) {
  if (border == Border::edge) return index < 0 ? 0 : std::min(index, size - 1);
  if (border == Border::wrap) {
    while (index < 0) index += size;
    while (index >= size) index -= size;
    return index;
  }
  if (border == Border::reflect && size == 1) return 0;
  const std::int64_t mirror = border == Border::symmetric ? 1 : 0;
  while (index < 0 || index >= size) index = index < 0 ? -mirror - index : 2 * size - 2 + mirror - index;
  return index;
}

TEST(Border, repeats_as_numpy_pads) {
  for (const Border border : {Border::edge, Border::reflect, Border::symmetric, Border::wrap})
    for (std::int64_t size = 1; size <= 7; ++size)
      for (std::int64_t index = -5 * size; index <= 6 * size; ++index)
        ASSERT_EQ(index_within(index, size, border), walked(index, size, border))
            << static_cast<int>(border) << " " << size << " " << index;
}

// An axis of up to 40 positions, anywhere near an axis of `size` elements.
PartAxis random_axis(Draw& draw, std::int64_t size, bool with_border) {
  PartAxis axis;
  if (with_border) axis.border = static_cast<Border>(draw.from(1, 5));
  axis.constant = static_cast<std::uint64_t>(200 + draw.from(0, 50));
  const std::int64_t low = with_border ? -3 * size : 0, high = with_border ? 4 * size : size - 1;
  if (draw.from(1, 4) == 1) {
    for (std::int64_t n = draw.from(1, 6); n > 0; --n) axis.indices.push_back(draw.from(low, high));
    return axis;
  }
  axis.start = draw.from(low, high);
  axis.step = draw.from(1, 3);
  axis.stop = std::min(draw.from(axis.start + 1, axis.start + 40), with_border ? axis.start + 40 : size);
  return axis;
}

std::int64_t index_at(const PartAxis& axis, std::int64_t position) {
  return axis.indices.empty() ? axis.start + position * axis.step : axis.indices[static_cast<std::size_t>(position)];
}

// One case: an array of u8 in chunks, and a row that has each element of the part once.
class RandomPart {
 public:
  explicit RandomPart(std::uint64_t seed) : draw_(seed) {
    const auto rank = static_cast<std::size_t>(draw_.from(1, 3));
    for (std::size_t i = 0; i < rank; ++i) {
      shape_.push_back(draw_.from(1, 9));
      chunk_.push_back(draw_.from(1, 5));
      axes_.push_back(random_axis(draw_, shape_[i], draw_.from(0, 2) > 0));
      extents_.push_back(axes_[i].extent());
    }
    lay_out();
  }

  void check() {
    const PartPlacing placing(shape_, chunk_, axes_, begin_, {}, Dtype::u8, Dtype::u8);
    const auto elements = static_cast<std::size_t>(*product(extents_.span()));
    std::vector<std::byte> row(elements + 16, std::byte{0xff});
    std::int64_t placed = 0;
    for (std::int64_t number = 0; number < placing.chunks(); ++number) {
      const Dims at = placing.chunk(number);
      const std::vector<std::byte> stored = chunk_at(at);
      std::int64_t copied = 0, copies = 0;
      placing.for_copies(at, row_major_strides(chunk_), false, 8, [&](const BlockCopy& copy) {
        copied += run(copy, stored, row);
        ++copies;
      });
      EXPECT_EQ(copied, placing.elements(at));
      EXPECT_EQ(copies, placing.copies(at));
      placed += copied;
    }
    std::int64_t constants = 0;
    placing.for_constants(8, [&](const BlockCopy& copy) {
      placed += run(copy, {}, row);
      ++constants;
    });
    EXPECT_EQ(constants, placing.constant_copies());
    EXPECT_EQ(placed, *product(extents_.span())) << "each element once";
    EXPECT_EQ(placing.padded_elements(), compare(row));
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(row[i], std::byte{0xff});
      EXPECT_EQ(row[row.size() - 1 - i], std::byte{0xff});
    }
  }

 private:
  // The axes in any order, some of them backwards.
  void lay_out() {
    std::vector<std::size_t> order(axes_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937_64(static_cast<std::uint64_t>(draw_.from(0, 1 << 20))));
    std::int64_t stride = 1;
    for (const std::size_t axis : order) {
      const bool flipped = draw_.from(0, 2) == 0;
      axes_[axis].stride = flipped ? -stride : stride;
      if (flipped) begin_ += (extents_[axis] - 1) * stride;
      stride *= extents_[axis];
    }
  }

  static std::uint8_t value_at(const Dims& index) {
    std::uint8_t value = 1;
    for (const std::int64_t i : index) value = static_cast<std::uint8_t>((value * 11 + i) % 199);
    return value;
  }

  std::vector<std::byte> chunk_at(const Dims& at) const {
    std::vector<std::byte> bytes;
    Dims inside(shape_.size(), 0);
    for (std::int64_t n = *product(chunk_.span()); n > 0; --n) {
      Dims index;
      for (std::size_t i = 0; i < inside.size(); ++i) index.push_back(at[i] * chunk_[i] + inside[i]);
      bytes.push_back(static_cast<std::byte>(value_at(index)));
      for (std::size_t i = inside.size(); i-- > 0 && ++inside[i] == chunk_[i];) inside[i] = 0;
    }
    return bytes;
  }

  static std::int64_t run(const BlockCopy& copy, std::span<const std::byte> src, std::vector<std::byte>& row) {
    run_block_copy(copy, src, row);
    std::int64_t elements = 1;
    for (const CopyAxis& axis : copy.used()) elements *= axis.extent;
    return elements;
  }

  // Returns how many elements lie beyond the array.
  std::int64_t compare(const std::vector<std::byte>& row) {
    std::int64_t beyond = 0;
    Dims position(axes_.size(), 0);
    for (std::int64_t n = *product(extents_.span()); n > 0; --n) {
      std::optional<std::uint64_t> constant;
      bool is_beyond = false;
      Dims index;
      std::int64_t place = 8 + begin_;
      for (std::size_t i = 0; i < axes_.size(); ++i) {
        const std::int64_t wanted = index_at(axes_[i], position[i]);
        const bool is_outside = wanted < 0 || wanted >= shape_[i];
        is_beyond |= is_outside;
        if (is_outside && axes_[i].border == Border::constant && !constant) constant = axes_[i].constant;
        index.push_back(
            !is_outside || axes_[i].border == Border::constant ? wanted : walked(wanted, shape_[i], axes_[i].border));
        place += position[i] * axes_[i].stride;
      }
      const std::uint64_t value = constant.value_or(constant ? 0 : value_at(index));
      EXPECT_EQ(static_cast<std::uint64_t>(row[static_cast<std::size_t>(place)]), value);
      beyond += is_beyond;
      for (std::size_t i = position.size(); i-- > 0 && ++position[i] == extents_[i];) position[i] = 0;
    }
    return beyond;
  }

  Draw draw_;
  Dims shape_, chunk_, extents_;
  std::vector<PartAxis> axes_;
  std::int64_t begin_ = 0;
};

TEST(PartPlacing, has_each_element_of_random_parts_once) {
  for (std::uint64_t seed = 0; seed < 4000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomPart(seed).check();
  }
}

TEST(PartPlacing, visits_no_chunk_without_elements) {
  PartAxis axis{.start = 1, .stop = 100, .step = 25, .stride = 1};
  const PartPlacing placing(Dims{100}, Dims{5}, std::span(&axis, 1), 0, {}, Dtype::u8, Dtype::u8);
  ASSERT_EQ(placing.chunks(), 4);
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(placing.chunk(i)[0], i * 5);
}

TEST(PartPlacing, gives_each_position_of_an_axis_its_finish) {
  PartAxis axis{.indices = {2, 0, 2}, .stride = 4, .has_own_finishes = true};
  std::vector<Finish> finishes(3);
  for (std::size_t i = 0; i < 3; ++i)
    finishes[i] = {.scale = 1, .offset = static_cast<double>(100 * i), .is_scaled = true};
  const PartPlacing placing(Dims{3}, Dims{3}, std::span(&axis, 1), 0, finishes, Dtype::u8, Dtype::f32);
  const std::uint8_t stored[] = {1, 2, 3};
  float row[3] = {};
  placing.for_copies({0}, {1}, false, 0, [&](const BlockCopy& copy) {
    run_block_copy(copy, std::as_bytes(std::span(stored)), std::as_writable_bytes(std::span(row)));
  });
  EXPECT_EQ(row[0], 3);
  EXPECT_EQ(row[1], 101);
  EXPECT_EQ(row[2], 203);
}

std::string refusal(const PartAxis& axis, std::int64_t size) {
  try {
    const PartPlacing placing(Dims{size}, Dims{4}, std::span(&axis, 1), 0, {}, Dtype::u8, Dtype::u8);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PartPlacing, refuses_what_lies_beyond_an_axis_without_a_border) {
  EXPECT_NE(refusal({.start = -1, .stop = 2, .stride = 1}, 8)
                .find("index -1 is outside of the array's size 8; ArraySpec(pad="),
            std::string::npos);
  EXPECT_NE(refusal({.start = 5, .stop = 9, .stride = 1}, 8).find("index 8 is outside"), std::string::npos);
  EXPECT_NE(refusal({.indices = {3, 8}, .stride = 1}, 8).find("index 8 is outside"), std::string::npos);
  EXPECT_NE(
      refusal({.start = 0, .stop = 2, .border = Border::edge, .stride = 1}, 0).find("takes no pad but a constant"),
      std::string::npos);
}

TEST(PartPlacing, has_a_limit_on_its_pieces) {
  const auto most = static_cast<std::int64_t>(Limits::pieces_per_sample);
  PartAxis axis{.start = 0, .stop = most, .border = Border::wrap, .stride = 1};
  EXPECT_EQ(refusal(axis, 1), "") << "one element that repeats is one run";
  axis.stop = 2 * most;
  EXPECT_EQ(refusal(axis, 2).find("pieces, the limit is 65536"), std::string::npos) << refusal(axis, 2);
  axis.stop += 4;
  EXPECT_NE(refusal(axis, 2).find("pieces, the limit is 65536"), std::string::npos);
}

}  // namespace
}  // namespace damacy
