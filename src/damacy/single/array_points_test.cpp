// Reads of single elements, on the host and into a lazy device: against the element at each point, and against
// selections that have the same elements.
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/array.h"
#include "damacy/core/limits.h"
#include "damacy/device/host_device.h"
#include "damacy/single/process_waves.h"
#include "support/error_of.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

constexpr std::int64_t kPlanes = 5, kRows = 40, kColumns = 64;
using Indices = std::vector<std::int64_t>;
using Values = std::vector<std::uint16_t>;

class ArrayPoints : public ::testing::Test {
 protected:
  ArrayPoints() {
    testing::write_array(dir.path(), {kPlanes, kRows, kColumns}, {2, 8, 16});
    array = open_array(dir.path().string(), make_file_store(dir.path().string(), 16));
  }

  static Indices random_list(std::mt19937& random, std::int64_t extent, std::size_t count) {
    Indices list(count);
    for (auto& index : list) index = static_cast<std::int64_t>(random() % static_cast<unsigned>(2 * extent)) - extent;
    return list;
  }

  static std::vector<Indices> random_lists(std::mt19937& random) {
    const std::size_t count = random() % 60;
    std::vector<Indices> lists;
    for (const std::int64_t extent : {kPlanes, kRows, kColumns})
      lists.push_back(random_list(random, extent, random() % 4 == 0 && count > 0 ? 1 : count));
    return lists;
  }

  // Elements are their positions in the array.
  static Values expected(const std::vector<Indices>& lists) {
    std::size_t count = 1;
    for (const Indices& list : lists)
      if (list.size() != 1) count = list.size();
    Values all;
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t at = 0;
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const std::int64_t extent = std::array{kPlanes, kRows, kColumns}[axis];
        const std::int64_t index = lists[axis][lists[axis].size() == 1 ? 0 : i];
        at = at * extent + (index < 0 ? index + extent : index);
      }
      all.push_back(static_cast<std::uint16_t>(at));
    }
    return all;
  }

  Values read(const std::vector<Indices>& lists) const { return array->read_as<std::uint16_t>(PointSelection(lists)); }

  testing::TempDir dir{"array-points"};
  std::shared_ptr<const Array> array;
};

TEST_F(ArrayPoints, are_the_elements_at_their_coordinates) {
  std::mt19937 random(21);
  for (int round = 0; round < 300; ++round) {
    const auto lists = random_lists(random);
    EXPECT_EQ(read(lists), expected(lists)) << round;
  }
}

TEST_F(ArrayPoints, of_a_whole_grid_are_what_lists_along_axes_select) {
  const Indices planes{4, 0}, rows{7, 8, 39, 0}, columns{63, 1, 2, 3, 15, 16};
  std::vector<Indices> grid(3);
  for (const auto plane : planes)
    for (const auto row : rows)
      for (const auto column : columns) {
        grid[0].push_back(plane);
        grid[1].push_back(row);
        grid[2].push_back(column);
      }
  EXPECT_EQ(read(grid), (array->read_as<std::uint16_t>(Selection{planes, rows, columns})));
}

TEST_F(ArrayPoints, may_be_repeated) {
  EXPECT_EQ(read({{1, 1, 1}, {2, 2, 2}, {5, 5, 4}}), expected({{1, 1, 1}, {2, 2, 2}, {5, 5, 4}}));
}

TEST_F(ArrayPoints, of_a_mask_are_in_row_major_order) {
  std::mt19937 random(22);
  std::vector<bool> mask(kPlanes * kRows * kColumns);
  for (auto&& flag : mask) flag = random() % 7 == 0;
  Values wanted;
  for (std::size_t at = 0; at < mask.size(); ++at)
    if (mask[at]) wanted.push_back(static_cast<std::uint16_t>(at));
  EXPECT_EQ(array->read_as<std::uint16_t>(PointSelection::of_mask(mask, array->shape())), wanted);
}

TEST_F(ArrayPoints, into_a_device_are_the_same) {
  std::mt19937 random(23);
  const auto waves = process_waves().of_lazy_host(1024);
  for (int round = 0; round < 100; ++round) {
    const auto lists = random_lists(random);
    const auto wanted = expected(lists);
    const HostBuffer memory(waves->device().device_memory(), std::max<std::size_t>(wanted.size() * 4, 1));
    const auto out = ReadOutput::device(memory.data(), wanted.size() * 4, Dtype::f32);
    auto pending = begin_read(array, PointSelection(lists).of(array->shape()), out, waves.get());
    pending.get();
    const auto* const got = reinterpret_cast<const float*>(memory.data());
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), got)) << round;
  }
}

