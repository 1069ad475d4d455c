#include "damacy/plan/batch_plan.h"

#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace damacy {
namespace {

std::shared_ptr<const Array> make_array(const Dims& shape, const Dims& chunk, const Dims& shard) {
  ArrayMetadata metadata;
  metadata.shape = shape;
  metadata.chunk_shape = chunk;
  metadata.shard_shape = shard;
  for (std::size_t i = 0; i < shape.size(); ++i) metadata.storage_order.push_back(static_cast<std::int64_t>(i));
  if (!(chunk == shard)) metadata.shards.push_back({shard, {}, metadata.storage_order, {}});
  return std::make_shared<Array>("a", nullptr, "", "zarr.json", Stamp{}, metadata, std::vector<std::string>{});
}

using Use = std::pair<const Array*, std::int64_t>;

// Which rows want which chunk, element by element.
std::map<Use, std::set<std::uint32_t>> brute_force(std::span<const PlannedPart> samples) {
  std::map<Use, std::set<std::uint32_t>> uses;
  for (std::uint32_t row = 0; row < samples.size(); ++row) {
    const Array& array = *samples[row].array;
    const Dims extents = samples[row].box.extents();
    for (std::int64_t e = 0; e < *product(extents.span()); ++e) {
      std::int64_t rest = e;
      Dims at(extents.size(), 0);
      for (std::size_t i = extents.size(); i-- > 0;) {
        at[i] = samples[row].box.start[i] + rest % extents[i];
        rest /= extents[i];
      }
      std::int64_t number = 0;
      for (std::size_t i = 0; i < at.size(); ++i)
        number = number * array.grid()[i] + at[i] / array.metadata().chunk_shape[i];
      uses[{&array, number}].insert(row);
    }
  }
  return uses;
}

std::map<Use, std::set<std::uint32_t>> listed(const BatchPlan& plan) {
  std::map<Use, std::set<std::uint32_t>> uses;
  for (const PlannedShard& shard : plan.shards)
    for (std::uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunk_count; ++c) {
      const PlannedChunk& chunk = plan.chunks[c];
      const Array& array = *plan.arrays[shard.array];
      EXPECT_EQ(array.index_in_shard(chunk_coordinates(array, chunk.number)), chunk.index_in_shard);
      EXPECT_EQ(array.shard_of_chunk(chunk_coordinates(array, chunk.number)), shard.shard);
      auto& rows = uses[{&array, chunk.number}];
      EXPECT_TRUE(rows.empty()) << "a chunk is listed twice";
      for (std::uint32_t u = chunk.first_use; u < chunk.first_use + chunk.use_count; ++u) rows.insert(plan.uses[u]);
      EXPECT_EQ(rows.size(), chunk.use_count);
    }
  return uses;
}

std::vector<PlannedPart> random_samples(std::mt19937& random) {
  const auto a = make_array({37, 50}, {5, 8}, {10, 16});
  const auto b = make_array({20, 20}, {7, 20}, {7, 20});
  std::vector<PlannedPart> samples;
  for (int i = 0; i < 9; ++i) {
    const auto array = random() % 3 == 0 ? b : a;
    Box box;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const auto start = static_cast<std::int64_t>(random() % 10);
      box.start.push_back(start);
      box.stop.push_back(start + 1 + static_cast<std::int64_t>(random() % 10));
    }
    samples.push_back({array, box});
  }
  return samples;
}

TEST(BatchPlan, lists_each_wanted_chunk_once_with_all_its_rows) {
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    const auto samples = random_samples(random);
    EXPECT_EQ(listed(plan_batch(samples)), brute_force(samples));
  }
}

TEST(BatchPlan, portions_together_list_every_chunk_once) {
  std::mt19937 random(2);
  for (int i = 0; i < 100; ++i) {
    const auto samples = random_samples(random);
    std::map<Use, std::set<std::uint32_t>> all;
    for (std::uint32_t portion = 0; portion < 3; ++portion)
      for (auto& [use, rows] : listed(plan_batch(samples, portion, 3))) EXPECT_TRUE(all.emplace(use, rows).second);
    EXPECT_EQ(all, brute_force(samples));
  }
}

TEST(BatchPlan, an_array_without_axes_is_one_chunk) {
  const std::vector<PlannedPart> samples{{make_array({}, {}, {}), Box{}}};
  EXPECT_EQ(plan_batch(samples).chunks.size(), 1u);
  EXPECT_EQ(count_chunks(*samples[0].array, samples[0].box), 1);
}

TEST(BatchPlan, a_batch_beyond_the_record_limit_is_planned_in_portions) {
  std::mt19937 random(3);
  const auto samples = random_samples(random);
  EXPECT_EQ(count_portions(samples, 1 << 16), 1u);
  EXPECT_GT(count_portions(samples, 4), 1u);
}

}  // namespace
}  // namespace damacy
