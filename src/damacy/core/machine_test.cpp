#include "damacy/core/machine.h"

#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "fakes/temp_dir.h"

namespace damacy {
namespace {

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

// A machine of 16 cores and 8 GiB free, made of files.
class PlantedMachine : public ::testing::Test {
 protected:
  PlantedMachine() { write("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable:    8388608 kB\n"); }
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = dir_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  Machine read(const std::map<std::string, std::string>& variables = {},
               std::optional<AddressSpace> addresses = std::nullopt) const {
    MachineSources sources;
    sources.read = files_below(dir_.path());
    sources.variable = [variables](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? std::string() : found->second;
    };
    sources.mask_cores = 16;
    sources.addresses = [addresses] { return addresses; };
    return read_machine(sources);
  }
  TempDir dir_;
};

TEST_F(PlantedMachine, without_limits_is_its_mask_and_what_the_system_calls_available) {
  const Machine machine = read();
  EXPECT_EQ(machine.cores, 16u);
  EXPECT_EQ(machine.rank_cores, 16u);
  EXPECT_EQ(machine.why_cores, "16 cores in the affinity mask");
  EXPECT_EQ(machine.host_bytes, 8 * kGib);
  EXPECT_EQ(machine.why_memory, "free on the host");
  EXPECT_GT(machine.physical_bytes, 0u);
  EXPECT_GT(machine.open_files, 0u);
}

TEST_F(PlantedMachine, of_which_the_system_says_nothing_has_unknown_memory) {
  for (const char* text : {"", "MemAvailable:", "MemAvailable: many kB", "MemAvailable: 99999999999999999999 kB",
                           "MemAvailable: 9223372036854775807 kB", "XMemAvailable: 5 kB"}) {
    write("/proc/meminfo", text);
    EXPECT_EQ(read().host_bytes, std::nullopt) << text;
    EXPECT_EQ(read().why_memory, "unknown");
  }
}

struct Ranks {
  std::map<std::string, std::string> variables;
  std::size_t ranks, rank_cores;
};

TEST_F(PlantedMachine, is_shared_by_the_ranks_that_launchers_name) {
  const Ranks cases[] = {
      {{}, 1, 16},
      {{{"LOCAL_WORLD_SIZE", "4"}, {"WORLD_SIZE", "16"}}, 4, 4},
      {{{"LOCAL_WORLD_SIZE", "64"}}, 64, 1},
      {{{"LOCAL_WORLD_SIZE", ""}}, 1, 16},
      {{{"LOCAL_WORLD_SIZE", "many"}}, 1, 16},
      {{{"LOCAL_WORLD_SIZE", "0"}}, 1, 16},
      {{{"SLURM_NTASKS_PER_NODE", "8"}}, 1, 16},  // a shell in an allocation
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS_PER_NODE", "8"}}, 8, 2},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"}}, 4, 4},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "x"}}, 1, 16},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "4"}, {"LOCAL_WORLD_SIZE", "2"}}, 2, 8},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "4"}, {"SLURM_CPU_BIND_TYPE", "mask_cpu:"}}, 4, 16},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "4"}, {"SLURM_CPU_BIND_TYPE", "none"}}, 4, 4},
  };
  for (const Ranks& one : cases) {
    const Machine machine = read(one.variables);
    EXPECT_EQ(machine.ranks, one.ranks) << machine.why_cores;
    EXPECT_EQ(machine.rank_cores, one.rank_cores) << machine.why_cores;
    EXPECT_EQ(machine.cores, 16u);
    EXPECT_EQ(machine.host_bytes, 8 * kGib / one.ranks);
  }
}

// A quota of part of a core still wants a thread.
TEST_F(PlantedMachine, has_the_cores_of_its_quota_rounded_up) {
  write("/proc/self/cgroup", "0::/job\n");
  for (const auto& [quota, cores, of_four] :
       {std::tuple{"400000 100000", 4u, 1u}, std::tuple{"250000 100000", 3u, 1u}, std::tuple{"50000 100000", 1u, 1u},
        std::tuple{"900000 100000", 9u, 3u}, std::tuple{"max 100000", 16u, 4u},
        std::tuple{"1700000 100000", 16u, 4u}}) {
    write("/sys/fs/cgroup/job/cpu.max", quota);
    EXPECT_EQ(read().cores, cores) << quota;
    EXPECT_EQ(read().rank_cores, cores) << quota;
    EXPECT_EQ(read({{"LOCAL_WORLD_SIZE", "4"}}).rank_cores, of_four) << quota;
  }
  write("/sys/fs/cgroup/job/cpu.max", "250000 100000");
  EXPECT_EQ(read().why_cores, "a cgroup's quota of 2.5 cores");
  EXPECT_EQ(read({{"LOCAL_WORLD_SIZE", "2"}}).why_cores, "a cgroup's quota of 2.5 cores, shared by 2 ranks");
}

TEST_F(PlantedMachine, has_the_memory_of_its_control_groups_shared_by_the_ranks) {
  write("/proc/self/cgroup", "7:memory:/a/b\n");
  write("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712");
  write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2147483648");
  write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1073741824");
  const Machine machine = read({{"LOCAL_WORLD_SIZE", "2"}});
  EXPECT_EQ(machine.host_bytes, kGib / 2);
  EXPECT_EQ(machine.why_memory, "free in the cgroup");
}

TEST_F(PlantedMachine, has_at_most_what_is_left_of_its_addresses_which_ranks_do_not_share) {
  const Machine machine = read({{"LOCAL_WORLD_SIZE", "2"}}, AddressSpace{3 * kGib, kGib});
  EXPECT_EQ(machine.host_bytes, 2 * kGib);
  EXPECT_EQ(machine.why_memory, "left of the address-space limit (ulimit -v)");
  EXPECT_EQ(read({}, AddressSpace{kGib, 2 * kGib}).host_bytes, 0u);
  EXPECT_EQ(read({}, AddressSpace{100 * kGib, kGib}).host_bytes, 8 * kGib);
}

TEST_F(PlantedMachine, knows_its_rank_by_the_launcher_that_says_how_many_there_are) {
  EXPECT_EQ(read().rank, std::nullopt);
  EXPECT_EQ(read({{"LOCAL_WORLD_SIZE", "4"}, {"LOCAL_RANK", "3"}, {"SLURM_LOCALID", "0"}}).rank, 3u);
  EXPECT_EQ(read({{"LOCAL_WORLD_SIZE", "4"}, {"LOCAL_RANK", "x"}}).rank, std::nullopt);
  EXPECT_EQ(read({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "2"}, {"SLURM_LOCALID", "1"}}).rank, 1u);
  EXPECT_EQ(read({{"SLURM_STEP_ID", "0"}, {"SLURM_LOCALID", "1"}, {"SLURM_CPU_BIND_TYPE", "mask_cpu:"}}).rank,
            std::nullopt);
}

TEST(read_machine, of_this_process_has_cores_and_memory) {
  const Machine machine = read_machine();
  EXPECT_GE(machine.cores, 1u);
  EXPECT_GE(machine.rank_cores, 1u);
  EXPECT_GT(machine.host_bytes.value_or(0), 0u);
}

}  // namespace
}  // namespace damacy
