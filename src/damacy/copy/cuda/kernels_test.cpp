// The kernels of placing, run on the host thread by thread, against the host copier: random boxes of random chunks.
// What they read lies in buffers of its own size, so that sanitizers see each byte too many.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "damacy/copy/cuda/elements.h"
#include "damacy/copy/cuda/rows.h"
#include "damacy/copy/cuda/shuffled.h"
#include "damacy/copy/gpu_plan/plan.h"
#include "support/random_placements.h"

namespace damacy::copy_cuda {
namespace {

using testing::Bytes;
using testing::RandomPlacement;

template <class From, class To>
using FromBytes = ShuffledKernel<From, To, kShuffleBytes>;
template <class From, class To>
using FromBits = ShuffledKernel<From, To, kShuffleBits>;

template <template <class, class> class Kernel, class... Ops>
void run_op(OpList<Ops...>, u32 op, const Group& group, u32 tile, u32 thread) {
  void (*const kernels[])(const Group&, u32, u32) = {Kernel<typename Ops::From, typename Ops::To>::run...};
  kernels[op](group, tile, thread);
}

void run_thread(u32 kernel, const Group& group, u32 tile, u32 thread) {
  if (kernel == kHugeFinished) return place_elements<u64, true>(group, tile, thread);
  if (kernel == kFinished) return place_elements<u32, true>(group, tile, thread);
  if (kernel == kHugeElements) return place_elements<u64>(group, tile, thread);
  if (kernel == kElements) return place_elements<u32>(group, tile, thread);
  if (kernel >= kFirstBitShuffled)
    return run_op<FromBits>(BitShuffledOps{}, kernel - kFirstBitShuffled, group, tile, thread);
  if (kernel >= kFirstShuffled) return run_op<FromBytes>(ShuffledOps{}, kernel - kFirstShuffled, group, tile, thread);
  run_op<RowKernel>(RowOps{}, kernel - kFirstRows, group, tile, thread);
}

class Image {
 public:
  explicit Image(const Plan& plan, std::span<const Placement> placements)
      : bytes_(Plan::image_bytes(placements) + 256) {
    void* at = bytes_.data();
    std::size_t space = bytes_.size();
    std::align(256, 1, at, space);
    address_ = reinterpret_cast<u64>(at);
    plan.write({static_cast<std::byte*>(at), Plan::image_bytes(placements)});
  }
  u64 address() const { return address_; }

