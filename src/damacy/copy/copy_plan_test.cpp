// Copy plans: what compile() refuses, and what runs must do, against element loops.
#include "damacy/copy/copy_plan.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>

#include "damacy/core/error.h"
#include "support/random_plans.h"

namespace damacy::copy {
namespace {

using testing::RandomPlan;

Slot line(std::int64_t count, bool writable = true) {
  return {Dtype::i32, {count}, {4}, writable};
}

Copy copy_of(std::uint32_t src, std::int64_t src_at, std::uint32_t dst, std::int64_t dst_at, std::int64_t count) {
  return {{src, 4 * src_at, {4}}, {dst, 4 * dst_at, {4}}, {count}, {}};
}

std::string refusal(std::vector<Slot> slots, std::vector<Copy> copies) {
  try {
    compile(std::move(slots), std::move(copies));
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

// DAMACY_PLAN_CASES: how many; a million takes some minutes.
TEST(CopyPlan, random_plans_do_what_element_loops_do) {
  const char* wanted = std::getenv("DAMACY_PLAN_CASES");
  const long cases = wanted != nullptr ? std::atol(wanted) : 3000;
  for (std::uint32_t seed = 0; seed < cases && !HasFailure(); ++seed) {
    const RandomPlan random(seed);
    const auto got = random.memory(), want = random.memory();
    run(*random.plan(), got.bases, 1 + seed % 2);
    testing::run_by_elements(*random.plan(), want.bases);
    EXPECT_TRUE(got.bytes == want.bytes) << "seed " << seed << "\n" << random.plan()->describe();
  }
}

// Large enough for helpers, and scattered enough to be put in the order of memory.
TEST(CopyPlan, threads_share_a_plan_and_change_nothing) {
  constexpr std::int64_t kRows = 60000, kRow = 20;
  const Slot field{Dtype::f64, {kRows, kRow}, {kRow * 8, 8}, true};
  const Slot buffer{Dtype::f64, {2 * kRows * 3}, {8}, true};
  const auto edge = [&](std::int64_t first, std::int64_t at) {
    return Copy{{0, 8 * first, {kRow * 8, 8}}, {1, 8 * at, {24, 8}}, {kRows, 3}, {}};
  };
  const auto plan = compile({field, buffer}, {edge(0, 0), edge(kRow - 3, 3 * kRows)});
  std::vector<double> values(kRows * kRow), one(2 * kRows * 3), four(one.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  const auto address = [](auto& vector) { return reinterpret_cast<std::uint64_t>(vector.data()); };
  run(*plan, std::vector{address(values), address(one)});
  run(*plan, std::vector{address(values), address(four)}, 4);
  EXPECT_EQ(one[3 * kRows], kRow - 3);
  EXPECT_EQ(one, four);
}

TEST(CopyPlan, equal_input_gives_equal_plans_and_other_input_others) {
  const auto plan = compile({line(8), line(8)}, {copy_of(0, 0, 1, 0, 8)});
  EXPECT_EQ(*plan, *compile({line(8), line(8)}, {copy_of(0, 0, 1, 0, 8)}));
  EXPECT_EQ(plan->hash(), compile({line(8), line(8)}, {copy_of(0, 0, 1, 0, 8)})->hash());
  EXPECT_FALSE(*plan == *compile({line(8), line(8)}, {copy_of(0, 0, 1, 1, 7)}));
  EXPECT_FALSE(*plan == *compile({line(9), line(8)}, {copy_of(0, 0, 1, 0, 8)}));
}

TEST(CopyPlan, boxes_may_reach_their_slots_end_and_not_a_byte_further) {
  EXPECT_EQ(refusal({line(8), line(8)}, {copy_of(0, 3, 1, 0, 5)}), "");
  EXPECT_NE(refusal({line(8), line(8)}, {copy_of(0, 4, 1, 0, 5)}), "");
  EXPECT_NE(refusal({line(8), line(8)}, {copy_of(0, 0, 1, -1, 5)}), "");
  EXPECT_NE(refusal({line(8), line(8)}, {copy_of(0, 0, 1, 4, 5)}), "");
  Copy odd = copy_of(0, 0, 1, 0, 8);
  odd.src.offset = 1;
  EXPECT_NE(refusal({line(8), line(8)}, {odd}), "");
  odd.src.strides = {INT64_MAX / 2};
  EXPECT_NE(refusal({line(8), line(8)}, {odd}), "");
  EXPECT_NE(refusal({line(8), line(8)}, {copy_of(0, 0, 2, 0, 1)}), "");
  EXPECT_NE(refusal({line(8), line(8, false)}, {copy_of(0, 0, 1, 0, 1)}).find("read-only"), std::string::npos);
}

TEST(CopyPlan, destinations_that_share_an_element_are_refused_and_neighbours_are_not) {
  EXPECT_EQ(refusal({line(8), line(8)}, {copy_of(0, 0, 1, 0, 4), copy_of(0, 0, 1, 4, 4)}), "");
  EXPECT_NE(refusal({line(8), line(8)}, {copy_of(0, 0, 1, 0, 5), copy_of(0, 0, 1, 4, 4)}), "");
  EXPECT_EQ(refusal({line(8)}, {copy_of(0, 0, 0, 4, 4)}), "");
  EXPECT_NE(refusal({line(8)}, {copy_of(0, 1, 0, 4, 4)}), "");
  // Two columns of one matrix: their addresses interleave, their elements do not meet.
  const Slot matrix{Dtype::i32, {4, 4}, {16, 4}, true};
  const auto column = [](std::int64_t at) { return Copy{{0, 0, {4}}, {1, 4 * at, {16}}, {4}, {}}; };
  EXPECT_EQ(refusal({line(4), matrix}, {column(0), column(1)}), "");
  EXPECT_NE(refusal({line(4), matrix}, {column(1), column(1)}), "");
  // Every second element against every third: only enumeration shows whether they overlap.
  const Copy second{{0, 0, {4}}, {1, 0, {8}}, {4}, {}}, third{{0, 0, {4}}, {1, 12, {12}}, {2}, {}};
  EXPECT_NE(refusal({line(8), line(8)}, {second, third}), "");
  Copy ninth = third;
  ninth.extents = {1};
  EXPECT_EQ(refusal({line(8), line(8)}, {second, ninth}), "");
  EXPECT_NE(refusal({line(4), line(4)}, {Copy{{0, 0, {4}}, {1, 0, {0}}, {2}, {}}}), "");
}

TEST(CopyPlan, additions_may_overlap_and_go_one_after_the_other) {
  auto first = copy_of(0, 0, 1, 0, 4), second = copy_of(0, 0, 1, 2, 4);
  first.op.add = second.op.add = true;
  const auto plan = compile({line(8), line(8)}, {first, second});
  EXPECT_EQ(plan->phases().size(), 2u);
  std::int32_t src[8] = {1, 2, 3, 4}, dst[8] = {};
  run(*plan, std::vector{reinterpret_cast<std::uint64_t>(src), reinterpret_cast<std::uint64_t>(dst)});
  EXPECT_EQ(std::vector<std::int32_t>(dst, dst + 8), (std::vector<std::int32_t>{1, 2, 4, 6, 3, 4, 0, 0}));
  second.op.add = false;
  EXPECT_NE(refusal({line(8), line(8)}, {first, second}), "");
}

TEST(CopyPlan, given_arrays_may_overlap_though_their_slots_do_not) {
  const auto plan = compile({line(8), line(8), line(8)}, {copy_of(0, 0, 1, 0, 4), copy_of(0, 0, 2, 0, 4)});
  EXPECT_NO_THROW(check_overlaps(*plan, std::vector<std::uint64_t>{0x1000, 0x2000, 0x3000}));
  EXPECT_NO_THROW(check_overlaps(*plan, std::vector<std::uint64_t>{0x1000, 0x2000, 0x2010}));
  EXPECT_THROW(check_overlaps(*plan, std::vector<std::uint64_t>{0x1000, 0x2000, 0x2000}), Error);
  EXPECT_THROW(check_overlaps(*plan, std::vector<std::uint64_t>{0x1000, 0x2000, 0x200c}), Error);
}

TEST(CopyPlan, arrays_that_interleave_pass_each_other_and_those_a_little_closer_do_not) {
  const Slot every_second{Dtype::i32, {8}, {8}, true};
  const auto to = [](std::uint32_t slot) { return Copy{{0, 0, {4}}, {slot, 0, {8}}, {8}, {}}; };
  const auto plan = compile({line(8), every_second, every_second}, {to(1), to(2)});
  const auto check = [&](std::uint64_t a, std::uint64_t b) {
    check_overlaps(*plan, std::vector<std::uint64_t>{0x1000, a, b});
  };
  for (const std::uint64_t odd : {0x2004, 0x201c, 0x1ffc}) EXPECT_NO_THROW(check(0x2000, odd));
  for (const std::uint64_t wrong : {0x2003, 0x2005, 0x1ffd, 0x2008}) EXPECT_THROW(check(0x2000, wrong), Error);
}

TEST(CopyPlan, unsigned_numbers_are_not_negated) {
  Copy copy{{0, 0, {1}}, {1, 0, {1}}, {4}, {true, false}};
  EXPECT_THROW(compile({{Dtype::u8, {4}, {1}}, {Dtype::u8, {4}, {1}}}, {copy}), Error);
  EXPECT_NO_THROW(compile({{Dtype::i8, {4}, {1}}, {Dtype::i8, {4}, {1}}}, {copy}));
}

TEST(CopyPlan, offsets_beyond_four_gigabytes_are_reached) {
  constexpr std::int64_t kCount = std::int64_t{1} << 33;
  const std::size_t bytes = static_cast<std::size_t>(kCount);
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) GTEST_SKIP() << "no sparse mapping of 8 GiB";
  auto* memory = static_cast<std::uint8_t*>(at);
  const Slot huge{Dtype::u8, {2, kCount / 2}, {kCount / 2, 1}, true};
  // The last three columns of both rows, turned round.
  const Copy copy{{0, kCount / 2 - 1, {kCount / 2, -1}}, {1, 0, {3, 1}}, {2, 3}, {}};
  const auto plan = compile({huge, {Dtype::u8, {2, 3}, {3, 1}, true}}, {copy});
  for (int i = 0; i < 3; ++i) {
    memory[kCount / 2 - 3 + i] = static_cast<std::uint8_t>(1 + i);
    memory[kCount - 3 + i] = static_cast<std::uint8_t>(11 + i);
  }
  std::uint8_t out[6] = {};
  run(*plan, std::vector{reinterpret_cast<std::uint64_t>(memory), reinterpret_cast<std::uint64_t>(out)});
  munmap(at, bytes);
  EXPECT_EQ(std::vector<int>(out, out + 6), (std::vector<int>{3, 2, 1, 13, 12, 11}));
}

}  // namespace
}  // namespace damacy::copy
