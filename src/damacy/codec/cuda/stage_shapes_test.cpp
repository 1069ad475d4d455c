// The shapes of the sequence kernel on the GPUs there are: as measured on an H200, and what fits elsewhere.
#include "damacy/codec/cuda/stage_shapes.h"

#include <gtest/gtest.h>

namespace damacy::gpu {
namespace {

GpuLimits limits_of(u32 multiprocessors, u32 shared_kib, u32 reserved_bytes, u32 blocks) {
  return {multiprocessors, shared_kib << 10, (shared_kib << 10) - reserved_bytes, reserved_bytes, blocks};
}

const GpuLimits kT4 = limits_of(40, 64, 0, 16);            // 7.5
const GpuLimits kA100 = limits_of(108, 164, 1024, 32);     // 8.0
const GpuLimits kA10 = limits_of(72, 100, 1024, 16);       // 8.6
const GpuLimits kL40 = limits_of(142, 100, 1024, 24);      // 8.9
const GpuLimits kH200 = limits_of(132, 228, 1024, 32);     // 9.0
const GpuLimits kB200 = limits_of(148, 228, 1024, 32);     // 10.0
const GpuLimits kRtx5090 = limits_of(170, 100, 1024, 24);  // 12.0

u32 lanes_for(u32 blocks, const GpuLimits& limits) {
  WaveShape shape{};
  shape.sequence_blocks = blocks;
  return StageShapes::choose(shape, limits).sequence_lanes;
}

// What was measured to be best on an H200, in rounds of 4 warps of 10 lanes or 3 of 14.
u32 measured(u32 blocks, u32 multiprocessors) {
  for (const u32 lanes : {1, 2, 4, 5, 8, 10})
    if (blocks <= multiprocessors * 4 * lanes) return lanes;
  return (blocks - 1) / (multiprocessors * 42) < (blocks - 1) / (multiprocessors * 40) ? 14 : 10;
}

TEST(StageShapes, on_an_h200_are_those_that_were_measured) {
  for (u32 blocks = 1; blocks < 132 * 400; blocks += 1 + blocks / 1000)
    ASSERT_EQ(lanes_for(blocks, kH200), measured(blocks, 132)) << blocks;
}

TEST(StageShapes, fit_a_block_and_a_multiprocessor_of_every_gpu) {
  for (const GpuLimits& limits : {kT4, kA100, kA10, kL40, kH200, kB200, kRtx5090})
    for (u32 blocks = 1; blocks < 100'000; blocks += 1 + blocks / 100) {
      const u32 lanes = lanes_for(blocks, limits);
      ASSERT_GE(StageShapes::sequence_warps(lanes, limits), 1u) << limits.shared_bytes << " " << blocks;
      ASSERT_LE(lanes * sizeof(SequenceMemory) + sizeof(SequenceSlots<1>) * lanes, limits.shared_bytes_per_block);
    }
}

// With 228 KiB taken for granted it was 10 where 100 KiB are.
TEST(StageShapes, put_as_many_sequences_in_flight_as_there_is_room_for) {
  const auto in_flight = [](const GpuLimits& limits) {
    const u32 lanes = lanes_for(1u << 20, limits);
    return lanes * StageShapes::sequence_warps(lanes, limits);
  };
  EXPECT_EQ(in_flight(kT4), 12u);
  EXPECT_EQ(in_flight(kA100), 30u);
  EXPECT_EQ(in_flight(kA10), 16u);
  EXPECT_EQ(in_flight(kL40), 16u);
  EXPECT_EQ(in_flight(kRtx5090), 16u);
  EXPECT_EQ(in_flight(kB200), 42u);
}

TEST(StageShapes, keep_all_schedulers_of_a_small_multiprocessor_at_work) {
  EXPECT_EQ(lanes_for(142 * 16, kL40), 4u);
  EXPECT_EQ(lanes_for(142 * 4, kL40), 1u);
  EXPECT_EQ(lanes_for(40 * 8, kT4), 2u);
}

}  // namespace
}  // namespace damacy::gpu
