#include "damacy/core/control_groups.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "fakes/temp_dir.h"

namespace damacy {
namespace {

using Files = std::map<std::string, std::string>;

ReadText files(Files texts) {
  return [texts = std::move(texts)](const std::string& path) {
    const auto found = texts.find(path);
    return found == texts.end() ? std::string() : found->second;
  };
}

TEST(decimal_of, takes_whole_numbers_alone) {
  EXPECT_EQ(decimal_of(" 42\n"), 42u);
  EXPECT_EQ(decimal_of("0"), 0u);
  EXPECT_EQ(decimal_of("9223372036854775807"), (std::uint64_t{1} << 63) - 1);
  for (const char* other :
       {"", " ", "max", "-1", "+1", "4 x", "0x10", "1.5", "9223372036854775808", "99999999999999999999"})
    EXPECT_EQ(decimal_of(other), std::nullopt) << other;
}

TEST(cpu_quota, is_absent_without_files_and_without_a_limit) {
  EXPECT_EQ(cpu_quota(files({})), std::nullopt);
  EXPECT_EQ(cpu_quota(files({{"/sys/fs/cgroup/cpu.max", "max 100000\n"}})), std::nullopt);
  EXPECT_EQ(cpu_quota(files({{"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
                             {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}})),
            std::nullopt);
}

TEST(cpu_quota, of_version_2_is_the_least_on_the_way_up) {
  EXPECT_EQ(cpu_quota(files({{"/proc/self/cgroup", "0::/slice/job/step\n"},
                             {"/sys/fs/cgroup/slice/job/step/cpu.max", "max 100000\n"},
                             {"/sys/fs/cgroup/slice/job/cpu.max", "250000 100000\n"},
                             {"/sys/fs/cgroup/slice/cpu.max", "400000 100000\n"}})),
            2.5);
}

TEST(cpu_quota, of_version_1_is_found_under_each_mount_that_it_has) {
  for (const char* mount : {"cpu", "cpu,cpuacct"}) {
    const std::string folder = std::string("/sys/fs/cgroup/") + mount + "/docker/1";
    EXPECT_EQ(cpu_quota(files({{"/proc/self/cgroup", "9:memory:/x\n4:cpu,cpuacct:/docker/1\n"},
                               {folder + "/cpu.cfs_quota_us", "300000\n"},
                               {folder + "/cpu.cfs_period_us", "100000\n"}})),
              3.0)
        << mount;
  }
}

TEST(cpu_quota, of_a_container_is_at_the_top_whatever_path_the_host_calls_it) {
  for (const char* path : {"/docker/0123", "/../../other", "/", ""})
    EXPECT_EQ(cpu_quota(files({{"/proc/self/cgroup", std::string("0::") + path + "\n"},
                               {"/sys/fs/cgroup/cpu.max", "50000 100000"}})),
              0.5)
        << path;
}

TEST(memory_left, counts_pages_of_files_as_free_in_both_versions) {
  EXPECT_EQ(memory_left(files({{"/proc/self/cgroup", "0::/\n"},
                               {"/sys/fs/cgroup/memory.max", "500000\n"},
                               {"/sys/fs/cgroup/memory.current", "400000\n"},
                               {"/sys/fs/cgroup/memory.stat", "anon 90\ninactive_file 200000\nactive_file 100000\n"}})),
            400'000u);
  // Of the group and those below it, where the file has both.
  EXPECT_EQ(memory_left(files({{"/proc/self/cgroup", "4:memory:/job\n"},
                               {"/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000\n"},
                               {"/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "800\n"},
                               {"/sys/fs/cgroup/memory/job/memory.stat",
                                "inactive_file 1\nactive_file 2\ntotal_inactive_file 100\ntotal_active_file 200\n"}})),
            500u);
}

TEST(memory_left, is_the_least_on_the_way_up) {
  EXPECT_EQ(memory_left(files({{"/proc/self/cgroup", "0::/slice/job/step\n"},
                               {"/sys/fs/cgroup/slice/job/step/memory.max", "max\n"},
                               {"/sys/fs/cgroup/slice/job/step/memory.current", "5\n"},
                               {"/sys/fs/cgroup/slice/job/memory.max", "1000\n"},
                               {"/sys/fs/cgroup/slice/job/memory.current", "400\n"}})),
            600u);
}

TEST(memory_left, is_nothing_in_a_group_beyond_its_limit_and_absent_without_one) {
  const std::string group = "/sys/fs/cgroup/memory/job";
  EXPECT_EQ(memory_left(files({{"/proc/self/cgroup", "9:cpu:/other\n4:memory:/job\n"},
                               {group + "/memory.limit_in_bytes", "700\n"},
                               {group + "/memory.usage_in_bytes", "800\n"}})),
            0u);
  EXPECT_EQ(memory_left(files({{"/proc/self/cgroup", "4:memory:/job\n"},
                               {group + "/memory.limit_in_bytes", "9223372036854771712\n"},
                               {group + "/memory.usage_in_bytes", "800\n"}})),
            std::nullopt);
  EXPECT_EQ(memory_left(files({})), std::nullopt);
}

// Whatever the files hold: an answer, at most the limits that are there.
TEST(control_groups, are_read_whatever_their_files_hold) {
  const Files good{{"/proc/self/cgroup", "0::/a/b\n4:cpu,cpuacct:/c\n7:memory:/d/e\n"},
                   {"/sys/fs/cgroup/a/b/cpu.max", "200000 100000\n"},
                   {"/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "100000"},
                   {"/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "100000"},
                   {"/sys/fs/cgroup/a/memory.max", "1000"},
                   {"/sys/fs/cgroup/a/memory.current", "10"},
                   {"/sys/fs/cgroup/a/memory.stat", "inactive_file 5\nactive_file 2"}};
  const std::string pool = "0123456789:,/. \n\t-xmax" + std::string(1, '\0') + "\xff";
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    Files damaged = good;
    for (auto& [path, text] : damaged) {
      for (unsigned n = random() % 4; n > 0; --n) {
        const std::size_t at = random() % (text.size() + 1);
        if (random() % 3 == 0)
          text.erase(at, random() % 5);
        else
          text.insert(at, random() % 50 == 0 ? 5000 : 1, pool[random() % pool.size()]);
      }
    }
    EXPECT_GT(cpu_quota(files(damaged)).value_or(1), 0.0);
    static_cast<void>(memory_left(files(damaged)));
    for (const std::string& folder : group_folders(files(damaged), "cpu")) {
      EXPECT_TRUE(folder.starts_with("/sys/fs/cgroup"));
      EXPECT_EQ((folder + "/").find("/../"), std::string::npos);
    }
  }
}

TEST(files_below, are_read_up_to_64_KiB_and_are_empty_if_they_are_missing_or_folders) {
  TempDir dir;
  std::filesystem::create_directories(dir.path() + "/sys/fs");
  std::ofstream(dir.path() + "/sys/long") << std::string(100'000, 'x');
  std::ofstream(dir.path() + "/sys/short") << "5\n";
  const ReadText read = files_below(dir.path());
  EXPECT_EQ(read("/sys/long").size(), std::size_t{64} << 10);
  EXPECT_EQ(read("/sys/short"), "5\n");
  EXPECT_EQ(read("/sys/none"), "");
  EXPECT_EQ(read("/sys/fs"), "");
}

}  // namespace
}  // namespace damacy
