// The CUDA device on a GPU, with kernels that take their time and graphs that are captured meanwhile. Skipped, and
// saying so, where there is no GPU.
#include <cstdlib>

#include <cuda_runtime.h>

#include "conformance/alloc_suite.h"
#include "conformance/device_suite.h"
#include "conformance/ordered_alloc_suite.h"
#include "damacy/device/cuda_device.h"

namespace damacy {
namespace {

std::shared_ptr<Device> any_gpu() {
  return probe_cuda().state == CudaState::usable ? bind_primary_context(0) : nullptr;
}

struct GpuFixture {
  static std::shared_ptr<Device> make() { return any_gpu(); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Gpu, DeviceSuite, GpuFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Gpu, AllocSuite, MemoriesOf<GpuFixture>);
INSTANTIATE_TYPED_TEST_SUITE_P(Gpu, OrderedAllocSuite, GpuFixture);

__global__ void add_one(unsigned char* bytes, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) ++bytes[i];
}

// Keeps its stream busy for about so long.
__global__ void delay(long long clocks) {
  const long long begin = clock64();
  while (clock64() - begin < clocks) {
  }
}

// A context of another owner is current on the thread, as with torch.
class GpuTest : public ::testing::Test {
 protected:
  static constexpr long long kLong = 100'000'000;  // some 50 ms
  std::shared_ptr<Device> device = any_gpu();

  void SetUp() override {
    if (device == nullptr) GTEST_SKIP() << "NOT TESTED: " << probe_cuda().why;
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
  }
  // Under compute-sanitizer kernels run one after the other, and nothing is ever under way: run it with
  // DAMACY_TEST_SERIAL.
  static void expect_under_way(const Event& event) {
    if (std::getenv("DAMACY_TEST_SERIAL") == nullptr) {
      EXPECT_FALSE(event.ready());
    }
  }
  static std::uint64_t handle(cudaStream_t stream) { return reinterpret_cast<std::uint64_t>(stream); }
  static void delay_on(Stream& stream) {
    stream.enqueue({.on_host = {}, .launch = [](std::uint64_t on) {
                      delay<<<1, 1, 0, reinterpret_cast<cudaStream_t>(on)>>>(kLong);
                      return static_cast<int>(cudaGetLastError());
                    }});
  }
};

TEST_F(GpuTest, kernels_and_copies_run_in_stream_order) {
  const HostBuffer host(device->pinned_memory(), 1000);
  const HostBuffer memory(device->device_memory(), 1000);
  std::memset(host.data(), 41, 1000);
  const auto stream = device->make_stream();
  delay_on(*stream);
  stream->copy(memory.bytes(), host.bytes());
  stream->enqueue({.on_host = {}, .launch = [&](std::uint64_t on) {
                     add_one<<<4, 256, 0, reinterpret_cast<cudaStream_t>(on)>>>(
                         reinterpret_cast<unsigned char*>(memory.data()), 1000);
                     return static_cast<int>(cudaGetLastError());
                   }});
  stream->copy(host.bytes(), memory.bytes());
  const Event done = stream->record();
  expect_under_way(done);
  EXPECT_TRUE(done.wait());
  for (const std::byte byte : host.bytes()) ASSERT_EQ(byte, std::byte{42});
}

TEST_F(GpuTest, an_invalid_launch_is_an_error_and_the_device_stays_usable) {
  const auto stream = device->make_stream();
  EXPECT_THROW(stream->enqueue({.on_host = {},
                                .launch =
                                    [](std::uint64_t on) {
                                      delay<<<1, 1 << 20, 0, reinterpret_cast<cudaStream_t>(on)>>>(1);
                                      return static_cast<int>(cudaGetLastError());
                                    }}),
               Error);
  EXPECT_TRUE(stream->record().wait());
}

TEST_F(GpuTest, the_current_context_is_bound_as_it_is) {
  const auto bound = bind_current_context();
  ASSERT_NE(bound, nullptr);
  EXPECT_EQ(bound->index(), 0);
  int current = -1;
  ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
  EXPECT_EQ(current, 0);
  std::jthread([] { EXPECT_EQ(bind_current_context(), nullptr); }).join();
}

TEST_F(GpuTest, fences_wait_for_a_consumers_work_also_on_streams_that_are_gone) {
  const auto ours = device->make_stream();
  cudaStream_t theirs = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&theirs, cudaStreamNonBlocking), cudaSuccess);
  delay<<<1, 1, 0, theirs>>>(kLong);
  const auto named = device->try_fence(handle(theirs));
  ASSERT_EQ(cudaStreamDestroy(theirs), cudaSuccess);
  ASSERT_TRUE(named);
  expect_under_way(*named);
  const Event all = device->fence_all(/*spare_captures=*/false);
  expect_under_way(all);
  ours->wait(all);
  EXPECT_TRUE(ours->record().wait());
  EXPECT_TRUE(named->ready());
}

