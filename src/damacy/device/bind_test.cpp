#include "damacy/device/device.h"

#include <cstdlib>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/device/cuda_device.h"
#include "damacy/device/trace.h"

namespace damacy {
namespace {

// In a child, where no driver can be found whatever this machine has. Returns what failed, or 0.
int choose_without_a_driver() {
  ::setenv("DAMACY_LIBCUDA", "/nowhere/libcuda.so", 1);
  const BoundDevice automatic = bind_device({});
  if (!automatic.device->is_host() || automatic.is_unexpected) return 1;
  if (automatic.why_host != "built without CUDA" && !automatic.why_host.starts_with("no driver: ")) return 2;
  const BoundDevice cpu = bind_device({DeviceChoice::Kind::cpu});
  if (!cpu.device->is_host() || !cpu.why_host.empty()) return 3;
  for (const auto kind : {DeviceChoice::Kind::cuda, DeviceChoice::Kind::index}) {
    try {
      bind_device({kind});
      return 4;
    } catch (const Error& error) {
      if (error.status() != Status::inval || error.where().reason != "no-device") return 5;
    }
  }
  const TraceRange range("no profiler");
  return make_primary_current(0) ? 6 : 0;
}

TEST(BindDevice, without_a_driver_automatic_is_the_host_and_cuda_is_refused) {
  const pid_t child = ::fork();
  if (child == 0) {
    int failed = 99;
    try {
      failed = choose_without_a_driver();
    } catch (...) {
    }
    ::_exit(failed);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace damacy
