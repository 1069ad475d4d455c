#include "damacy/batch/memory_plan.h"

#include <map>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace damacy {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

Machine machine_of(std::size_t cores, bool gpu) {
  Machine machine;
  machine.cores = machine.rank_cores = cores;
  machine.physical_bytes = std::uint64_t{64} << 30;
  machine.open_files = 1024;
  machine.gpu = gpu;
  return machine;
}

Config config_of(std::int64_t host, std::int64_t device) {
  Config config;
  config.batch_size = 8;
  config.host_buffer_bytes = host;
  config.device_buffer_bytes = device;
  return config;
}

struct Sizes {
  std::int64_t host, device;
  std::size_t staging, slab, destination, scratch, images, frame_scratch, frame_images;
};

// The division of memory is measured (docs/design/two-engines.md): a change of these numbers is a change of speed.
TEST(plan_memory, divides_the_buffers_for_a_device_as_measured) {
  const Sizes cases[] = {
      {kGiB, 4 * kGiB, 536870912, 100663296, 182681600, 1461477376, 134217728, 730738688, 100662272},
      {2 * kGiB, 6 * kGiB, 536870912, 100663296, 301985792, 2415919104, 134217728, 1207959552, 100662272},
      {kMiB, kMiB, 524288, 24576, 40960, 352256, 131072, 176128, 97280},
      {1, 1, 4096, 4096, 4096, 4096, 4096, 2048, 512},
      {64 * kMiB, 100 * kGiB, 33554432, 8388608, 5960568832, 47684567040, 8388608, 23842283520, 6290432},
      {100 * kGiB, 64 * kMiB, 536870912, 1675264, 2793472, 22380544, 134217728, 11190272, 8391680},
      {123456789, 987654321, 61726720, 15429632, 46292992, 370384896, 15429632, 185192448, 11571200},
  };
  for (const Sizes& one : cases) {
    const MemoryPlan plan = plan_memory(config_of(one.host, one.device), machine_of(4, /*gpu=*/true));
    EXPECT_EQ(plan.waves.count, 10u);
    EXPECT_EQ(plan.staging, one.staging);
    EXPECT_EQ(plan.waves.slab, one.slab);
    EXPECT_EQ(plan.waves.destination, one.destination);
    EXPECT_EQ(plan.waves.scratch, one.scratch);
    EXPECT_EQ(plan.waves.images, one.images);
    EXPECT_EQ(plan.waves.frames.scratch_bytes, one.frame_scratch);
    EXPECT_EQ(plan.waves.frames.image_bytes, one.frame_images);
    EXPECT_EQ(plan.host_packed, static_cast<std::size_t>(one.host));
    EXPECT_EQ(plan.host_decoded, static_cast<std::size_t>(one.device));
    EXPECT_EQ(plan.scratch, 0u);
  }
}

