// The rules of choosing a device, in child processes of their own: a process opens its driver once.
#include "damacy/device/device.h"

#include <cstdlib>
#include <functional>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/device/cuda_device.h"
#include "fakes/libcuda/fake_cuda.h"

namespace damacy {
namespace {

using Kind = DeviceChoice::Kind;

#define REQUIRE(condition) \
  if (!(condition)) return __LINE__

// 0, or the line of the first requirement that did not hold.
int in_a_child(const char* library, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("DAMACY_LIBCUDA", library, 1);
    int line = 255;
    try {
      line = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(line == 0 ? 0 : line % 251 + 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status() == Status::inval ? error.where().reason : "another status";
  }
  return "none";
}

TEST(BindCuda, a_driver_without_a_usable_device_is_worth_a_warning) {
  EXPECT_EQ(in_a_child(kFakeCuda,
                       [] {
                         FakeCuda().set("capability", 70);
                         const BoundDevice bound = bind_device({});
                         REQUIRE(bound.device->is_host());
                         REQUIRE(bound.is_unexpected);
                         return 0;
                       }),
            0);
}

TEST(BindCuda, automatic_takes_the_current_context_or_asks_for_one_or_names_the_cures) {
  EXPECT_EQ(in_a_child(kFakeCuda,
                       [] {
                         const FakeCuda fake;
                         REQUIRE(refusal([] { bind_device({}); }) == "no-context");
                         REQUIRE(refusal([] { bind_device({}, [] { return false; }); }) == "no-context");
                         try {
                           bind_device({});
                         } catch (const Error& error) {
                           for (const char* cure :
                                {"torch", "cuda_init_primary()", "make_primary_current()", "device=0", "\"cpu\""})
                             REQUIRE(error.message().find(cure) != std::string::npos);
                         }
                         const auto& calls = cuda::process_driver().api->calls;
                         const BoundDevice asked = bind_device({}, [&] {
                           calls.cuCtxPushCurrent(fake.make_context(1));
                           return true;
                         });
                         REQUIRE(asked.device->index() == 1);
                         REQUIRE(fake.stack_depth() == 1);
                         REQUIRE(bind_device({}).device->index() == 1);
                         REQUIRE(bind_device({Kind::cuda}).device->index() == 1);
                         REQUIRE(bind_device({Kind::index, 0}).device->index() == 0);
                         REQUIRE(fake.stack_depth() == 1);
                         return 0;
                       }),
            0);
}

TEST(BindCuda, cuda_without_a_context_is_device_zero_and_an_index_must_exist) {
  EXPECT_EQ(in_a_child(kFakeCuda,
                       [] {
                         const FakeCuda fake;
                         REQUIRE(bind_device({Kind::cuda}).device->index() == 0);
                         REQUIRE(bind_device({Kind::index, 1}).device->index() == 1);
                         REQUIRE(refusal([] { bind_device({Kind::index, 2}); }) == "no-device");
                         REQUIRE(fake.stack_depth() == 0);
                         REQUIRE(make_primary_current(1));
                         REQUIRE(fake.stack_depth() == 1);
                         REQUIRE(bind_device({}).device->index() == 1);
                         return 0;
                       }),
            0);
}

TEST(BindCuda, after_a_fork_automatic_is_the_host) {
  EXPECT_EQ(in_a_child(kFakeCuda,
                       [] {
                         REQUIRE(probe_cuda().state == CudaState::usable);
                         return in_a_child(kFakeCuda, [] {
                           REQUIRE(probe_cuda().state == CudaState::no_device);
                           REQUIRE(bind_device({}).device->is_host());
                           return 0;
                         });
                       }),
            0);
}

}  // namespace
}  // namespace damacy
