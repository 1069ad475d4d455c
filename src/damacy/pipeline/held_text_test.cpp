#include "damacy/pipeline/held_text.h"

#include <gtest/gtest.h>

namespace damacy {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::vector<std::int64_t> ids(std::int64_t count) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(i);
  return out;
}

TEST(held_text, at_the_cap_names_the_first_batches_and_the_setting) {
  Config config;
  Slots::Added added;
  added.slots = 14;
  EXPECT_EQ(held_text(config, {2 * kGiB, 2 * kGiB}, 128 * kMiB, added, ids(16)),
            "every slot is held by the consumer: 2 slots and 14 added ones (keep_bytes 2147483648): drop batches 0, 1, "
            "2 (+13 more), or raise keep_bytes");
}

TEST(held_text, without_keep_bytes_names_all_batches_and_n_batches) {
  EXPECT_EQ(held_text({}, {}, kMiB, {}, ids(4)),
            "every slot is held by the consumer: release batch 0, 1, 2, 3 and drop their tensors, or raise n_batches");
}

TEST(held_text, of_a_cap_below_one_batch_says_what_one_takes) {
  EXPECT_EQ(held_text({}, {1000, 1000}, 4096, {}, ids(2)),
            "every slot is held by the consumer: 2 slots and 0 added ones (keep_bytes 1000): drop batches 0, 1, or "
            "raise keep_bytes; one batch takes 4096 bytes");
}

TEST(held_text, says_where_max_gpu_memory_bytes_is_the_cap) {
  Config config;
  config.max_gpu_memory_bytes = 9000;
  Slots::Added added;
  added.slots = 1;
  EXPECT_EQ(held_text(config, {4500, 8000}, 4096, added, ids(3)),
            "every slot is held by the consumer: 2 slots and 1 added ones (keep_bytes 8000, of which "
            "max_gpu_memory_bytes 9000 leaves 4500): drop batches 0, 1, 2, or raise max_gpu_memory_bytes");
}

TEST(held_text, says_when_memory_was_the_cap) {
  Slots::Added added;
  added.slots = 1;
  added.refusal = "no memory for a buffer of 4096 bytes";
  EXPECT_EQ(held_text({}, {8192, 8192}, 4096, added, ids(3)),
            "every slot is held by the consumer: 2 slots and 1 added ones (keep_bytes 8192); no memory for another "
            "one: no memory for a buffer of 4096 bytes: drop batches 0, 1, 2");
}

}  // namespace
}  // namespace damacy