TEST_F(GpuTest, the_fence_that_spares_captures_waits_for_every_stream) {
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<Event> done;
  for (int i = 0; i < 3; ++i) {
    streams.push_back(device->make_stream());
    for (int kernels = 0; kernels <= i; ++kernels) delay_on(*streams.back());
    done.push_back(streams.back()->record());
  }
  EXPECT_TRUE(device->fence_all(/*spare_captures=*/true).wait());
  for (const Event& event : done) EXPECT_TRUE(event.ready());
}

TEST_F(GpuTest, the_default_streams_are_fenced_by_their_numbers) {
  delay<<<1, 1, 0, cudaStreamLegacy>>>(kLong);
  expect_under_way(device->try_fence(0).value());
  expect_under_way(device->try_fence(1).value());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  delay<<<1, 1, 0, cudaStreamPerThread>>>(kLong);
  expect_under_way(device->try_fence(2).value());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(GpuTest, a_foreign_event_orders_our_work) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  cudaStream_t theirs = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&theirs, cudaStreamNonBlocking), cudaSuccess);
  delay<<<1, 1, 0, theirs>>>(kLong);
  ASSERT_EQ(cudaEventRecord(event, theirs), cudaSuccess);
  const Event fence = device->fence_event(reinterpret_cast<std::uint64_t>(event));
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
  expect_under_way(fence);
  EXPECT_TRUE(fence.wait());
  ASSERT_EQ(cudaStreamDestroy(theirs), cudaSuccess);
}

TEST_F(GpuTest, a_consumers_stream_waits_for_ours) {
  const HostBuffer memory(device->device_memory(), 256);
  const auto ours = device->make_stream();
  cudaStream_t theirs = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&theirs, cudaStreamNonBlocking), cudaSuccess);
  delay_on(*ours);
  ours->fill(memory.bytes(), std::byte{5});
  device->make_wait(handle(theirs), ours->record());
  unsigned char got = 0;
  ASSERT_EQ(cudaMemcpyAsync(&got, memory.data(), 1, cudaMemcpyDeviceToHost, theirs), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(theirs), cudaSuccess);
  EXPECT_EQ(got, 5);
  ASSERT_EQ(cudaStreamDestroy(theirs), cudaSuccess);
}

// In the strictest mode, which forbids calls on other threads too, and on a blocking as well as a private stream.
TEST_F(GpuTest, a_graph_captured_meanwhile_stays_whole_and_fences_are_put_off) {
  for (const unsigned flags : {cudaStreamNonBlocking, cudaStreamDefault}) {
    const auto ours = device->make_stream();
    cudaStream_t theirs = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&theirs, flags), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(theirs, cudaStreamCaptureModeGlobal), cudaSuccess);
    delay<<<1, 1, 0, theirs>>>(1000);
    const auto work = [&] {
      EXPECT_FALSE(device->try_fence(handle(theirs)));
      EXPECT_TRUE(device->fence_all(/*spare_captures=*/true).wait());
      if (flags == cudaStreamDefault) {
        EXPECT_FALSE(device->try_fence(0));
      }
      const HostBuffer memory(device->device_memory(), 1 << 20);
      const HostBuffer pinned(device->pinned_memory(), 1 << 20);
      ours->copy(memory.bytes(), pinned.bytes());
      EXPECT_TRUE(ours->record().wait());
      const auto stream = device->make_stream();
      device->make_wait(handle(theirs), ours->record());
    };
    work();
    std::jthread(work).join();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(theirs, &graph), cudaSuccess);
    EXPECT_NE(graph, nullptr);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaStreamDestroy(theirs);
  }
}

TEST_F(GpuTest, a_wait_is_stopped_in_time) {
  const auto stream = device->make_stream();
  delay_on(*stream);
  const Event event = stream->record();
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_FALSE(event.wait(stop.get_token()));
  EXPECT_TRUE(event.wait());
}

}  // namespace
}  // namespace damacy
