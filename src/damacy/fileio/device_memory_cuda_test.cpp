// File I/O into the memory of CUDA's device over a driver without a GPU: whose context is used, what a failing call
// leaves behind.
#include <array>
#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/device/cuda/cuda_device.h"
#include "damacy/fileio/file_requests.h"
#include "damacy/fileio/io_pool.h"
#include "damacy/fileio/staging.h"
#include "fakes/libcuda/fake_cuda.h"
#include "fakes/temp_dir.h"

namespace damacy {
namespace {

class DeviceMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 13);
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    change_io_settings([](IoSettings& s) {
      s = IoSettings{};
      s.compat_mode = CompatMode::on;
      s.bounce_buffer_size = 256 << 10;
    });
    StagingPool::process().free_idle();
  }
  std::shared_ptr<Operation> read(const std::shared_ptr<Device>& device, std::byte* memory, std::size_t size) {
    auto file = File::open({path, AT_FDCWD}, OpenFlags::parse("r"));
    auto before = device->try_fence(1);
    auto operation = begin_request({std::move(file),
                                    Direction::read,
                                    0,
                                    {{memory, size, std::make_shared<OnDevice>(OnDevice{device, *before})}},
                                    {.task_size = 50'000, .exact = false}},
                                   /*queue=*/false);
    operation->run_all({});
    return operation;
  }

  FakeCuda fake;
  std::shared_ptr<cuda::DriverApi> api = fake.api();
  TempDir dir;
  std::string path = dir.path() + "/data";
  std::vector<std::byte> bytes = std::vector<std::byte>(300'000);
};

TEST_F(DeviceMemoryTest, a_pointer_leads_to_its_device) {
  const auto primary = cuda::bind_primary(api, 0);
  HostBuffer memory(primary->device_memory(), 300'000);
  const auto pointer = reinterpret_cast<std::uint64_t>(memory.data());
  const auto found = cuda::bind_pointer(api, pointer + 17);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->index(), 0);
  EXPECT_EQ(cuda::bind_pointer(api, pointer), found);
  fake.set("stream_ordered", 1);  // no context of its own
  EXPECT_NE(cuda::bind_pointer(api, pointer), nullptr);
  fake.set("host_pointers", 1);
  EXPECT_EQ(cuda::bind_pointer(api, pointer), nullptr);
  fake.set("managed", 1);
  EXPECT_NE(cuda::bind_pointer(api, pointer), nullptr);
  std::byte here{};
  EXPECT_EQ(cuda::bind_pointer(api, reinterpret_cast<std::uint64_t>(&here)), nullptr);
}

TEST_F(DeviceMemoryTest, any_failing_call_is_an_error_or_no_matter_and_leaves_nothing) {
  const auto device = cuda::bind_primary(api, 0);
  HostBuffer memory(device->device_memory(), 300'000);
  EXPECT_EQ(read(device, memory.data(), 300'000)->count(), 300'000U);
  StagingPool::process().free_idle();
  std::uint64_t n = 1;
  for (; n < 400; ++n) {
    const auto live = fake.live();
    fake.fail("", n, CUDA_ERROR_OUT_OF_MEMORY, /*for_ever=*/false);
    try {
      const auto operation = read(device, memory.data(), 300'000);
      if (operation->error() != nullptr) std::rethrow_exception(operation->error());
    } catch (const Error& error) {
      EXPECT_TRUE(error.status() == Status::cuda || error.status() == Status::oom) << error.what();
    }
    const bool struck = !fake.struck().empty();
    fake.heal();
    StagingPool::process().free_idle();
    EXPECT_LE(fake.live(), live + 1) << n;  // what could not be freed by the call that failed
    if (!struck) break;
  }
  EXPECT_LT(n, 400U);
  EXPECT_EQ(read(device, memory.data(), 300'000)->count(), 300'000U);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), memory.data()));
}

TEST_F(DeviceMemoryTest, small_reads_ask_the_driver_seldom) {
  constexpr std::size_t kReads = 4, kSize = 16 << 10;
  const auto device = cuda::bind_primary(api, 0);
  HostBuffer memory(device->device_memory(), kReads * kSize);
  const auto file = File::open({path, AT_FDCWD}, OpenFlags::parse("r"));
  const auto calls_of = [&](const std::function<void()>& body) {
    std::map<std::string, std::uint64_t> calls;
    constexpr std::array kNames{"",
                                "cuPointerGetAttributes",
                                "cuCtxPushCurrent",
                                "cuStreamIsCapturing",
                                "cuStreamQuery",
                                "cuEventCreate",
                                "cuEventRecord",
                                "cuStreamWaitEvent",
                                "cuMemcpyAsync",
                                "cuEventQuery"};
    for (const char* name : kNames) calls[name] -= fake.calls(name);
    body();
    for (const char* name : kNames) calls[name] += fake.calls(name);
    return calls;
  };
  std::vector<std::shared_ptr<Operation>> operations;
  const auto begin = [&] {
    for (std::size_t i = 0; i < kReads; ++i) {
      std::byte* const data = memory.data() + i * kSize;
      const auto on = cuda::bind_pointer(api, reinterpret_cast<std::uint64_t>(data));
      const OnDevice fenced{on, *on->try_fence(1), recorder_on(1)};
      operations.push_back(
          begin_request({file, Direction::read, i * kSize, {{data, kSize, std::make_shared<OnDevice>(fenced)}}, {}}));
    }
  };
  const auto end = [&] {
    for (const auto& operation : operations) EXPECT_TRUE(operation->wait(std::nullopt));
    operations.clear();
  };
  IoPool::process().pause(true);
  begin();  // which makes events, a block and its stream
  IoPool::process().pause(false);
  end();
  IoPool::process().pause(true);
  auto calls = calls_of(begin);
  for (const char* name :
       {"cuPointerGetAttributes", "cuCtxPushCurrent", "cuStreamIsCapturing", "cuStreamQuery", "cuEventRecord"})
    EXPECT_EQ(calls[name], kReads) << name;
  EXPECT_EQ(calls[""] - calls["cuEventCreate"], 5 * kReads);
  calls = calls_of([&] {
    IoPool::process().pause(false);
    for (const auto& operation : operations) EXPECT_TRUE(operation->wait(std::chrono::minutes(1)));
  });
  for (const char* name : {"cuStreamWaitEvent", "cuMemcpyAsync", "cuEventRecord"}) EXPECT_EQ(calls[name], 1U) << name;
  EXPECT_EQ(calls["cuPointerGetAttributes"], 0U);
  end();
  fake.set("idle", 1);  // no work is queued on the stream: nothing is recorded or waited for
  calls = calls_of([&] {
    begin();
    end();
  });
  EXPECT_EQ(calls["cuStreamQuery"], kReads);
  EXPECT_EQ(calls["cuStreamWaitEvent"], 0U);
  EXPECT_EQ(calls["cuEventRecord"], calls["cuMemcpyAsync"]);  // those after the copies
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + kReads * kSize, memory.data()));
  IoPool::process().replace_workers();
  StagingPool::process().free_idle();
}

}  // namespace
}  // namespace damacy
