#include "damacy/core/host_memory.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "fakes/temp_dir.h"

namespace damacy {
namespace {

class HostMemory : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string root() const { return std::string(dir_.path()); }
  TempDir dir_;
};

TEST_F(HostMemory, is_unknown_where_the_system_does_not_say) {
  EXPECT_EQ(available_host_memory(root()), std::nullopt);
}

TEST_F(HostMemory, is_what_the_system_calls_available) {
  write("/proc/meminfo", "MemTotal:       2000 kB\nMemFree:         100 kB\nMemAvailable:   1000 kB\n");
  EXPECT_EQ(available_host_memory(root()), 1000u * 1024);
}

TEST_F(HostMemory, is_bounded_by_a_containers_group_and_idle_file_pages_count_as_free) {
  write("/proc/meminfo", "MemAvailable:   1000 kB\n");
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", "500000\n");
  write("/sys/fs/cgroup/memory.current", "400000\n");
  write("/sys/fs/cgroup/memory.stat", "anon 90\ninactive_file 300000\n");
  EXPECT_EQ(available_host_memory(root()), 400'000u);
}

TEST_F(HostMemory, is_bounded_by_each_group_on_the_way_up) {
  write("/proc/meminfo", "MemAvailable:   1000 kB\n");
  write("/proc/self/cgroup", "0::/slice/job/step\n");
  write("/sys/fs/cgroup/slice/job/step/memory.max", "max\n");
  write("/sys/fs/cgroup/slice/job/step/memory.current", "5\n");
  write("/sys/fs/cgroup/slice/job/memory.max", "1000\n");
  write("/sys/fs/cgroup/slice/job/memory.current", "400\n");
  EXPECT_EQ(available_host_memory(root()), 600u);
}

TEST_F(HostMemory, is_bounded_by_groups_of_the_first_version) {
  write("/proc/meminfo", "MemAvailable:   1000 kB\n");
  write("/proc/self/cgroup", "9:cpu:/other\n4:memory:/job\n");
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "700\n");
  write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "800\n");
  EXPECT_EQ(available_host_memory(root()), 0u);
}

TEST_F(HostMemory, of_this_machine_is_known) {
  EXPECT_GT(available_host_memory().value_or(0), 0u);
}

}  // namespace
}  // namespace damacy
