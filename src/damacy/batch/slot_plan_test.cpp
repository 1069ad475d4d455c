#include "damacy/batch/slot_plan.h"

#include <gtest/gtest.h>

#include "damacy/core/error.h"

namespace damacy {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

Machine on_host(std::optional<std::int64_t> free) {
  Machine machine;
  if (free) machine.host_bytes = static_cast<std::uint64_t>(*free);
  machine.physical_bytes = std::uint64_t{64} << 30;
  return machine;
}
Machine on_gpu(std::int64_t free) {
  Machine machine = on_host(0);
  machine.gpu = true;
  machine.gpu_bytes = static_cast<std::uint64_t>(free);
  return machine;
}

TEST(keep_limit, unset_is_nothing_for_a_pipeline) {
  EXPECT_EQ(keep_limit({}, on_host(64 * kGiB), kMiB, /*choose=*/false).bytes, 0);
}

TEST(keep_limit, unset_is_the_larger_of_2_gib_and_8_batches_where_it_is_chosen) {
  EXPECT_EQ(keep_limit({}, on_host(64 * kGiB), kMiB, true).bytes, 2 * kGiB);
  EXPECT_EQ(keep_limit({}, on_host(64 * kGiB), kGiB, true).bytes, 8 * kGiB);
  EXPECT_EQ(keep_limit({}, on_host({}), kMiB, true).bytes, 2 * kGiB);
  EXPECT_GT(keep_limit({}, on_host({}), std::int64_t{1} << 62, true).bytes, 2 * kGiB);
}

TEST(keep_limit, chosen_it_is_a_quarter_of_the_hosts_free_memory_or_an_eighth_of_the_gpus_at_most) {
  EXPECT_EQ(keep_limit({}, on_host(4 * kGiB), kMiB, true).bytes, kGiB);
  EXPECT_EQ(keep_limit({}, on_gpu(16 * kGiB), kGiB, true).bytes, 2 * kGiB);
  EXPECT_EQ(keep_limit({}, on_host(0), kMiB, true).bytes, 0);
}

TEST(keep_limit, what_is_set_counts_whatever_is_free) {
  Config config;
  config.keep_bytes = 5 * kGiB;
  EXPECT_EQ(keep_limit(config, on_host(kGiB), kMiB, true).bytes, 5 * kGiB);
  EXPECT_EQ(keep_limit(config, on_host({}), kMiB, false).bytes, 5 * kGiB);
  config.keep_bytes = 0;
  EXPECT_EQ(keep_limit(config, on_host(64 * kGiB), kMiB, true).bytes, 0);
}

TEST(keep_limit, max_gpu_memory_bytes_bounds_slots_and_added_ones_together) {
  Config config;
  config.device_buffer_bytes = kGiB;
  config.max_gpu_memory_bytes = kGiB + 5 * kMiB;
  EXPECT_EQ(keep_limit(config, on_host(64 * kGiB), kMiB, true).bytes, 3 * kMiB);
  config.keep_bytes = 2 * kMiB;
  EXPECT_EQ(keep_limit(config, on_host({}), kMiB, false).bytes, 2 * kMiB);
  config.max_gpu_memory_bytes = kGiB + 2 * kMiB;
  EXPECT_EQ(keep_limit(config, on_host({}), kMiB, false).bytes, 0);
}

std::string refusal(const Config& config, const Machine& machine, std::int64_t elements) {
  try {
    static_cast<void>(plan_slots(config, machine, array_slot_bytes(config.batch_size, elements, config.dtype), false));
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::oom);
    return error.what();
  }
  return "";
}

TEST(plan_slots, has_whole_slots_of_256_bytes) {
  Config config;
  config.batch_size = 3;
  config.n_batches = 5;
  config.keep_bytes = 1000;
  const SlotPlan plan = plan_slots(config, on_host(kGiB), array_slot_bytes(3, 100, Dtype::f32), false);
  EXPECT_EQ(plan.count, 5);
  EXPECT_EQ(plan.bytes, 1280);
  EXPECT_EQ(plan.keep.bytes, 1000);
}

TEST(plan_slots, refuses_what_fits_neither_the_machine_nor_max_gpu_memory_bytes_and_says_what_would) {
  Config config;
  config.batch_size = 8;
  EXPECT_NE(refusal(config, on_host(kGiB), 2 * kGiB).find("a batch_size of at most 4 would fit"), std::string::npos);
  EXPECT_NE(refusal(config, on_host(kGiB), 64 * kGiB).find("samples must be smaller"), std::string::npos);
  EXPECT_NE(refusal(config, on_host(kGiB), std::int64_t{1} << 61).find("beyond 2**63 bytes"), std::string::npos);
  config.max_gpu_memory_bytes = config.device_buffer_bytes + 63 * kMiB;
  EXPECT_NE(refusal(config, on_host(kGiB), kMiB).find("4362076160 would fit"), std::string::npos);
  config.max_gpu_memory_bytes += kMiB;
  EXPECT_EQ(refusal(config, on_host(kGiB), kMiB), "");
}

}  // namespace
}  // namespace damacy