TEST_F(ArrayPoints, are_laid_out_as_the_output_says) {
  std::vector<double> out(9, -1);
  ReadOutput backwards = ReadOutput::host(std::span(out));
  backwards.strides = Dims{-24};
  backwards.first = 56;
  array->read(PointSelection({{0}, {0}, {5, 7, 6}}), backwards);
  EXPECT_EQ(out, (std::vector<double>{-1, 6, -1, -1, 7, -1, -1, 5, -1}));
}

TEST_F(ArrayPoints, of_an_array_of_one_axis_are_those_of_a_list) {
  testing::write_array(dir.path() / "line", {50}, {8});
  const auto line = open_array((dir.path() / "line").string(), make_file_store((dir.path() / "line").string(), 16));
  const Indices list{49, 0, 8, 7, -1, 8};
  EXPECT_EQ(line->read_as<std::uint16_t>(PointSelection({list})), (Values{49, 0, 8, 7, 49, 8}));
  EXPECT_EQ(line->read_as<std::uint16_t>(PointSelection({list})), line->read_as<std::uint16_t>({list}));
}

TEST_F(ArrayPoints, of_missing_chunks_are_the_fill_value) {
  std::filesystem::remove(dir.path() / "c.0.0.0");
  EXPECT_EQ(read({{0, 0}, {0, 0}, {3, 16}}), (Values{7, 16}));
}

TEST_F(ArrayPoints, have_a_shape_before_they_are_read) {
  EXPECT_EQ(PointSelection({{0, 1}, {5}}).shape_in({40, 64}), (Dims{2}));
  EXPECT_EQ(PointSelection({{0}, {5}}).shape_in({40, 64}), (Dims{1}));
  EXPECT_EQ(PointSelection({Indices{}, {5}}).shape_in({40, 64}), (Dims{0}));
  EXPECT_TRUE(read({{}, {1}, {}}).empty());
}

TEST_F(ArrayPoints, errors_say_what_does_not_fit) {
  const auto failure = [&](const std::vector<Indices>& lists) { return error_of([&] { (void)read(lists); }); };
  EXPECT_EQ(failure({{0}, {0, 40}, {0, 1}}).message(), "index 40 is outside axis 1 of 40 elements");
  EXPECT_EQ(failure({{0}, {0}, {-65}}).message(), "index -65 is outside axis 2 of 64 elements");
  EXPECT_EQ(failure({{0, 1}, {0}, {1, 2, 3}}).message(),
            "lists of 2 and 3 indices: points need one length, or one index");
  EXPECT_EQ(failure({{0, 1}, {0}}).message(), "points with 2 coordinates, the array has 3 axes");
  EXPECT_EQ(failure({{0, 1}, {0}}).status(), Status::rank);
  EXPECT_EQ(failure({}).status(), Status::rank);
  EXPECT_EQ(error_of([] { (void)PointSelection::of_mask(std::vector<bool>(7), {2, 4}); }).message(),
            "a mask of 7 elements for an array of shape (2, 4)");
  Values out(3);
  const Error wrong =
      error_of([&] { array->read(PointSelection({{0}, {0}, {1, 2}}), ReadOutput::host(std::span(out))); });
  EXPECT_EQ(wrong.message(), "the elements have 4 bytes and the output 6");
  EXPECT_EQ(wrong.where().uri, dir.path().string());
}

TEST_F(ArrayPoints, are_limited_in_their_pieces) {
  constexpr auto kMost = static_cast<std::int64_t>(Limits::chunks_per_sample);
  const std::string tall_path = (dir.path() / "tall").string();
  testing::write_array(tall_path, {kMost + 1, 2}, {kMost + 1, 2});
  const auto tall = open_array(tall_path, make_file_store(tall_path, 16));
  Indices rows(static_cast<std::size_t>(kMost) + 1);
  std::iota(rows.begin(), rows.end(), 0);
  const Error error = error_of([&] { (void)tall->read_as<std::uint16_t>(PointSelection({rows, {1}})); });
  EXPECT_EQ(error.where().reason, "limit");
  std::ranges::fill(rows, 17);  // neighbours of one row are one piece
  EXPECT_EQ(tall->read_as<std::uint16_t>(PointSelection({rows, {1}})), Values(rows.size(), 35));
}

}  // namespace
}  // namespace damacy
