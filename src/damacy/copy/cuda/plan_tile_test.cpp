// The tile bodies of the device's executor, run on the host thread by thread, against element loops.
#include "damacy/copy/cuda/plan_tile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "damacy/copy/random_plans.h"

namespace damacy::copy_cuda {
namespace {

template <class T>
void transpose(const TileWork& work) {
  std::vector<T> shared(kTransposeBytes / sizeof(T), T{});
  for (u32 thread = 0; thread < kPlanThreads; ++thread) take_transposed(work, shared.data(), thread);
  for (u32 thread = 0; thread < kPlanThreads; ++thread) put_transposed(work, shared.data(), thread);
}

Way run_tile(const copy::Piece& piece, u32 tile, std::span<const u64> bases) {
  TileWork work;
  prepare(work, piece, tile, bases[piece.src_slot], bases[piece.dst_slot]);
  for (u32 which = 0; which < 4; ++which) prepare_divisor(work, which);
  if (work.way == Way::transposed) {
    if (work.bytes == 8) transpose<u64>(work);
    if (work.bytes == 4) transpose<u32>(work);
    if (work.bytes == 2) transpose<u16>(work);
    if (work.bytes == 1) transpose<u8>(work);
    return work.way;
  }
  for (u32 thread = 0; thread < kPlanThreads; ++thread)
    work.way == Way::rows ? move_rows(work, thread) : do_elements<true>(work, thread);
  return work.way;
}

void run(const copy::Plan& plan, std::span<const u64> bases, std::set<Way>& ways) {
  for (const auto& phase : plan.phases())
    for (const auto& piece : phase.pieces)
      for (u32 tile = 0; tile < piece.tiles(); ++tile) ways.insert(run_tile(piece, tile, bases));
}

TEST(PlanTiles, do_what_element_loops_do_at_any_alignment) {
  const char* wanted = std::getenv("DAMACY_PLAN_CASES");
  const long cases = wanted != nullptr ? std::atol(wanted) : 2000;
  std::set<Way> ways;
  for (std::uint32_t seed = 0; seed < cases && !HasFailure(); ++seed) {
    const copy::testing::RandomPlan random(seed);
    auto got = random.memory(), want = random.memory();
    run(*random.plan(), got.bases, ways);
    copy::testing::run_by_elements(*random.plan(), want.bases);
    EXPECT_TRUE(got.bytes == want.bytes) << "seed " << seed << "\n" << random.plan()->describe();
  }
  EXPECT_TRUE(ways.contains(Way::rows));
  EXPECT_TRUE(ways.contains(Way::transposed));
  EXPECT_TRUE(ways.contains(Way::elements));
}

// Rows of two-byte elements that begin at every address modulo 16 on both sides.
TEST(PlanTiles, move_rows_between_any_two_alignments) {
  const copy::Slot line{Dtype::u16, {600}, {2}, true};
  for (std::int64_t from = 0; from < 9; ++from)
    for (std::int64_t to = 0; to < 9; ++to) {
      const copy::Copy copy{{0, 2 * from, {90, 2}}, {1, 2 * to, {94, 2}}, {5, 45}, {}};
      const auto plan = copy::compile({line, line}, {copy});
      alignas(16) u16 src[600], got[600] = {}, want[600] = {};
      for (u32 i = 0; i < 600; ++i) src[i] = static_cast<u16>(i + 1);
      std::set<Way> ways;
      run(*plan, std::vector{reinterpret_cast<u64>(src), reinterpret_cast<u64>(got)}, ways);
      copy::testing::run_by_elements(*plan, std::vector{reinterpret_cast<u64>(src), reinterpret_cast<u64>(want)});
      EXPECT_EQ(ways, std::set{Way::rows});
      EXPECT_TRUE(std::equal(got, got + 600, want)) << from << " " << to;
    }
}

TEST(PlanTiles, addresses_that_no_device_loads_from_go_byte_by_byte) {
  const copy::Slot line{Dtype::f64, {40}, {8}, true};
  copy::Copy copy{{0, 0, {8}}, {1, 0, {8}}, {40}, {true, true}};
  const auto plan = copy::compile({line, line}, {copy});
  alignas(16) std::byte src[336], got[336] = {}, want[336] = {};
  for (u32 i = 0; i < 336; ++i) src[i] = static_cast<std::byte>(i * 7);
  std::set<Way> ways;
  run(*plan, std::vector{reinterpret_cast<u64>(src) + 3, reinterpret_cast<u64>(got) + 5}, ways);
  copy::testing::run_by_elements(*plan, std::vector{reinterpret_cast<u64>(src) + 3, reinterpret_cast<u64>(want) + 5});
  EXPECT_EQ(ways, std::set{Way::bytes});
  EXPECT_TRUE(std::equal(got, got + 336, want));
}

}  // namespace
}  // namespace damacy::copy_cuda
