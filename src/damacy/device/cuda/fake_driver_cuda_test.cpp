// The CUDA device over the fake driver: every line of it, and what no GPU does on demand.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/alloc_suite.h"
#include "conformance/device_suite.h"
#include "conformance/ordered_alloc_suite.h"
#include "damacy/device/cuda/context.h"
#include "damacy/device/cuda/cuda_device.h"
#include "damacy/device/cuda/event.h"
#include "damacy/device/ordered_alloc.h"
#include "fakes/libcuda/fake_cuda.h"
#include "support/error_of.h"

namespace damacy {
namespace {

struct FakeFixture {
  static std::shared_ptr<Device> make() { return cuda::bind_primary(FakeCuda().api(), 1); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(FakeCuda, DeviceSuite, FakeFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(FakeCuda, AllocSuite, MemoriesOf<FakeFixture>);
INSTANTIATE_TYPED_TEST_SUITE_P(FakeCuda, OrderedAllocSuite, FakeFixture);

// The driver needs a few asks until an event has passed.
struct SlowFixture {
  static std::shared_ptr<Device> make() {
    const FakeCuda fake;
    fake.set("queries", 70);
    return cuda::bind_primary(fake.api(), 0);
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(SlowFakeCuda, DeviceSuite, SlowFixture);

// A driver of CUDA 12.0, which lacks calls that came later.
struct OldFixture {
  static std::shared_ptr<Device> make() { return cuda::bind_primary(FakeCuda(kFakeOldCuda).api(), 0); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(OldFakeCuda, DeviceSuite, OldFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(OldFakeCuda, AllocSuite, MemoriesOf<OldFixture>);

class CudaTest : public ::testing::Test {
 protected:
  FakeCuda fake;
  std::shared_ptr<cuda::DriverApi> api = fake.api();

  CUcontext current() {
    CUcontext context = nullptr;
    api->calls.cuCtxGetCurrent(&context);
    return context;
  }
};

TEST(CudaProbe, names_what_is_missing) {
  const FakeCuda fake;
  EXPECT_EQ(fake.open().probe.state, CudaState::usable);

  const auto none = cuda::open_driver("/nowhere/libcuda.so.1");
  EXPECT_EQ(none.probe.state, CudaState::no_driver);
  EXPECT_FALSE(none.probe.has_driver);
  EXPECT_TRUE(none.probe.why.starts_with("no driver: ")) << none.probe.why;

  const auto foreign = cuda::open_driver("libm.so.6");
  EXPECT_EQ(foreign.probe.state, CudaState::driver_too_old);
  EXPECT_EQ(foreign.probe.why, "driver too old: it lacks cuInit");

  fake.set("version", 11080);
  EXPECT_EQ(fake.open().probe.state, CudaState::driver_too_old);
  EXPECT_TRUE(fake.open().probe.why.starts_with("driver too old: it is for CUDA 11.8, needed is "))
      << fake.open().probe.why;
  fake.set("version", CUDA_VERSION);

  fake.set("devices", 0);
  EXPECT_EQ(fake.open().probe.state, CudaState::no_device);
  EXPECT_TRUE(fake.open().probe.has_driver);
  fake.set("devices", 1);
  fake.set("capability", 70);
  EXPECT_TRUE(
      fake.open().probe.why.starts_with("no device: device 0 (Fake GPU) has compute capability 7.0: this build "))
      << fake.open().probe.why;
  fake.set("capability", 90);
  fake.set("init", CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(fake.open().probe.state, CudaState::no_device);
  fake.set("init", CUDA_ERROR_STUB_LIBRARY);
  EXPECT_EQ(fake.open().probe.state, CudaState::no_driver);
}

TEST_F(CudaTest, binds_the_current_context_primary_or_not) {
  EXPECT_EQ(cuda::bind_current(api), nullptr);
  const CUcontext own = fake.make_context(1);
  api->calls.cuCtxPushCurrent(own);
  auto device = cuda::bind_current(api);
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->index(), 1);
  EXPECT_EQ(device->name(), "cuda:1 Fake GPU");
  EXPECT_EQ(fake.live("retains"), 0);
  const auto stream = device->make_stream();
  EXPECT_TRUE(stream->record().wait());
  EXPECT_EQ(current(), own);
  EXPECT_EQ(fake.stack_depth(), 1);
}

TEST_F(CudaTest, keeps_a_primary_context_that_is_current_alive) {
  CUcontext primary = nullptr;
  api->calls.cuDevicePrimaryCtxRetain(&primary, 0);
  api->calls.cuCtxPushCurrent(primary);
  auto device = cuda::bind_current(api);
  EXPECT_EQ(fake.live("retains"), 2);
  device.reset();
  EXPECT_EQ(fake.live("retains"), 1);
  EXPECT_EQ(current(), primary);
}

TEST_F(CudaTest, binds_by_index_whatever_is_current) {
  const CUcontext other = fake.make_context(0);
  api->calls.cuCtxPushCurrent(other);
  auto device = cuda::bind_primary(api, 1);
  EXPECT_EQ(device->index(), 1);
  EXPECT_EQ(current(), other);
  EXPECT_EQ(fake.live("retains"), 1);
  device.reset();
  EXPECT_EQ(fake.live("retains"), 0);
  for (const int index : {-1, 2, 1000})
    EXPECT_EQ(error_of([&] { cuda::bind_primary(api, index); }).where().reason, "no-device") << index;
  EXPECT_EQ(current(), other);
}

TEST_F(CudaTest, makes_the_primary_context_current_only_where_there_is_none) {
  cuda::make_primary_current(api, 1);
  const CUcontext made = current();
  EXPECT_NE(made, nullptr);
  cuda::make_primary_current(api, 0);
  EXPECT_EQ(current(), made);
}

// Does something of everything.
void scenario(const std::shared_ptr<cuda::DriverApi>& api) {
  const auto device = cuda::bind_primary(api, 0);
  const HostBuffer pinned(device->pinned_memory(), 64);
  const HostBuffer memory(device->device_memory(), 64);
  const auto stream = device->make_stream();
  const auto other = device->make_stream();
  OrderedBuffer ordered(device->make_ordered_memory(), 64);
  ordered.free_after({stream->record()});
  ordered = {};
  device->memory();
  stream->fill(memory.bytes(), std::byte{1});
  stream->copy(memory.bytes(), pinned.bytes());
  stream->host_task([] {});
  stream->enqueue({.on_host = {}, .launch = [](std::uint64_t) { return 0; }});
  const Event begin = stream->record(true);
  const Event end = stream->record(true);
  other->wait(end);
  end.wait();
  end.ms_since(begin);
  device->try_fence(0);
  device->fence_all(/*spare_captures=*/false);
  device->fence_all(/*spare_captures=*/true).wait();
  const auto handle = dynamic_cast<cuda::CudaEvent&>(*end.state()).handle();
  device->fence_event(reinterpret_cast<std::uint64_t>(handle)).wait();
  device->make_wait(1, stream->record());
}

TEST_F(CudaTest, events_without_times_are_used_again) {
  auto device = cuda::bind_primary(api, 0);
  device->try_fence(0);
  const std::uint64_t created = fake.calls("cuEventCreate"), destroyed = fake.calls("cuEventDestroy");
  for (int i = 0; i < 10; ++i) device->try_fence(0);
  EXPECT_EQ(fake.calls("cuEventCreate"), created);
  EXPECT_EQ(fake.calls("cuEventDestroy"), destroyed);
  const auto first = device->try_fence(0), second = device->try_fence(0);
  EXPECT_EQ(fake.calls("cuEventCreate"), created + 1);  // both are in use
  EXPECT_GT(fake.live("events"), 1);
  device.reset();
}

TEST_F(CudaTest, the_fence_of_a_stream_without_work_is_no_event) {
  const auto device = cuda::bind_primary(api, 0);
  const auto stream = device->make_stream();
  for (const std::uint64_t handle : {std::uint64_t{0}, std::uint64_t{2}, stream->native_handle()}) {
    const std::uint64_t recorded = fake.calls("cuEventRecord");
    fake.set("idle", 1);
    const auto none = device->try_fence(handle);
    ASSERT_TRUE(none);
    EXPECT_TRUE(none->ready());
    EXPECT_EQ(fake.calls("cuEventRecord"), recorded);
    fake.set("idle", 0);
    const auto event = device->try_fence(handle);
    ASSERT_TRUE(event);
    EXPECT_NE(event->state(), nullptr);
    EXPECT_EQ(fake.calls("cuEventRecord"), recorded + 1);
  }
}

TEST_F(CudaTest, an_event_that_has_passed_is_not_asked_again_until_it_is_recorded_again) {
  const auto device = cuda::bind_primary(api, 0);
  const auto stream = device->make_stream();
  fake.set("queries", 1);
  Event event = stream->record();
  EXPECT_FALSE(event.ready());
  EXPECT_TRUE(event.ready());
  const std::uint64_t asked = fake.calls("cuEventQuery");
  EXPECT_TRUE(event.ready());
  EXPECT_TRUE(event.wait());
  EXPECT_EQ(fake.calls("cuEventQuery"), asked);
  fake.set("queries", 3);  // the same event again
  stream->record_again(event);
  EXPECT_FALSE(event.ready());
  EXPECT_EQ(fake.calls("cuEventQuery"), asked + 1);
}

TEST_F(CudaTest, cores_near_a_device_are_unknown_if_the_driver_does_not_know_its_bus) {
  const auto device = cuda::bind_primary(api, 0);
  const std::uint64_t asked = fake.calls("cuDeviceGetAttribute");
  fake.fail("cuDeviceGetAttribute", 2, CUDA_ERROR_INVALID_VALUE, /*for_ever=*/false);
  EXPECT_EQ(device->near_cores(), "");
  EXPECT_EQ(fake.calls("cuDeviceGetAttribute"), asked + 2);
  EXPECT_EQ(fake.struck(), "cuDeviceGetAttribute");
}

// Calls whose failure leaves something behind.
bool frees(const std::string& call) {
  for (const char* part : {"Destroy", "Free", "Unregister", "Release", "cuCtxPushCurrent", "cuDeviceGet"})
    if (call.find(part) != std::string::npos) return true;
  return false;
}

TEST_F(CudaTest, without_faults_nothing_is_left) {
  scenario(api);
  EXPECT_EQ(fake.live(), 0);
  EXPECT_EQ(fake.stack_depth(), 0);
}

TEST_F(CudaTest, whatever_call_fails_the_callers_context_stays_and_nothing_leaks) {
  for (const CUresult code : {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY}) {
    bool reached_the_end = false;
    for (std::uint64_t nth = 1; !reached_the_end; ++nth) {
      ASSERT_LT(nth, 500u);
      const FakeCuda fresh;
      api = fresh.api();
      const CUcontext mine = fresh.make_context(1);
      api->calls.cuCtxPushCurrent(mine);
      fresh.fail("", nth, code, /*for_ever=*/false);
      try {
        scenario(api);
      } catch (const Error& error) {
        EXPECT_TRUE(error.status() == Status::cuda || error.status() == Status::oom || error.status() == Status::inval)
            << error.what();
        EXPECT_FALSE(error.sticky());
      }
      const std::string struck = fresh.struck();
      reached_the_end = struck.empty();
      fresh.heal();
      ASSERT_EQ(current(), mine) << struck;
      ASSERT_EQ(fresh.stack_depth(), 1) << struck;
      if (!frees(struck)) {
        ASSERT_EQ(fresh.live(), 0) << struck;
      }
    }
  }
}

TEST_F(CudaTest, whatever_call_loses_the_device_the_rest_is_silence) {
  bool reached_the_end = false;
  for (std::uint64_t nth = 1; !reached_the_end; ++nth) {
    ASSERT_LT(nth, 500u);
    const FakeCuda fresh;
    api = fresh.api();
    const CUcontext mine = fresh.make_context(1);
    api->calls.cuCtxPushCurrent(mine);
    const std::uint64_t before = fresh.calls();
    fresh.fail("", nth, CUDA_ERROR_ILLEGAL_ADDRESS, /*for_ever=*/true);
    try {
      scenario(api);
    } catch (const Error&) {
    }
    reached_the_end = fresh.struck().empty();
    // A few questions are asked of a device before it is ours to lose.
    if (!reached_the_end) {
      ASSERT_LE(fresh.calls() - before, nth + 4) << fresh.struck();
    }
    fresh.heal();
    ASSERT_EQ(current(), mine);
    ASSERT_EQ(fresh.stack_depth(), 1);
  }
}

TEST_F(CudaTest, after_a_sticky_error_no_call_is_made_and_memory_stays) {
  auto device = cuda::bind_primary(api, 0);
  auto stream = device->make_stream();
  auto memory = std::make_unique<HostBuffer>(device->device_memory(), 64);
  auto pinned = std::make_unique<HostBuffer>(device->pinned_memory(), 64);
  Event event = stream->record();
  fake.fail("cuMemcpyAsync", 1, CUDA_ERROR_ILLEGAL_ADDRESS, true);
  const Error first = error_of([&] { stream->copy(memory->bytes(), pinned->bytes()); });
  EXPECT_EQ(first.status(), Status::cuda);
  EXPECT_TRUE(first.sticky());
  EXPECT_NE(first.message().find("cuMemcpyAsync"), std::string::npos) << first.message();
  EXPECT_NE(first.message().find("restart the process"), std::string::npos) << first.message();
  fake.heal();

  const std::uint64_t calls = fake.calls();
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { stream->copy(memory->bytes(), pinned->bytes()); }, [&] { (void)stream->record(); },
           [&] { event.ready(); }, [&] { event.wait(); }, [&] { device->make_stream(); },
           [&] { device->device_memory()->take(1); }, [&] { device->check_usable(); },
           [&] { device->fence_all(false); }, [&] { device->fence_all(true); }}) {
    const Error again = error_of(call);
    EXPECT_EQ(again.message(), first.message());
    EXPECT_TRUE(again.sticky());
  }
  event = {};
  memory.reset();
  pinned.reset();
  stream.reset();
  device.reset();
  EXPECT_EQ(fake.calls(), calls);
  EXPECT_EQ(fake.live("device_memory"), 1);
  EXPECT_EQ(fake.stack_depth(), 0);
}

TEST_F(CudaTest, who_finds_a_device_lost_second_says_what_the_first_said) {
  const auto device = cuda::bind_primary(api, 0);
  const auto stream = device->make_stream();
  std::optional<Error> first;
  Work work;
  work.launch = [&](std::uint64_t) {
    fake.fail("cuEventCreate", 1, CUDA_ERROR_CONTEXT_IS_DESTROYED, true);
    first = error_of([&] { (void)stream->record(); });
    return static_cast<int>(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  };
  const Error second = error_of([&] { stream->enqueue(std::move(work)); });
  EXPECT_NE(second.message().find("cuEventCreate"), std::string::npos) << second.message();
  EXPECT_EQ(second.message(), first->message());
}

TEST_F(CudaTest, a_lost_device_is_lost_for_every_later_pipeline_and_others_are_not) {
  const auto device = cuda::bind_primary(api, 0);
  const auto stream = device->make_stream();
  fake.fail("cuEventCreate", 1, CUDA_ERROR_LAUNCH_FAILED, false);
  const Error first = error_of([&] { (void)stream->record(); });
  EXPECT_EQ(error_of([&] { cuda::bind_primary(api, 0); }).message(), first.message());
  EXPECT_TRUE(cuda::bind_primary(api, 1)->make_stream()->record().wait());
}

TEST_F(CudaTest, a_context_the_user_destroyed_is_a_lost_device) {
  const CUcontext own = fake.make_context(0);
  api->calls.cuCtxPushCurrent(own);
  auto device = cuda::bind_current(api);
  auto stream = device->make_stream();
  api->calls.cuCtxPopCurrent(nullptr);
  fake.destroy_context(own);
  EXPECT_TRUE(error_of([&] { (void)stream->record(); }).sticky());
  const std::uint64_t calls = fake.calls();
  stream.reset();
  device.reset();
  EXPECT_EQ(fake.calls(), calls);
}

TEST_F(CudaTest, a_launch_that_fails_is_an_error_of_its_own_kind) {
  const auto device = cuda::bind_primary(api, 0);
  const auto stream = device->make_stream();
  const auto launch = [&](int code) {
    stream->enqueue({.on_host = {}, .launch = [code](std::uint64_t) { return code; }});
  };
  const Error plain = error_of([&] { launch(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES); });
  EXPECT_EQ(plain.status(), Status::cuda);
  EXPECT_FALSE(plain.sticky());
  EXPECT_TRUE(stream->record().wait());
  EXPECT_TRUE(error_of([&] { launch(CUDA_ERROR_ILLEGAL_ADDRESS); }).sticky());
}

TEST_F(CudaTest, full_memories_are_out_of_memory) {
  const auto device = cuda::bind_primary(api, 0);
  fake.fail("cuMemAlloc_v2", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
  fake.fail("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
  const Error on_device = error_of([&] { device->device_memory()->take(64); });
  EXPECT_EQ(on_device.status(), Status::oom);
  EXPECT_EQ(on_device.where().reason, "gpu-memory");
  fake.fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
  const Error pinned = error_of([&] { device->pinned_memory()->take(64); });
  EXPECT_EQ(pinned.status(), Status::oom);
  EXPECT_EQ(pinned.where().reason, "memory");
}

TEST_F(CudaTest, memory_of_another_owner_is_page_locked_while_that_is_kept) {
  const auto device = cuda::bind_primary(api, 0);
  const HostBuffer memory(std::make_shared<PageAlloc>(), 8192);
  memory.data()[4096] = std::byte{3};
  {
    const auto locked = device->page_lock(memory.bytes());
    EXPECT_EQ(fake.calls("cuMemHostRegister"), 1u);
    EXPECT_EQ(fake.calls("cuMemHostUnregister"), 0u);
  }
  EXPECT_EQ(fake.calls("cuMemHostUnregister"), 1u);
  EXPECT_EQ(memory.data()[4096], std::byte{3});
  fake.fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
  EXPECT_EQ(error_of([&] { static_cast<void>(device->page_lock(memory.bytes())); }).status(), Status::oom);
}

TEST_F(CudaTest, memory_in_order_is_taken_and_given_back_on_its_stream_without_a_wait) {
  const auto device = cuda::bind_primary(api, 0);
  const auto stream = device->make_stream();
  fake.set("queries", 1'000'000'000);  // a wait for an event on the host never ends
  {
    OrderedBuffer memory(device->make_ordered_memory(), 64);
    stream->wait(memory.ready());
    memory.free_after({stream->record()});
    EXPECT_EQ(fake.live("device_memory"), 1);
  }
  EXPECT_EQ(fake.calls("cuMemAllocAsync"), 1u);
  EXPECT_EQ(fake.calls("cuMemFreeAsync"), 1u);
  EXPECT_EQ(fake.calls("cuStreamWaitEvent"), 2u);
  EXPECT_EQ(fake.calls("cuEventQuery"), 0u);
  EXPECT_EQ(fake.calls("cuMemFree") + fake.calls("cuMemFree_v2"), 0u);
  EXPECT_EQ(fake.live("device_memory"), 0);
}

TEST_F(CudaTest, memory_in_order_that_cannot_be_had_is_out_of_memory) {
  const auto device = cuda::bind_primary(api, 0);
  const auto ordered = device->make_ordered_memory();
  fake.fail("cuMemAllocAsync", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
  const Error error = error_of([&] { ordered->take(64); });
  EXPECT_EQ(error.status(), Status::oom);
  EXPECT_EQ(error.where().reason, "gpu-memory");
}

TEST_F(CudaTest, a_device_without_pools_has_no_memory_in_order) {
  fake.set("pools", 0);
  EXPECT_EQ(cuda::bind_primary(api, 0)->make_ordered_memory(), nullptr);
}

TEST_F(CudaTest, memory_in_order_of_a_lost_device_stays) {
  const auto device = cuda::bind_primary(api, 0);
  const auto stream = device->make_stream();
  auto memory = std::make_unique<OrderedBuffer>(device->make_ordered_memory(), 64);
  fake.fail("cuEventCreate", 1, CUDA_ERROR_ILLEGAL_ADDRESS, true);
  error_of([&] { (void)stream->record(); });
  fake.heal();
  const std::uint64_t calls = fake.calls();
  memory.reset();
  EXPECT_EQ(fake.calls(), calls);
  EXPECT_EQ(fake.live("device_memory"), 1);
}

TEST_F(CudaTest, where_pages_cannot_be_registered_the_driver_gives_its_own) {
  const auto device = cuda::bind_primary(api, 0);
  fake.fail("cuMemHostRegister", 1, CUDA_ERROR_NOT_SUPPORTED, true);
  {
    const HostBuffer pinned(device->pinned_memory(), 64);
    pinned.data()[63] = std::byte{1};
    EXPECT_EQ(fake.calls("cuMemHostAlloc"), 1u);
  }
  EXPECT_EQ(fake.live("pinned_memory"), 0);
}

TEST_F(CudaTest, large_pinned_memory_is_touched_by_several_threads_to_its_last_page) {
  const auto device = cuda::bind_primary(api, 0);
  const std::size_t bytes = (std::size_t{100} << 20) + 5000;
  const HostBuffer pinned(device->pinned_memory(), bytes);
  std::vector<unsigned char> resident((bytes + 4095) / 4096);
  ASSERT_EQ(::mincore(pinned.data(), bytes, resident.data()), 0);
  EXPECT_TRUE(std::ranges::all_of(resident, [](unsigned char page) { return (page & 1) != 0; }));
}

TEST_F(CudaTest, while_a_graph_is_captured_fences_are_put_off_and_the_capture_stays_whole) {
  const auto device = cuda::bind_primary(api, 0);
  const auto stream = device->make_stream();
  fake.set("capturing", 1);
  EXPECT_FALSE(device->try_fence(stream->native_handle()));
  EXPECT_TRUE(device->try_fence(0));
  EXPECT_TRUE(device->fence_all(/*spare_captures=*/true).wait());
  {
    const HostBuffer memory(device->device_memory(), 64);
    const HostBuffer pinned(device->pinned_memory(), 64);
    EXPECT_TRUE(stream->record().wait());
  }
  fake.set("capturing", 2);
  EXPECT_FALSE(device->try_fence(0));
  EXPECT_FALSE(device->try_fence(1));
  EXPECT_TRUE(device->fence_all(/*spare_captures=*/false).wait());  // in the other way, where a capture shows
  EXPECT_EQ(fake.live("broken_captures"), 0);
  fake.set("capturing", 1);
  EXPECT_TRUE(device->fence_all(/*spare_captures=*/false).wait());  // and where none showed, after all
  EXPECT_EQ(fake.live("broken_captures"), 1);
}

TEST_F(CudaTest, a_fence_for_the_host_alone_is_refused_by_streams_and_reports_what_failed) {
  const auto device = cuda::bind_primary(api, 0);
  const auto stream = device->make_stream();
  const Event fence = device->fence_all(/*spare_captures=*/true);
  EXPECT_FALSE(fence.for_streams());
  EXPECT_THROW(stream->wait(fence), Error);
  EXPECT_TRUE(fence.wait());
  fake.fail("cuMemHostUnregister", 1, CUDA_ERROR_ILLEGAL_ADDRESS, true);
  const Event lost = device->fence_all(/*spare_captures=*/true);
  EXPECT_TRUE(error_of([&] { lost.wait(); }).sticky());
  EXPECT_TRUE(error_of([&] { lost.ready(); }).sticky());
}

TEST(OldCuda, a_fence_of_everything_is_for_the_host_alone_where_the_driver_records_no_context) {
  const FakeCuda old(kFakeOldCuda);
  const auto device = cuda::bind_primary(old.api(), 0);
  const Event fence = device->fence_all(/*spare_captures=*/false);
  EXPECT_FALSE(fence.for_streams());
  EXPECT_TRUE(fence.wait());
  EXPECT_EQ(old.calls("cuMemHostUnregister"), 1u);
}

TEST_F(CudaTest, a_foreign_event_becomes_one_of_ours) {
  const auto device = cuda::bind_primary(api, 0);
  CUcontext primary = nullptr;
  api->calls.cuDevicePrimaryCtxRetain(&primary, 0);
  api->calls.cuCtxPushCurrent(primary);
  CUevent foreign = nullptr;
  api->calls.cuEventCreate(&foreign, CU_EVENT_DISABLE_TIMING);
  api->calls.cuEventRecord(foreign, nullptr);
  EXPECT_TRUE(device->fence_event(reinterpret_cast<std::uint64_t>(foreign)).wait());
  EXPECT_EQ(fake.calls("cuStreamWaitEvent"), 1u);
}

TEST_F(CudaTest, a_stream_waits_for_no_other_devices_event) {
  const auto device = cuda::bind_primary(api, 0);
  struct Foreign final : Event::State {
    bool ready() override { return false; }
    bool wait(std::stop_token) override { return false; }
    std::optional<double> ms_since(State&) override { return std::nullopt; }
  };
  EXPECT_THROW(device->make_stream()->wait(Event(std::make_shared<Foreign>())), Error);
}

TEST_F(CudaTest, a_consumers_stream_waits_only_for_what_is_not_done) {
  const auto device = cuda::bind_primary(api, 0);
  const auto stream = device->make_stream();
  const Event done = stream->record();
  device->make_wait(1, done);
  EXPECT_EQ(fake.calls("cuStreamWaitEvent"), 0u);
  fake.set("queries", 5);
  device->make_wait(1, stream->record());
  EXPECT_EQ(fake.calls("cuStreamWaitEvent"), 1u);
}

TEST_F(CudaTest, a_wait_can_be_stopped_while_the_gpu_hangs) {
  const auto device = cuda::bind_primary(api, 0);
  const auto stream = device->make_stream();
  const Event event = stream->record();
  fake.set("queries", 1'000'000'000);
  std::stop_source stop;
  std::jthread stopper([&] {
    while (fake.calls("cuEventQuery") < 200) std::this_thread::yield();
    stop.request_stop();
  });
  EXPECT_FALSE(event.wait(stop.get_token()));
}

TEST_F(CudaTest, a_forked_child_makes_no_call) {
  auto device = cuda::bind_primary(api, 0);
  auto stream = device->make_stream();
  auto memory = std::make_unique<HostBuffer>(device->device_memory(), 64);
  const std::uint64_t calls = fake.calls();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto refused = [](auto call) {
      try {
        call();
      } catch (const Error& error) {
        return error.status() == Status::shutdown && error.where().reason == "forked" && error.where().what == "forked";
      }
      return false;
    };
    bool right = refused([&] { (void)stream->record(); }) && refused([&] { device->check_usable(); }) &&
                 refused([&] { cuda::bind_primary(api, 1); });
    memory.reset();
    stream.reset();
    device.reset();
    right = right && fake.calls() == calls;
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace damacy
