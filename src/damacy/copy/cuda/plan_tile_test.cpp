// The tile bodies of the device's executor, run on the host thread by thread, against element loops.
#include "damacy/copy/cuda/plan_tile.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <set>

#include "support/random_plans.h"

namespace damacy::copy_cuda {
namespace {

// Thread by thread, as between two barriers each does what it does whenever the others come.
template <class Step>
void each_thread(Step step) {
  for (u32 thread = 0; thread < kPlanThreads; ++thread) step(thread);
}

template <class T>
void transpose(const TileWork& work) {
  std::vector<T> shared(kTransposeBytes / sizeof(T), T{});
  each_thread([&](u32 thread) { take_transposed(work, shared.data(), thread); });
  each_thread([&](u32 thread) { put_transposed(work, shared.data(), thread); });
}

void transpose_any(const TileWork& work) {
  if (work.record.to_bytes == 8) return transpose<u64>(work);
  if (work.record.to_bytes == 4) return transpose<u32>(work);
  if (work.record.to_bytes == 2) return transpose<u16>(work);
  transpose<u8>(work);
}

Way run_tile(const TileRecord& record, std::span<const u64> bases) {
  const TileWork work(record, bases[record.src_slot], bases[record.dst_slot]);
  const Way way = way_of(work);
  if (way == Way::transposed)
    transpose_any(work);
  else if (way == Way::elements || way == Way::bytes)
    each_thread([&](u32 thread) { do_elements<true>(work, way == Way::elements, thread); });
  else
    each_thread([&](u32 thread) { move_tile(work, way, thread); });
  return way;
}

void run(const copy::Plan& plan, std::span<const u64> bases, std::set<Way>& ways) {
  for (const auto& phase : plan.phases())
    for (const TileRecord& record : tile_records(phase)) ways.insert(run_tile(record, bases));
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
  for (const Way way :
       {Way::parts_1, Way::parts_2, Way::parts_4, Way::parts_8, Way::parts_16, Way::transposed, Way::elements})
    EXPECT_TRUE(ways.contains(way)) << static_cast<int>(way);
}

// Rows of small elements that begin at every address modulo 16 on both sides; `apart`: bytes between them there.
template <class T>
void move_rows_at_all_alignments(Dtype dtype, std::int64_t apart) {
  constexpr std::int64_t kBytes = sizeof(T), kMost = 16 / kBytes, kRow = 92 / kBytes;
  const copy::Slot line{dtype, {600}, {kBytes}, true};
  for (std::int64_t from = 0; from <= kMost; ++from)
    for (std::int64_t to = 0; to <= kMost; ++to) {
      const copy::Copy copy{{0, kBytes * from, {92, kBytes}}, {1, kBytes * to, {apart, kBytes}}, {5, kRow}, {}};
      const auto plan = copy::compile({line, line}, {copy});
      alignas(16) T src[600], got[600] = {}, want[600] = {};
      for (u32 i = 0; i < 600; ++i) src[i] = static_cast<T>(i % 251 + 1);
      std::set<Way> ways;
      run(*plan, std::vector{reinterpret_cast<u64>(src), reinterpret_cast<u64>(got)}, ways);
      copy::testing::run_by_elements(*plan, std::vector{reinterpret_cast<u64>(src), reinterpret_cast<u64>(want)});
      EXPECT_EQ(ways, std::set{Way::windows});
      EXPECT_TRUE(std::equal(got, got + 600, want)) << from << " " << to;
    }
}

TEST(PlanTiles, move_rows_between_any_two_alignments) {
  for (const std::int64_t apart : {100, 96, 92}) {  // the last: end to end
    move_rows_at_all_alignments<u32>(Dtype::u32, apart);
    move_rows_at_all_alignments<u16>(Dtype::u16, apart);
    move_rows_at_all_alignments<u8>(Dtype::u8, apart);
  }
}

// Of memory that ends with the first and the last row, so that a sanitizer sees what is read beyond.
TEST(PlanTiles, read_nothing_around_the_rows) {
  for (const bool turned : {false, true})
    for (std::int64_t before = 0; before < 16; before += 4) {
      const std::vector<u8> src(static_cast<std::size_t>(before + 3 * 100 + 92), 7);
      std::vector<u8> got(4 * 92);
      const std::int64_t first = turned ? before + 300 : before, stride = turned ? -100 : 100;
      const copy::Slot line{Dtype::u8, {static_cast<std::int64_t>(src.size())}, {1}, true};
      const copy::Copy copy{{0, first, {stride, 1}}, {1, 0, {92, 1}}, {4, 92}, {}};
      std::set<Way> ways;
      run(*copy::compile({line, line}, {copy}),
          std::vector{reinterpret_cast<u64>(src.data()), reinterpret_cast<u64>(got.data())}, ways);
      EXPECT_EQ(ways, std::set{Way::windows});
      EXPECT_EQ(got, std::vector<u8>(4 * 92, 7));
    }
}

TEST(PlanTiles, reach_strides_and_offsets_beyond_32_bits) {
  constexpr std::int64_t kStride = std::int64_t{3} << 30;
  const std::size_t bytes = 2 * static_cast<std::size_t>(kStride) + 4096;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) GTEST_SKIP() << "no sparse mapping of 6 GiB";
  auto* memory = static_cast<u8*>(at);
  for (std::int64_t i = 0; i < 300; ++i) memory[i / 100 * kStride + i % 100] = static_cast<u8>(i % 251 + 1);
  const copy::Slot apart{Dtype::u8, {3, 100}, {kStride, 1}, true}, dense{Dtype::u8, {3, 100}, {100, 1}, true};
  const auto plan = copy::compile({apart, dense}, {{{0, 0, {kStride, 1}}, {1, 0, {100, 1}}, {3, 100}, {}}});
  u8 got[300] = {}, want[300] = {};
  std::set<Way> ways;
  run(*plan, std::vector{reinterpret_cast<u64>(memory), reinterpret_cast<u64>(got)}, ways);
  copy::testing::run_by_elements(*plan, std::vector{reinterpret_cast<u64>(memory), reinterpret_cast<u64>(want)});
  munmap(at, bytes);
  EXPECT_EQ(want[299], 299 % 251 + 1);
  EXPECT_TRUE(std::equal(got, got + 300, want));
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
