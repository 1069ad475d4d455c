// Reads of arrays by selections, on the host and into a lazy device: the elements of every form, against indexing one
// by one.
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/array.h"
#include "damacy/device/host_device.h"
#include "damacy/single/process_waves.h"
#include "support/error_of.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

constexpr std::int64_t kRows = 40, kColumns = 64;
using Indices = std::vector<std::int64_t>;

// Python's rule, walked step by step.
Indices walked(const Slice& slice, std::int64_t extent) {
  Indices found;
  const auto from_end = [&](std::int64_t at) { return at < 0 ? at + extent : at; };
  if (slice.step > 0) {
    const std::int64_t stop = std::min(slice.stop ? from_end(*slice.stop) : extent, extent);
    for (std::int64_t i = std::max<std::int64_t>(slice.start ? from_end(*slice.start) : 0, 0); i < stop;
         i += slice.step)
      found.push_back(i);
  } else {
    const std::int64_t stop = std::max<std::int64_t>(slice.stop ? from_end(*slice.stop) : -1, -1);
    std::int64_t i = std::min(slice.start ? from_end(*slice.start) : extent - 1, extent - 1);
    for (; i > stop; i += slice.step) found.push_back(i);
  }
  return found;
}

Indices indices_of(const AxisIndex& index, std::int64_t extent) {
  if (const auto* number = std::get_if<std::int64_t>(&index)) return {*number < 0 ? *number + extent : *number};
  if (const auto* slice = std::get_if<Slice>(&index)) return walked(*slice, extent);
  Indices found;
  if (const auto* list = std::get_if<Indices>(&index)) {
    for (const std::int64_t i : *list) found.push_back(i < 0 ? i + extent : i);
  } else {
    const auto& mask = std::get<std::vector<bool>>(index);
    for (std::size_t i = 0; i < mask.size(); ++i)
      if (mask[i]) found.push_back(static_cast<std::int64_t>(i));
  }
  return found;
}

class ArraySelections : public ::testing::Test {
 protected:
  ArraySelections() {
    testing::write_array(dir.path(), {kRows, kColumns}, {8, 16});
    array = open_array(dir.path().string(), make_file_store(dir.path().string(), 16));
  }

  static AxisIndex random_index(std::mt19937& random, std::int64_t extent) {
    const auto any = [&] {
      return static_cast<std::int64_t>(random() % static_cast<unsigned>(3 * extent)) - 2 * extent;
    };
    const auto inside = [&] {
      return static_cast<std::int64_t>(random() % static_cast<unsigned>(2 * extent)) - extent;
    };
    switch (random() % 4) {
      case 0:
        return inside();
      case 1: {
        Slice slice;
        if (random() % 3 != 0) slice.start = any();
        if (random() % 3 != 0) slice.stop = any();
        slice.step = static_cast<std::int64_t>(random() % 7) - 3;
        if (slice.step == 0) slice.step = 1;
        return slice;
      }
      case 2: {
        Indices list(random() % 9);
        for (auto& index : list) index = inside();
        return list;
      }
      default: {
        std::vector<bool> mask(static_cast<std::size_t>(extent));
        for (auto&& flag : mask) flag = random() % 5 == 0;
        return mask;
      }
    }
  }

  // The elements by indexing one by one: each is its position in the array.
  static std::vector<std::uint16_t> expected(const AxisIndex& rows, const AxisIndex& columns) {
    std::vector<std::uint16_t> all;
    for (const std::int64_t row : indices_of(rows, kRows))
      for (const std::int64_t column : indices_of(columns, kColumns))
        all.push_back(static_cast<std::uint16_t>(row * kColumns + column));
    return all;
  }

  testing::TempDir dir{"array-selections"};
  std::shared_ptr<const Array> array;
};

TEST_F(ArraySelections, are_what_indexing_one_by_one_gives) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const AxisIndex rows = random_index(random, kRows), columns = random_index(random, kColumns);
    EXPECT_EQ(array->read_as<std::uint16_t>({rows, columns}), expected(rows, columns)) << round;
  }
}

TEST_F(ArraySelections, into_a_device_are_the_same) {
  std::mt19937 random(12);
  const auto waves = process_waves().of_lazy_host(1024);
  for (int round = 0; round < 100; ++round) {
    const AxisIndex rows = random_index(random, kRows), columns = random_index(random, kColumns);
    const auto wanted = expected(rows, columns);
    const HostBuffer memory(waves->device().device_memory(), std::max<std::size_t>(wanted.size() * 4, 1));
    const auto out = ReadOutput::device(memory.data(), wanted.size() * 4, Dtype::f32);
    auto read = begin_read(array, Selection{rows, columns}.of(array->shape()), out, waves.get());
    read.get();
    const auto* const got = reinterpret_cast<const float*>(memory.data());
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), got)) << round;
  }
}

