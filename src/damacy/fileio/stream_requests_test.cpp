// What a host function of a stream must not do: a device may call it on a thread where neither its own calls nor long
// waits are allowed.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "damacy/device/host_device.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/file_requests.h"
#include "damacy/fileio/staging.h"
#include "fakes/temp_dir.h"
#include "support/forwarding_device.h"

namespace damacy {
namespace {

thread_local bool is_in_host_function = false;

// Notes on each thread when a host function runs there or is destroyed after its run.
class NotingStream final : public Stream {
 public:
  explicit NotingStream(std::unique_ptr<Stream> inner) : inner_(std::move(inner)) {}
  void copy(std::span<std::byte> dst, std::span<const std::byte> src) override { inner_->copy(dst, src); }
  void fill(std::span<std::byte> dst, std::byte value) override { inner_->fill(dst, value); }
  void host_task(std::function<void()> task) override {
    inner_->host_task([task = std::make_shared<std::function<void()>>(std::move(task))] {
      is_in_host_function = true;
      (*task)();
      *task = nullptr;
      is_in_host_function = false;
    });
  }
  void enqueue(Work work) override { inner_->enqueue(std::move(work)); }
  void wait(const Event& event) override { inner_->wait(event); }
  Event record(bool timed) override { return inner_->record(timed); }
  std::uint64_t native_handle() const noexcept override { return inner_->native_handle(); }

 private:
  const std::unique_ptr<Stream> inner_;
};

class NotingDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<NotingStream>(inner().make_stream()); }
};

// Where what an operation owns was released.
struct Releases {
  void note() {
    in_host_function = in_host_function || is_in_host_function;
    all.count_down();
  }
  std::latch all{2};
  std::atomic<bool> in_host_function{false};
};

class Attached final : public File::Attachment {
 public:
  explicit Attached(Releases& releases) : releases_(releases) {}
  ~Attached() override { releases_.note(); }

 private:
  Releases& releases_;
};

class StreamRequests : public ::testing::TestWithParam<std::tuple<HostOrder::Kind, Direction>> {
 protected:
  void SetUp() override {
    std::ofstream(path, std::ios::binary).write(std::string(150'000, 'a').data(), 150'000);
    change_io_settings([](IoSettings& s) {
      s = IoSettings{};
      s.compat_mode = CompatMode::on;
      s.bounce_buffer_size = 64 << 10;  // several windows
    });
    StagingPool::process().free_idle();
    std::ranges::fill(memory.bytes(), std::byte{'b'});
  }
  void TearDown() override { StagingPool::process().free_idle(); }

  TempDir dir;
  const std::string path = dir.path() + "/data";
  const std::shared_ptr<Device> device =
      std::make_shared<NotingDevice>(make_host_device({.kind = std::get<0>(GetParam()), .seed = 3}));
  HostBuffer memory{device->device_memory(), 150'000};
};

TEST_P(StreamRequests, leave_the_end_of_the_file_and_of_their_memory_to_another_thread) {
  for (const bool close_waits : {false, true}) {
    Releases releases;
    Event done;
    {
      const auto file = File::open({path, AT_FDCWD}, OpenFlags::parse("r+"));
      file->attach(std::make_shared<Attached>(releases));
      const std::shared_ptr<OnDevice> on(new OnDevice{device, {}}, [&releases](OnDevice* gone) {
        delete gone;
        releases.note();
      });
      const FileMemory all{memory.data(), memory.size(), on};
      done = begin_in_stream({file, std::get<1>(GetParam()), 0, {all}, {}}, 0)->copies().back();
      file->close(/*wait=*/false);
      if (close_waits) {
        std::thread of_device([&] { done.wait(); });
        file->close(/*wait=*/true);
        of_device.join();
      }
    }
    done.wait();
    releases.all.wait();
    EXPECT_FALSE(releases.in_host_function);
  }
  std::ifstream in(path, std::ios::binary);
  const std::string now((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(now, std::string(150'000, std::get<1>(GetParam()) == Direction::read ? 'a' : 'b'));
}

INSTANTIATE_TEST_SUITE_P(Devices, StreamRequests,
                         ::testing::Combine(::testing::Values(HostOrder::Kind::eager, HostOrder::Kind::lazy),
                                            ::testing::Values(Direction::read, Direction::write)));

}  // namespace
}  // namespace damacy
