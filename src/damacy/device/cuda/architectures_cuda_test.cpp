// What runs where, by the rules and through the fake driver: GPUs from 7.0 to 12.0, drivers for CUDA 11.8 to 13.0.
#include "damacy/device/cuda/architectures.h"

#include <gtest/gtest.h>

#include "damacy/device/cuda/context.h"
#include "damacy/device/cuda/cuda_device.h"
#include "fakes/libcuda/fake_cuda.h"
#include "support/error_of.h"

namespace damacy::cuda {
namespace {

// The wheel for CUDA 12 and 13, and a build for one GPU by CUDA 13.
const BuiltKernels kWheel = BuiltKernels::of("75-real;80-real;86-real;89-real;90;100-real;120-real", 12040);
const BuiltKernels kOneGpu = BuiltKernels::of("90-real", 13000);

std::string probed(const BuiltKernels& kernels, int capability, int driver) {
  const FakeCuda fake;
  fake.set("devices", 1);
  fake.set("capability", capability);
  fake.set("version", driver);
  const OpenedDriver opened = open_driver(kFakeCuda, kernels);
  EXPECT_EQ(opened.api != nullptr, opened.probe.state == CudaState::usable);
  EXPECT_EQ(opened.probe.why.empty(), opened.probe.state == CudaState::usable);
  FakeCuda{};  // resets it for the tests after this one
  return opened.probe.why;
}

TEST(Architectures, are_read_as_cmake_writes_them) {
  const BuiltKernels kernels = BuiltKernels::of("75-real;80;90a-real;100f-virtual;native", 12080);
  ASSERT_EQ(kernels.cubins.size(), 3u);
  EXPECT_EQ(kernels.cubins[1].capability, 80);
  EXPECT_EQ(kernels.cubins[2].reach, Target::Reach::only);
  ASSERT_EQ(kernels.ptx.size(), 2u);
  EXPECT_EQ(kernels.ptx[1].capability, 100);
  EXPECT_EQ(kernels.ptx[1].reach, Target::Reach::family);
  EXPECT_EQ(kernels.oldest_driver, 12000);
}

TEST(Architectures, a_cubin_runs_on_later_gpus_of_its_major_version_only) {
  const BuiltKernels kernels = BuiltKernels::of("86-real;90a-real", 12040);
  EXPECT_EQ(why_no_kernels(kernels, 86, 12000), "");
  EXPECT_EQ(why_no_kernels(kernels, 89, 12000), "");
  EXPECT_EQ(why_no_kernels(kernels, 90, 12000), "");
  EXPECT_NE(why_no_kernels(kernels, 80, 13000), "");
  EXPECT_NE(why_no_kernels(kernels, 100, 13000), "");
  EXPECT_NE(why_no_kernels(BuiltKernels::of("100a-real", 13000), 103, 13000), "");
  EXPECT_EQ(why_no_kernels(BuiltKernels::of("100f-real", 13000), 103, 13000), "");
}

TEST(Architectures, of_a_build_are_described_with_its_toolkit_and_oldest_driver) {
  EXPECT_EQ(build_text(kOneGpu), "CUDA 13.0, for drivers for CUDA 13.0 or newer: kernels for 9.0");
  EXPECT_EQ(build_text(kWheel),
            "CUDA 12.4, for drivers for CUDA 12.0 or newer: kernels for 7.5, 8.0, 8.6, 8.9, 9.0, 10.0, 12.0 and, by a "
            "driver for CUDA 12.4 or newer, for GPUs from 9.0 on");
  EXPECT_EQ(build_text(built_kernels()), cuda_build());
}

TEST(Architectures, ptx_runs_on_any_later_gpu_whose_driver_is_not_older_than_the_toolkit) {
  EXPECT_EQ(why_no_kernels(kWheel, 110, 13000), "");
  EXPECT_EQ(why_no_kernels(kWheel, 110, 12040), "");
  EXPECT_EQ(
      why_no_kernels(kWheel, 110, 12030),
      "this build has kernels for 7.5, 8.0, 8.6, 8.9, 9.0, 10.0, 12.0 and, by a driver for CUDA 12.4 or newer, for "
      "GPUs from 9.0 on, and this driver is for CUDA 12.3: update the driver");
}

TEST(Probe, takes_each_gpu_that_the_wheel_has_kernels_for_with_each_driver_from_12_0_on) {
  for (const int driver : {12000, 12040, 12080, 13000})
    for (const int capability : {75, 80, 86, 87, 89, 90, 100, 103, 120, 121})
      EXPECT_EQ(probed(kWheel, capability, driver), "") << capability << " under " << driver;
}

TEST(Probe, refuses_a_gpu_before_7_5_by_name) {
  for (const int driver : {12000, 12040, 12080, 13000})
    EXPECT_EQ(
        probed(kWheel, 70, driver),
        "no device: device 0 (Fake GPU) has compute capability 7.0: this build has kernels for 7.5, 8.0, 8.6, 8.9, "
        "9.0, 10.0, 12.0 and, by a driver for CUDA 12.4 or newer, for GPUs from 9.0 on, and there are none for GPUs "
        "before 7.5");
}

TEST(Probe, refuses_a_driver_for_cuda_11_8_whatever_the_gpu) {
  for (const int capability : {70, 75, 86, 90, 100, 120}) {
    EXPECT_EQ(probed(kWheel, capability, 11080),
              "driver too old: it is for CUDA 11.8, needed is 12.0 (driver 525 or newer)");
    EXPECT_EQ(probed(kOneGpu, capability, 12080),
              "driver too old: it is for CUDA 12.8, needed is 13.0 (driver 580 or newer)");
  }
}

// It had passed the probe, and the first kernel failed.
TEST(Probe, refuses_a_later_gpu_that_a_build_for_one_has_no_kernels_for) {
  EXPECT_EQ(probed(kOneGpu, 90, 13000), "");
  EXPECT_EQ(
      probed(kOneGpu, 100, 13000),
      "no device: device 0 (Fake GPU) has compute capability 10.0: this build has kernels for 9.0: install a wheel "
      "with kernels for 10.0, or build one with DAMACY_CUDA_ARCHS=100-real");
  for (const int capability : {70, 75, 80, 86, 89, 103, 120})
    EXPECT_NE(probed(kOneGpu, capability, 13000), "") << capability;
}

TEST(Probe, binding_a_gpu_without_kernels_says_why) {
  const FakeCuda fake;
  const auto api = open_driver(kFakeCuda, kOneGpu).api;
  ASSERT_NE(api, nullptr);
  fake.set("capability", 120);
  const Error refused = error_of([&] { bind_primary(api, 1); });
  EXPECT_EQ(refused.where().reason, "no-device");
  FakeCuda{};
  EXPECT_TRUE(refused.message().starts_with("no usable CUDA device 1: device 1 (Fake GPU) has compute capability 12.0"))
      << refused.message();
}

TEST(Probe, a_driver_without_calls_that_came_later_is_usable) {
  const FakeCuda old(kFakeOldCuda);
  old.set("version", 12000);
  const auto api = open_driver(kFakeOldCuda, kWheel).api;
  FakeCuda{kFakeOldCuda};
  ASSERT_NE(api, nullptr);
  EXPECT_EQ(api->calls.cuCtxRecordEvent, nullptr);
  EXPECT_NE(api->calls.cuEventElapsedTime, nullptr);
}

}  // namespace
}  // namespace damacy::cuda