 private:
  Bytes bytes_;
  u64 address_;
};

void run(const Launch& launch, u32 kernel, const Image& image) {
  for (u32 tile = 0; tile < launch.tiles; ++tile)
    for (u32 thread = 0; thread < kThreads; ++thread) run_thread(kernel, launch.group(image.address()), tile, thread);
}

void expect_as_on_host(const RandomPlacement& random) {
  const Bytes got = random.destination();
  random.clear_destination();
  testing::place_on_host(random.placement);
  EXPECT_TRUE(got == random.destination()) << random.text();
}

// Runs a placement both ways, each element stored once, and returns the kernel that did it. What has no kernel of its
// own also runs in 64 bits.
u32 compare(const RandomPlacement& random) {
  const Plan plan(std::span(&random.placement, 1));
  const Image image(plan, std::span(&random.placement, 1));
  const Launch& launch = plan.launches()[0];
  stored_bytes = 0;
  run(launch, launch.kernel, image);
  EXPECT_EQ(stored_bytes, random.placement.elements() * size_of(random.placement.op.to)) << random.text();
  expect_as_on_host(random);
  if (launch.kernel == kElements || launch.kernel == kFinished) {
    random.clear_destination();
    run(launch, launch.kernel + 1, image);
    expect_as_on_host(random);
  }
  return launch.kernel;
}

TEST(CopyKernels, place_random_boxes_as_the_host_copier_does) {
  std::set<u32> kernels;
  for (u32 seed = 0; seed < 6000 && !HasFailure(); ++seed) kernels.insert(compare(RandomPlacement(seed)));
  EXPECT_TRUE(kernels.contains(kElements));
  EXPECT_GE(kernels.size(), kElements / 2);
}

TEST(CopyKernels, do_every_conversion_of_their_own_in_plain_and_shuffled_chunks) {
  std::set<u32> kernels;
  const auto try_op = [&](const CopyOp& op, ChunkLayout::Shuffle shuffle, u32 seed) {
    testing::Wishes wishes;
    wishes.op = op;
    wishes.shuffle = shuffle;
    wishes.plain_rows = true;
    kernels.insert(compare(RandomPlacement(seed, wishes)));
  };
  for (u32 seed = 0; seed < 12 && !HasFailure(); ++seed) {
    for (const CopyOp& op : RowOps::kOps) try_op(op, ChunkLayout::Shuffle::none, seed);
    for (const CopyOp& op : ShuffledOps::kOps) try_op(op, ChunkLayout::Shuffle::bytes, seed);
    for (const CopyOp& op : BitShuffledOps::kOps) try_op(op, ChunkLayout::Shuffle::bits, seed);
  }
  for (u32 kernel = 0; kernel < kElements; ++kernel) EXPECT_TRUE(kernels.contains(kernel)) << kernel;
}

TEST(CopyKernels, do_every_pair_of_types) {
  for (int from = 0; from < kBatchDtypes; ++from)
    for (int to = 0; to < kBatchDtypes; ++to)
      for (u32 seed = 0; seed < 4 && !HasFailure(); ++seed) {
        testing::Wishes wishes;
        wishes.op = CopyOp{static_cast<Dtype>(from), static_cast<Dtype>(to), seed % 2 == 1};
        compare(RandomPlacement(seed, wishes));
      }
}

TEST(CopyKernels, finish_elements_of_every_pair_of_types_as_the_host_copier_does) {
  for (int from = 0; from < kBatchDtypes; ++from)
    for (int to = 0; to < kBatchDtypes; ++to)
      for (u32 seed = 0; seed < 60 && !HasFailure(); ++seed) {
        testing::Wishes wishes;
        wishes.op = CopyOp{static_cast<Dtype>(from), static_cast<Dtype>(to), seed % 2 == 1};
        wishes.finished = true;
        EXPECT_EQ(compare(RandomPlacement(90000 + seed, wishes)), kFinished);
      }
}

TEST(CopyKernels, place_many_boxes_of_one_image) {
  std::vector<std::unique_ptr<RandomPlacement>> randoms;
  std::vector<Placement> placements;
  for (u32 seed = 0; seed < 300; ++seed) {
    testing::Wishes wishes;
    wishes.finished = seed % 3 == 0;
    randoms.push_back(std::make_unique<RandomPlacement>(70000 + seed, wishes));
    placements.push_back(randoms.back()->placement);
  }
  const Plan plan(placements);
  const Image image(plan, placements);
  for (const Launch& launch : plan.launches()) run(launch, launch.kernel, image);
  for (const auto& random : randoms) expect_as_on_host(*random);
}

// Numbers beyond 32 bits: an axis of one element may have any stride, and a fill's source none.
TEST(CopyKernels, reach_what_is_far_apart) {
  RandomPlacement random(5);
  Placement& placement = random.placement;
  placement.rank = 2;
  placement.axes[0] = {1, i64{1} << 40, i64{1} << 41};
  placement.axes[1] = {1, i64{-1} << 40, i64{1} << 33};
  compare(random);
}

TEST(CopyPlan, takes_64_bit_numbers_where_32_bits_do_not_do) {
  Placement placement;
  placement.rank = 1;
  placement.axes[0] = {i64{3} << 31, 0, 4};
  placement.op = {Dtype::u16, Dtype::f32, false};
  placement.layout.chunk_bytes = 2;
  const Planned planned = plan_placement(placement);
  EXPECT_EQ(planned.kernel, kHugeElements);
  EXPECT_EQ(planned.tiles, (u64{3} << 31) / kTileElements);
}

TEST(CopyPlan, divides_exactly) {
  for (const u64 by :
       {u64{1}, u64{2}, u64{3}, u64{7}, u64{17}, u64{641}, u64{65537}, (u64{1} << 30) - 1, u64{1} << 30}) {
    Placement placement;
    placement.rank = 2;
    placement.axes[0] = {static_cast<i64>(by), 0, 2};
    placement.axes[1] = {1, 1, 1};
    const Divisor divisor = plan_placement(placement).record.axes[0].by_extent;
    for (const u64 times : {u64{0}, u64{1}, u64{2}, ((u64{1} << 31) - 1) / by})
      for (const u64 rest : {u64{0}, u64{1}, by / 2, by - 1})
        if (const u64 number = times * by + rest; rest < by && number < u64{1} << 31) {
          EXPECT_EQ(divide(static_cast<u32>(number), divisor), times) << number << " / " << by;
        }
  }
}

TEST(CopyPlan, finds_each_tile_of_each_record) {
  std::vector<Placement> placements;
  for (i64 i = 0; i < 200; ++i) {
    Placement placement;
    placement.rank = 1;
    placement.axes[0] = {i % 7 == 0 ? 5'000'000 : 1 + i, 2, 4};
    placement.op = {Dtype::u16, Dtype::f32, false};
    placement.layout.chunk_bytes = u64{1} << 30;
    placements.push_back(placement);
  }
  const Plan plan(placements);
  const Image image(plan, placements);
  ASSERT_EQ(plan.launches().size(), 1u);
  const Launch& launch = plan.launches()[0];
  EXPECT_EQ(launch.count, 200u);
  u32 tile = 0;
  for (u32 i = 0; i < launch.count; ++i)
    for (u32 k = 0; k < plan_placement(placements[i]).tiles; ++k, ++tile) {
      const Tile found = find_tile(launch.group(image.address()), tile);
      ASSERT_EQ(found.record - launch.group(image.address()).records, i);
      ASSERT_EQ(found.index, k);
    }
  EXPECT_EQ(tile, launch.tiles);
}

TEST(CopyPlan, drops_what_is_empty) {
  Placement placement;
  placement.rank = 1;
  placement.axes[0] = {0, 1, 1};
  EXPECT_TRUE(Plan(std::span(&placement, 1)).launches().empty());
}

}  // namespace
}  // namespace damacy::copy_cuda
