#include "damacy/single/read_layout.h"

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "support/error_of.h"

namespace damacy {
namespace {

// Of an array of three axes; the middle one is selected by one index, so that the result has two.
ResolvedSelection two_of_three_axes() {
  ResolvedSelection what;
  what.shape = {3, 4};
  what.keeps = {true, false, true};
  return what;
}

class ReadLayoutOf : public ::testing::Test {
 protected:
  ReadOutput output(std::size_t bytes) {
    memory_.resize(bytes);
    ReadOutput out;
    out.memory = memory_;
    return out;
  }
  std::vector<std::byte> memory_;
};

TEST_F(ReadLayoutOf, a_dense_result_is_row_major_and_an_axis_that_is_not_kept_has_no_step) {
  const ReadLayout layout = layout_of(two_of_three_axes(), output(24), 2);
  EXPECT_EQ(layout.memory.size(), 24U);
  EXPECT_EQ(layout.first, 0);
  EXPECT_EQ(layout.strides, (Dims{8, 0, 2}));
}

TEST_F(ReadLayoutOf, with_strides_only_the_memory_between_the_ends_is_used) {
  ReadOutput out = output(100);
  out.strides = Dims{-20, 4};
  out.first = 50;
  const ReadLayout layout = layout_of(two_of_three_axes(), out, 2);
  EXPECT_EQ(layout.memory.data(), out.memory.data() + 10);
  EXPECT_EQ(layout.memory.size(), 54U);
  EXPECT_EQ(layout.first, 40);
  EXPECT_EQ(layout.strides, (Dims{-20, 0, 4}));
}

TEST_F(ReadLayoutOf, a_result_that_is_not_inside_the_output_is_refused) {
  EXPECT_EQ(error_of([&] { static_cast<void>(layout_of(two_of_three_axes(), output(23), 2)); }).status(),
            Status::inval);
  ReadOutput out = output(100);
  for (const auto& [first, strides, status] :
       std::vector<std::tuple<std::int64_t, Dims, Status>>{{39, {-20, 4}, Status::inval},
                                                           {50, {20, 4}, Status::inval},
                                                           {0, {0, 4}, Status::inval},
                                                           {0, {4}, Status::rank}}) {
    out.first = first;
    out.strides = strides;
    EXPECT_EQ(error_of([&] { static_cast<void>(layout_of(two_of_three_axes(), out, 2)); }).status(), status);
  }
}

}  // namespace
}  // namespace damacy
