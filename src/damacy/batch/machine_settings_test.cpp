#include "damacy/batch/machine_settings.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

#include "damacy/batch/memory_plan.h"

namespace damacy {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Machine machine_of(std::size_t cores, std::uint64_t host_bytes) {
  Machine machine;
  machine.cores = machine.rank_cores = cores;
  machine.why_cores = "cores";
  machine.host_bytes = host_bytes;
  machine.why_memory = "free on the host";
  return machine;
}

std::map<std::string_view, std::int64_t> values(const Machine& machine, const SettingsAsked& asked = {}) {
  std::map<std::string_view, std::int64_t> out;
  for (const Choice& choice : choose_settings(machine, asked)) out[choice.field] = choice.value;
  return out;
}

std::string why(const Machine& machine, std::string_view field) {
  for (const Choice& choice : choose_settings(machine))
    if (choice.field == field) return choice.why;
  return "";
}

TEST(choose_settings, of_a_gpu_with_16_cores_are_those_that_were_fastest) {
  Machine machine = machine_of(16, 100 * kGiB);
  machine.gpu = true;
  machine.gpu_bytes = 140 * kGiB;
  EXPECT_EQ(values(machine), (std::map<std::string_view, std::int64_t>{{"n_io_threads", 16},
                                                                       {"n_compute_threads", 15},
                                                                       {"host_buffer_bytes", 2 * kGiB},
                                                                       {"device_buffer_bytes", 6 * kGiB},
                                                                       {"n_batches", 2}}));
  EXPECT_EQ(why(machine, "device_buffer_bytes"), "a quarter of 140.0 GiB free on the GPU, at most 6.0 GiB");
  machine.gpu_bytes.reset();
  EXPECT_EQ(values(machine)["device_buffer_bytes"], 4 * kGiB);
}

TEST(choose_settings, of_a_host_are_a_thread_a_core) {
  const Machine machine = machine_of(2, 23 * kGiB);
  EXPECT_EQ(values(machine), (std::map<std::string_view, std::int64_t>{{"n_io_threads", 2},
                                                                       {"n_compute_threads", 0},
                                                                       {"host_buffer_bytes", kGiB},
                                                                       {"device_buffer_bytes", 4 * kGiB},
                                                                       {"n_batches", 4}}));
  EXPECT_EQ(why(machine_of(2, 3 * kGiB / 2), "host_buffer_bytes"),
            "an eighth of 1.5 GiB free on the host, at most 1.0 GiB");
}

TEST(choose_settings, leave_half_of_limited_addresses_to_what_is_no_thread) {
  Machine machine = machine_of(64, 2 * kGiB);
  machine.addresses = AddressSpace{.limit = 3 * kGiB, .in_use = kGiB};
  EXPECT_EQ(values(machine)["n_io_threads"], 7);
  EXPECT_EQ(why(machine, "n_io_threads"),
            "half of 2.0 GiB left of the address-space limit (ulimit -v); they read, decode and place");
  machine.addresses->in_use = 4 * kGiB;
  EXPECT_EQ(values(machine)["n_io_threads"], 1);
  machine.addresses->limit = 100 * kGiB;
  EXPECT_EQ(values(machine)["n_io_threads"], 64);
}

TEST(choose_settings, of_any_machine_are_legal_and_hold_the_chunks_asked_for) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 5000; ++i) {
    Machine machine = machine_of(1 + random() % 5000, random() >> (random() % 64));
    if (random() % 4 == 0) machine.host_bytes.reset();
    machine.gpu = random() % 2 != 0;
    if (random() % 2 != 0) machine.gpu_bytes = random() >> (random() % 64);
    const SettingsAsked asked{static_cast<std::int64_t>(random() % (kGiB + 1)),
                              static_cast<std::int64_t>(random() >> (random() % 60 + 1))};
    Config config;
    config.batch_size = 1;
    auto found = values(machine, asked);
    config.n_io_threads = found["n_io_threads"];
    config.n_compute_threads = found["n_compute_threads"];
    config.host_buffer_bytes = found["host_buffer_bytes"];
    config.device_buffer_bytes = found["device_buffer_bytes"];
    config.n_batches = found["n_batches"];
    EXPECT_NO_THROW(check_config(config));
    EXPECT_GE(chunk_bytes_buffers_hold(config), asked.chunk_bytes);
  }
}

}  // namespace
}  // namespace damacy