TEST_F(ArraySelections, are_converted_and_laid_out_as_the_output_says) {
  std::vector<double> out(2 * kRows * 3, -1);
  ReadOutput strided = ReadOutput::host(std::span(out));
  strided.strides = Dims{-16, 16 * kRows};  // columns of every other element, from the last row up
  strided.first = 16 * (kRows - 1);
  array->read({Slice{}, Slice{.start = 5, .stop = 8}}, strided);
  for (std::int64_t row = 0; row < kRows; ++row)
    for (std::int64_t column = 0; column < 3; ++column) {
      const std::size_t at = static_cast<std::size_t>(2 * (kRows - 1 - row) + 2 * kRows * column);
      EXPECT_EQ(out[at], static_cast<double>(row * kColumns + column + 5));
      EXPECT_EQ(out[at + 1], -1);
    }
}

TEST_F(ArraySelections, have_a_shape_before_they_are_read) {
  EXPECT_EQ((Selection{std::int64_t{3}}.shape_in({40, 64})), (Dims{64}));
  EXPECT_EQ((Selection{Ellipsis{}, std::int64_t{3}}.shape_in({40, 64})), (Dims{40}));
  EXPECT_EQ((Selection{Slice{.step = -1}, Ellipsis{}, Indices{5, -1}}.shape_in({40, 64, 7})), (Dims{40, 64, 2}));
  EXPECT_EQ(Selection().shape_in({40, 64}), (Dims{40, 64}));
  EXPECT_EQ((Selection{std::int64_t{-1}, std::int64_t{0}}.shape_in({40, 64})), Dims());
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ((Selection{Slice{.step = least}}.shape_in({40})), (Dims{1}));
  EXPECT_EQ((Selection{Slice{.start = least, .stop = -1}}.shape_in({40})), (Dims{39}));
}

TEST_F(ArraySelections, errors_say_what_does_not_fit) {
  std::vector<std::uint16_t> out(10);
  const auto read = [&](const Selection& what) {
    return [&, what] { array->read(what, ReadOutput::host(std::span(out))); };
  };
  const auto message = [&](const Selection& what) { return error_of(read(what)).message(); };
  EXPECT_EQ(message({std::int64_t{40}}), "index 40 is outside axis 0 of 40 elements");
  EXPECT_EQ(message({std::int64_t{0}, Indices{1, -65}}), "index -65 is outside axis 1 of 64 elements");
  EXPECT_EQ(message({std::vector<bool>(39)}), "a mask of 39 elements for axis 0 of 40");
  EXPECT_EQ(message({Slice{.step = 0}}), "the slice of axis 0 has step 0: say 1, or -1 to count down");
  EXPECT_EQ(message({Ellipsis{}, Ellipsis{}}), "the selection has more than one Ellipsis");
  EXPECT_EQ(error_of(read({Slice{}, Slice{}, Slice{}})).status(), Status::rank);
  EXPECT_EQ(message({std::int64_t{0}, Slice{.stop = 4}}), "the elements have 8 bytes and the output 20");
  EXPECT_EQ(error_of(read({std::int64_t{0}, Slice{.stop = 4}})).where().uri, dir.path().string());

  ReadOutput strided = ReadOutput::host(std::span(out));
  const auto with = [&](Dims strides, std::int64_t first) {
    strided.strides = strides;
    strided.first = first;
    return error_of([&] { array->read({std::int64_t{0}, Slice{.stop = 5}}, strided); });
  };
  EXPECT_EQ(with({6}, 0).where().reason, "aabb");
  EXPECT_EQ(with({-4}, 8).where().reason, "aabb");
  EXPECT_EQ(with({0}, 0).where().reason, "arguments");
  EXPECT_EQ(with({2, 2}, 0).status(), Status::rank);
  ReadOutput complex = ReadOutput::host(std::as_writable_bytes(std::span(out)));
  complex.dtype = Dtype::complex64;
  EXPECT_EQ(error_of([&] { array->read({std::int64_t{0}}, complex); }).status(), Status::dtype);
  const auto device = ReadOutput::device(out.data(), 20);
  EXPECT_EQ(error_of([&] { array->read({std::int64_t{0}, Slice{.stop = 10}}, device); }).where().reason, "no-device");
}

TEST_F(ArraySelections, that_are_pending_may_be_cancelled_and_dropped) {
  for (int round = 0; round < 20; ++round) {
    std::vector<std::uint16_t> out(kRows * kColumns);
    auto dropped = begin_read(array, Selection{}, ReadOutput::host(std::span(out)));
    {
      const auto gone = std::move(dropped);
    }
    const auto at_the_end = out;
    auto read = begin_read(array, Selection{}, ReadOutput::host(std::span(out)));
    EXPECT_EQ(at_the_end.size(), out.size());
    if (round % 2 == 0) {
      ASSERT_TRUE(read.wait_for(std::chrono::minutes(1)));
      EXPECT_TRUE(read.done());
      read.get();
      EXPECT_EQ(out, expected(Slice{}, Slice{}));
    } else {
      read.cancel();
      const auto error = failure_of([&] { read.get(); });
      EXPECT_TRUE(!error || error->status() == Status::shutdown);
    }
  }
}

}  // namespace
}  // namespace damacy