TEST(plan_memory, of_the_cores_has_staging_and_a_chunk_a_reader) {
  Config config = config_of(kGiB, 4 * kGiB);
  const std::int64_t chunk = (kGiB - 128 * 1024) / 2;
  MemoryPlan plan = plan_memory(config, machine_of(4, false));
  EXPECT_EQ(plan.staging, static_cast<std::size_t>(kGiB));
  EXPECT_EQ(plan.chunk_bytes, chunk);
  EXPECT_EQ(plan.scratch, 4u * static_cast<std::size_t>(chunk));
  EXPECT_EQ(plan.waves.count, 0u);
  config.max_chunk_uncompressed_bytes = 5000;
  config.n_compute_threads = 3;
  plan = plan_memory(config, machine_of(4, false));
  EXPECT_EQ(plan.scratch, 7u * 8192u);
  EXPECT_EQ(plan.chunk_bytes, 5000);
  config.max_chunk_uncompressed_bytes = 4096;
  config.device_buffer_bytes = 150'000;
  EXPECT_EQ(plan_memory(config, machine_of(4, false)).scratch, 7u * 4096u);
  config.device_buffer_bytes = 20'000;
  config.host_buffer_bytes = 20'000;
  EXPECT_EQ(plan_memory(config, machine_of(4, false)).scratch, 20'000u);
}

TEST(plan_memory, limits_metadata_and_open_files) {
  Machine machine = machine_of(4, false);
  Config config = config_of(kGiB, kGiB);
  EXPECT_EQ(plan_memory(config, machine).catalog.bytes, static_cast<std::uint64_t>(kGiB / 4));
  EXPECT_EQ(plan_memory(config_of(1, 1), machine).catalog.bytes, static_cast<std::uint64_t>(kMiB));
  config.n_zarrs_meta_cache = 3;
  config.n_shards_meta_cache = 5;
  EXPECT_EQ(plan_memory(config, machine).catalog.arrays, 3u);
  EXPECT_EQ(plan_memory(config, machine).catalog.shards, 5u);
  for (const auto& [files, open] : {std::pair{0ull, 8u}, std::pair{1024ull, 256u}, std::pair{~0ull, 4096u}}) {
    machine.open_files = files;
    EXPECT_EQ(plan_memory(config, machine).catalog.open_files, open);
  }
}

TEST(plan_memory, counts_threads) {
  Config config = config_of(kGiB, kGiB);
  config.n_io_threads = 12;
  config.n_compute_threads = 3;
  const ThreadCounts cores = plan_memory(config, machine_of(12, false)).threads;
  EXPECT_EQ(cores.readers, 15u);
  EXPECT_EQ(cores.readers_at_once, 8u);  // two thirds of the cores
  EXPECT_EQ(cores.decoding, 12u);
  EXPECT_EQ(cores.all(), 15u + 2u + 1u);
  EXPECT_EQ(plan_memory(config, machine_of(12, true)).threads.all(), 15u + 2u + 4u + 1u);
  EXPECT_EQ(plan_memory(config, machine_of(11, true)).threads.readers_at_once, 12u);  // more threads than cores
}

TEST(plan_memory, admits_chunks_that_both_buffers_hold_twice) {
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, std::int64_t{4097}, kGiB}) {
    const std::int64_t buffer = buffer_bytes_for(bytes);
    EXPECT_EQ(chunk_bytes_buffers_hold(config_of(buffer, 2 * buffer)), bytes);
    EXPECT_EQ(chunk_bytes_buffers_hold(config_of(2 * buffer, buffer)), bytes);
    EXPECT_LT(chunk_bytes_buffers_hold(config_of(buffer, buffer - 1)), std::max<std::int64_t>(bytes, 1));
  }
}

Config random_config(std::mt19937_64& random) {
  const auto bytes = [&] { return 1 + static_cast<std::int64_t>(random() >> (random() % 40 + 24)); };
  Config config = config_of(bytes(), bytes());
  config.n_io_threads = 1 + static_cast<std::int64_t>(random() % 1024);
  config.n_compute_threads = static_cast<std::int64_t>(random() % 1024);
  config.n_batches = 1 + static_cast<std::int64_t>(random() % 9);
  if (random() % 2) config.max_chunk_uncompressed_bytes = 1 + static_cast<std::int64_t>(random() % kGiB);
  if (random() % 2) config.keep_bytes = bytes();
  if (random() % 2) config.device_cache_bytes = bytes();
  if (random() % 2) config.host_cache_bytes = bytes();
  return config;
}

