#include "damacy/store/answer_block.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace damacy {
namespace {

TEST(AnswerBlock, is_used_again_by_one_of_about_the_same_size) {
  const std::byte* was = nullptr;
  {
    AnswerBlock first(500'000);
    was = first.data();
  }
  const AnswerBlock second(505'000);
  EXPECT_EQ(second.data(), was);
  const AnswerBlock third(505'000);
  EXPECT_NE(third.data(), was);
}

TEST(AnswerBlock, has_the_memory_that_is_said_of_its_size) {
  for (const std::size_t bytes : {0, 1, 4096, 4097, 16 << 10, (16 << 10) + 1, 65'537, 526'464, 9 << 20}) {
    const std::size_t said = AnswerBlock::capacity_for(bytes);
    EXPECT_GE(said, bytes);
    EXPECT_LE(said, bytes + std::max<std::size_t>(bytes / 32, 16 << 10)) << bytes;
    if (bytes > 0) EXPECT_EQ(AnswerBlock(bytes).capacity(), said);
  }
}

TEST(AnswerBlock, keeps_its_bytes_when_it_shrinks_and_is_moved) {
  AnswerBlock block(100);
  std::ranges::fill(block.bytes(), std::byte{7});
  block.resize(10);
  AnswerBlock moved = std::move(block);
  EXPECT_EQ(block.size(), 0u);
  ASSERT_EQ(moved.size(), 10u);
  EXPECT_TRUE(std::ranges::all_of(moved.bytes(), [](std::byte b) { return b == std::byte{7}; }));
  moved.resize(100);
  EXPECT_EQ(moved.bytes()[50], std::byte{7}) << "within its capacity";
}

TEST(AnswerBlock, gives_memory_back_that_it_does_not_need) {
  AnswerBlock block(10'000);
  std::ranges::fill(block.bytes(), std::byte{7});
  const std::byte* const was = block.data();
  block.resize(700);
  block.shrink();
  ASSERT_EQ(block.size(), 700u);
  EXPECT_LE(block.capacity(), 4096u);
  EXPECT_TRUE(std::ranges::all_of(block.bytes(), [](std::byte b) { return b == std::byte{7}; }));
  EXPECT_EQ(AnswerBlock(10'000).data(), was);
  AnswerBlock large(500'000);
  large.resize(400'000);
  const std::byte* const stays = large.data();
  large.shrink();
  EXPECT_EQ(large.data(), stays) << "a copy would take longer";
}

TEST(AnswerBlock, idle_ones_of_other_sizes_make_room) {
  const std::byte* small = nullptr;
  {
    std::vector<AnswerBlock> many;
    for (int i = 0; i < 128; ++i) many.emplace_back(600'000);
  }
  {
    AnswerBlock block(900'000);
    small = block.data();
  }
  EXPECT_EQ(AnswerBlock(900'000).data(), small);
}

}  // namespace
}  // namespace damacy
