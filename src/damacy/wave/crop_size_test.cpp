#include "damacy/wave/crop_size.h"

#include <cstdint>
#include <initializer_list>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/wave/stage_chunk.h"

namespace damacy {
namespace {

BlockCopy copy_of_bytes(std::initializer_list<CopyAxis> axes) {
  BlockCopy copy;
  copy.op = {Dtype::u8, Dtype::u8};
  for (const CopyAxis& axis : axes) copy.axes[copy.rank++] = axis;
  return copy;
}

TEST(CropSize, a_copy_that_fits_is_not_divided) {
  std::vector<BlockCopy> pieces;
  split_copy(copy_of_bytes({{4, 10, 20}, {8, 1, 1}}), 32, pieces);
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(bytes_of_crop(pieces[0]), 32U);
}

TEST(CropSize, pieces_have_every_element_once_and_at_most_the_bytes) {
  const BlockCopy whole = copy_of_bytes({{5, 100, 200}, {7, -3, 4}});
  std::vector<BlockCopy> pieces;
  split_copy(whole, 4, pieces);
  std::multiset<std::pair<std::int64_t, std::int64_t>> wanted, got;
  const auto add = [](const BlockCopy& copy, auto& to) {
    for (std::int64_t i = 0; i < copy.axes[0].extent; ++i)
      for (std::int64_t j = 0; j < copy.axes[1].extent; ++j)
        to.emplace(copy.src_offset + i * copy.axes[0].src_stride + j * copy.axes[1].src_stride,
                   copy.dst_offset + i * copy.axes[0].dst_stride + j * copy.axes[1].dst_stride);
  };
  add(whole, wanted);
  for (const BlockCopy& piece : pieces) {
    EXPECT_LE(bytes_of_crop(piece), 4U);
    add(piece, got);
  }
  EXPECT_EQ(got, wanted);
}

TEST(CropSize, one_element_is_a_piece_whatever_its_size) {
  std::vector<BlockCopy> pieces;
  split_copy(copy_of_bytes({{2, 1, 1}}), 0, pieces);
  EXPECT_EQ(pieces.size(), 2U);
}

}  // namespace
}  // namespace damacy