TEST(parts_of, any_plan_add_up_to_its_sizes_within_the_settings) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 5000; ++i) {
    const Config config = random_config(random);
    const Machine machine = machine_of(1 + random() % 200, random() % 2 != 0);
    const MemoryPlan plan = plan_memory(config, machine);
    const SlotPlan slots{config.n_batches, 256 * static_cast<std::int64_t>(1 + random() % 100'000), {1024, 2048}};
    std::map<MemoryKind, std::uint64_t> sums;
    std::set<std::pair<std::string_view, MemoryKind>> names;
    for (const MemoryPart& part : parts_of(config, plan, slots)) {
      ASSERT_TRUE(part.bytes);
      sums[part.kind] += *part.bytes;
      EXPECT_TRUE(names.emplace(part.name, part.kind).second) << part.name;
      EXPECT_FALSE(part.use.empty());
    }
    const auto host = static_cast<std::uint64_t>(config.host_buffer_bytes);
    const auto device = static_cast<std::uint64_t>(config.device_buffer_bytes);
    const auto of_slots = static_cast<std::uint64_t>(slots.count * slots.bytes + slots.keep.bytes);
    constexpr std::uint64_t kRepair = WaveSizes::kRepairImage + WaveSizes::kRepairFill;
    if (!machine.gpu) {
      EXPECT_EQ(sums[MemoryKind::host],
                plan.staging + plan.scratch + plan.decoded_ahead + plan.answers + plan.catalog.bytes + of_slots);
      EXPECT_EQ(plan.staging, host);
      EXPECT_LE(plan.decoded_ahead, std::max<std::uint64_t>(host / 4, Alloc::kAlignment));
      EXPECT_LE(plan.scratch, device);
      EXPECT_EQ(sums[MemoryKind::gpu] + sums[MemoryKind::pinned], 0u);
      continue;
    }
    EXPECT_EQ(sums[MemoryKind::gpu], plan.device_bytes() + plan.waves.count * WaveSizes::kPadding + kRepair + of_slots);
    const auto index_of = [](const CacheSizes& cache) { return cache.index + cache.notes; };
    const auto bytes_of = [](const CacheSizes& cache) { return cache.space + cache.padding; };
    const std::uint64_t indices = index_of(plan.device_cache) + index_of(plan.host_cache);
    EXPECT_EQ(sums[MemoryKind::pinned] + indices, plan.host_bytes() + kRepair);
    EXPECT_EQ(sums[MemoryKind::host], host + device + plan.answers + plan.catalog.bytes + indices);
    EXPECT_LE(plan.answers, std::max<std::uint64_t>(host / 2, 32 << 20));
    EXPECT_LE(bytes_of(plan.device_cache), static_cast<std::uint64_t>(config.device_cache_bytes));
    EXPECT_LE(bytes_of(plan.host_cache), static_cast<std::uint64_t>(config.host_cache_bytes));
    // Each kind of memory has a page at least.
    constexpr std::uint64_t kLeast = (2 * WaveSizes::kWaves + 1) * 4096;
    EXPECT_LE(plan.device_bytes() - bytes_of(plan.device_cache) + plan.waves.count * WaveSizes::kPadding,
              std::max<std::uint64_t>(device, 2 * kLeast));
    EXPECT_LE(plan.host_bytes() - indices - bytes_of(plan.host_cache), std::max<std::uint64_t>(host, 2 * 4096));
  }
}

TEST(parts_of, before_the_first_sample_leave_slots_open) {
  Config config = config_of(kGiB, kGiB);
  const auto bytes_of = [&](std::string_view name, bool keeps_batches) {
    for (const MemoryPart& part : parts_of(config, plan_memory(config, machine_of(4, false)), {}, keeps_batches))
      if (part.name == name) return part.bytes;
    ADD_FAILURE() << "no part " << name;
    return std::optional<std::uint64_t>();
  };
  EXPECT_EQ(bytes_of("slots", false), std::nullopt);
  EXPECT_EQ(bytes_of("added slots", false), 0u);
  EXPECT_EQ(bytes_of("added slots", true), std::nullopt);
  config.keep_bytes = 5;
  EXPECT_EQ(bytes_of("added slots", true), 5u);
}

TEST(make_part, names_the_part_and_its_setting_where_memory_is_short) {
  const auto failing = [](Status status) -> int { throw Error(status, "no memory for a buffer of 5 bytes", "memory"); };
  try {
    make_part(PartId::staging, [&] { return failing(Status::oom); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("5 bytes; it is for staging (reads), sized by host_buffer_bytes"),
              std::string::npos)
        << error.what();
  }
  try {
    make_part(PartId::staging, [&] { return failing(Status::cuda); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("staging"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace damacy
