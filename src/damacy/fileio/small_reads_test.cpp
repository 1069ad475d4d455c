// Many small reads into a device's memory: how workers share them, what they cost, and what a failure leaves.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/device/host_device.h"
#include "damacy/fileio/file_requests.h"
#include "damacy/fileio/io_pool.h"
#include "damacy/fileio/staging.h"
#include "fakes/faulty_calls.h"
#include "fakes/temp_dir.h"
#include "support/forwarding_device.h"

namespace damacy {
namespace {

constexpr std::size_t kSize = 4096, kCount = 100;
constexpr std::size_t kAtOnce = 16;  // reads that a worker takes at most

// Of one stream's copies, or of one event, the n-th fails; counted from 0.
class FailingDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<FailingStream>(inner().make_stream(), *this);
  }
  std::atomic<int> copies{1 << 30}, events{1 << 30};
  std::atomic<int> waits{0};

 private:
  class FailingStream final : public Stream {
   public:
    FailingStream(std::unique_ptr<Stream> inner, FailingDevice& device) : inner_(std::move(inner)), device_(device) {}
    void copy(std::span<std::byte> dst, std::span<const std::byte> src) override {
      if (device_.copies-- == 0) throw Error(Status::cuda, "no copy", "cuda");
      inner_->copy(dst, src);
    }
    void fill(std::span<std::byte> dst, std::byte value) override { inner_->fill(dst, value); }
    void host_task(std::function<void()> task) override { inner_->host_task(std::move(task)); }
    void enqueue(Work work) override { inner_->enqueue(std::move(work)); }
    void wait(const Event& event) override {
      ++device_.waits;
      inner_->wait(event);
    }
    Event record(bool timed) override {
      if (device_.events-- == 0) throw Error(Status::cuda, "no event", "cuda");
      return inner_->record(timed);
    }
    std::uint64_t native_handle() const noexcept override { return inner_->native_handle(); }

   private:
    const std::unique_ptr<Stream> inner_;
    FailingDevice& device_;
  };
};

// Reads wait until `most` of them are under way at the same time, or the gate is opened.
class GatedCalls final : public detail::FileCalls {
 public:
  explicit GatedCalls(int most) : most_(most) {}
  ssize_t preadv2(int fd, const iovec* to, int count, off_t offset, int flags) override {
    {
      Lock lock(mutex_);
      if (++waiting_ >= most_) is_open_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this]() DAMACY_REQUIRES(mutex_) { return is_open_; });
    }
    return FileCalls::preadv2(fd, to, count, offset, flags);
  }
  void open() {
    const Lock lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void wait_for(int waiting) {
    Lock lock(mutex_);
    changed_.wait(lock, [&]() DAMACY_REQUIRES(mutex_) { return waiting_ >= waiting; });
  }

 private:
  const int most_;
  Mutex mutex_;
  Condition changed_;
  int waiting_ DAMACY_GUARDED_BY(mutex_) = 0;
  bool is_open_ DAMACY_GUARDED_BY(mutex_) = false;
};

class SmallReads : public ::testing::TestWithParam<HostOrder::Kind> {
 protected:
  void SetUp() override {
    std::mt19937 random(7);
    for (auto& b : bytes) b = static_cast<std::byte>(random());
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    with_threads(1);
    StagingPool::process().free_idle();
    std::ranges::fill(memory.bytes(), std::byte{0});
  }
  void TearDown() override {
    IoPool::process().pause(false);
    IoPool::process().replace_workers();
    StagingPool::process().free_idle();
  }
  static void with_threads(std::uint64_t threads) {
    change_io_settings([&](IoSettings& s) {
      s = IoSettings{};
      s.num_threads = threads;
      s.num_threads_set = true;
      s.compat_mode = CompatMode::on;
    });
    IoPool::process().replace_workers();
  }

  std::shared_ptr<Operation> begin(std::size_t number, std::shared_ptr<detail::FileCalls> calls = nullptr,
                                   std::size_t size = kSize) {
    if (file == nullptr || calls) file = File::open({path, AT_FDCWD}, OpenFlags::parse("r"), {}, std::move(calls));
    return begin_on({device, {}}, number, size);
  }
  std::shared_ptr<Operation> begin_on(const OnDevice& on, std::size_t number, std::size_t size = kSize) {
    FileMemory piece{memory.data() + place(number), size, std::make_shared<OnDevice>(on)};
    return begin_request({file, Direction::read, number * kSize, {std::move(piece)}, {}});
  }
  // Of that request; far from its neighbours' places.
  static std::size_t place(std::size_t number) { return (number * 37 % kCount) * (kSize + 64); }
  // Starts four workers, which are idle then.
  void start_four_workers() {
    with_threads(4);
    std::vector<std::byte> host(bytes.size());
    FileMemory all{host.data(), host.size(), nullptr};
    const auto reader = File::open({path, AT_FDCWD}, OpenFlags::parse("r"));
    wait(begin_request({reader, Direction::read, 0, {all}, {.task_size = kSize}}));
    EXPECT_EQ(IoPool::process().workers(), 4U);
    while (IoPool::process().idle_workers() < 4) std::this_thread::yield();
  }
  // Waits without running parts itself.
  static void wait(const std::shared_ptr<Operation>& operation) {
    ASSERT_TRUE(operation->wait(std::chrono::minutes(1)));
  }
  void expect_bytes(std::size_t number) {
    EXPECT_TRUE(std::equal(memory.data() + place(number), memory.data() + place(number) + kSize,
                           bytes.begin() + static_cast<std::ptrdiff_t>(number * kSize)))
        << number;
  }

  TempDir dir;
  const std::string path = dir.path() + "/data";
  std::vector<std::byte> bytes = std::vector<std::byte>(kSize * kCount);
  std::shared_ptr<FailingDevice> device =
      std::make_shared<FailingDevice>(make_host_device({.kind = GetParam(), .seed = 5, .guard = false}));
  HostBuffer memory{device->device_memory(), kCount * (kSize + 64)};
  std::shared_ptr<File> file;
};

TEST_P(SmallReads, that_wait_share_batches_of_copies) {
  IoPool::process().pause(true);
  std::vector<std::shared_ptr<Operation>> operations;
  for (std::size_t i = 0; i < kCount; ++i) operations.push_back(begin(i));
  IoPool::process().pause(false);
  for (const auto& operation : operations) wait(operation);
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(operations[i]->error(), nullptr);
    EXPECT_EQ(operations[i]->count(), kSize);
    expect_bytes(i);
  }
  EXPECT_EQ(file->counters().copies, kCount);
  EXPECT_EQ(file->counters().copy_batches, (kCount + kAtOnce - 1) / kAtOnce);
}

TEST_P(SmallReads, that_wait_behind_an_awaited_one_share_the_callers_batch) {
  const auto gate = std::make_shared<GatedCalls>(1 << 30);
  const auto first = begin(0, gate);
  gate->wait_for(1);  // the only worker is busy
  file = File::open({path, AT_FDCWD}, OpenFlags::parse("r"));
  std::vector<std::shared_ptr<Operation>> operations;
  for (std::size_t i = 1; i < kCount; ++i) operations.push_back(begin(i));
  EXPECT_TRUE(operations[2]->wait(std::nullopt));
  for (std::size_t i = 0; i < operations.size(); ++i) EXPECT_EQ(operations[i]->parts_ended(), 2 <= i && i < 18) << i;
  EXPECT_EQ(file->counters().copies, 16U);
  EXPECT_EQ(file->counters().copy_batches, 1U);
  expect_bytes(3);
  gate->open();
  wait(first);
  for (const auto& operation : operations) wait(operation);
  for (std::size_t i = 0; i < kCount; ++i) expect_bytes(i);
}

TEST_P(SmallReads, that_wait_stay_in_the_queue_while_it_is_paused) {
  IoPool::process().pause(true);
  std::vector<std::shared_ptr<Operation>> operations;
  for (std::size_t i = 0; i < 4; ++i) operations.push_back(begin(i));
  EXPECT_TRUE(operations[1]->wait(std::nullopt));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(operations[i]->parts_ended(), i == 1) << i;
  EXPECT_TRUE(operations[2]->drop_rest(/*as_cancelled=*/true));
  IoPool::process().pause(false);
  for (const auto& operation : operations) wait(operation);
}

TEST_P(SmallReads, fail_with_the_copies_of_the_callers_batch) {
  const auto gate = std::make_shared<GatedCalls>(1 << 30);
  const auto first = begin(0, gate);
  gate->wait_for(1);
  file = File::open({path, AT_FDCWD}, OpenFlags::parse("r"));
  std::vector<std::shared_ptr<Operation>> operations;
  for (std::size_t i = 1; i <= 20; ++i) operations.push_back(begin(i));
  device->copies = 5;
  EXPECT_TRUE(operations[0]->wait(std::nullopt));
  gate->open();
  wait(first);
  for (const auto& operation : operations) wait(operation);
  const auto failed = std::ranges::count_if(operations, [](const auto& one) { return one->error() != nullptr; });
  EXPECT_NE(operations[0]->error(), nullptr);
  EXPECT_EQ(failed, 10);  // 20, shared by the caller and the worker
  EXPECT_EQ(first->error(), nullptr);
}

TEST_P(SmallReads, are_a_batch_for_each_of_few_workers) {
  start_four_workers();
  IoPool::process().pause(true);
  std::vector<std::shared_ptr<Operation>> operations;
  operations.push_back(begin(0, std::make_shared<GatedCalls>(2)));  // until two workers have what they read
  for (std::size_t i = 1; i < 2 * kAtOnce; ++i) operations.push_back(begin(i));
  IoPool::process().pause(false);
  for (const auto& operation : operations) wait(operation);
  for (std::size_t i = 0; i < operations.size(); ++i) expect_bytes(i);
  EXPECT_EQ(file->counters().copies, 2 * kAtOnce);
  EXPECT_LE(file->counters().copy_batches, 4U);  // 16, then shares of what is left: 8, 4 and 4
}

TEST_P(SmallReads, wait_for_busy_workers_until_there_is_a_batch_for_each) {
  start_four_workers();
  const auto gate = std::make_shared<GatedCalls>(1 << 30);
  std::vector<std::shared_ptr<Operation>> operations{begin(0, gate)};
  gate->wait_for(1);
  const std::uint64_t before = IoPool::process().wake_ups();
  std::size_t waiting = 0;
  for (std::size_t busy = 1; busy <= 3; ++busy) {
    for (; waiting < kAtOnce * busy; ++waiting) {
      EXPECT_EQ(IoPool::process().wake_ups(), before + busy - 1);
      operations.push_back(begin(operations.size()));
    }
    gate->wait_for(static_cast<int>(busy) + 1);
    EXPECT_EQ(IoPool::process().wake_ups(), before + busy);
    waiting -= waiting / (busy + 1);  // the share of the one that was woken
  }
  gate->open();
  for (const auto& operation : operations) wait(operation);
  for (std::size_t i = 0; i < operations.size(); ++i) expect_bytes(i);
}

TEST_P(SmallReads, leave_no_read_into_host_memory_waiting) {
  start_four_workers();
  const auto gate = std::make_shared<GatedCalls>(1 << 30);
  const auto first = begin(0, gate);
  gate->wait_for(1);
  std::vector<std::byte> host(kSize);
  const auto reader = File::open({path, AT_FDCWD}, OpenFlags::parse("r"));
  wait(begin_request({reader, Direction::read, 0, {FileMemory{host.data(), kSize, nullptr}}, {}}));
  gate->open();
  wait(first);
}

TEST_P(SmallReads, wake_one_worker_at_most) {
  start_four_workers();
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint64_t before = IoPool::process().wake_ups();
    const auto operation = begin(i);
    wait(operation);
    EXPECT_LE(IoPool::process().wake_ups() - before, 1U);
    expect_bytes(i);
  }
}

TEST_P(SmallReads, run_on_the_worker_that_they_are_for) {
  with_threads(4);
  std::vector<std::byte> host(bytes.size());
  FileMemory all{host.data(), host.size(), nullptr};
  const auto reader = File::open({path, AT_FDCWD}, OpenFlags::parse("r"));
  for (std::size_t i = 0; i < kCount; ++i) {
    change_io_settings([](IoSettings& s) { s.num_threads = 4; });
    const auto wide = begin_request({reader, Direction::read, 0, {all}, {.task_size = kSize}});
    change_io_settings([](IoSettings& s) { s.num_threads = 1; });
    const auto narrow = begin(i);
    wait(narrow);
    wait(wide);
    expect_bytes(i);
  }
}

TEST_P(SmallReads, are_counted_with_their_file_when_they_end) {
  const std::array files{File::open({path, AT_FDCWD}, OpenFlags::parse("r")),
                         File::open({path, AT_FDCWD}, OpenFlags::parse("r"))};
  const std::uint64_t before = process_counters().parts;
  IoPool::process().pause(true);
  std::vector<std::shared_ptr<Operation>> operations;
  for (std::size_t i = 0; i < 16; ++i) {
    file = files[i < 5 ? 0 : 1];
    operations.push_back(begin(2 * i));
  }
  IoPool::process().pause(false);
  for (const auto& operation : operations) wait(operation);
  for (std::size_t f = 0; f < 2; ++f) {
    const IoCounters& counters = files[f]->counters();
    const std::uint64_t reads = f == 0 ? 5 : 11;
    const auto& traffic = counters.traffic[static_cast<std::size_t>(IoWay::staging)][0];
    EXPECT_EQ(traffic.calls, reads);
    EXPECT_EQ(traffic.bytes, reads * kSize);
    EXPECT_EQ(counters.parts, reads);
    std::uint64_t times = 0;
    for (const auto& count : counters.part_us_log2) times += count;
    EXPECT_EQ(times, reads);
  }
  EXPECT_EQ(process_counters().parts - before, 16U);
}

TEST_P(SmallReads, fail_with_the_copies_of_their_batch) {
  for (const bool is_copy : {true, false}) {
    IoPool::process().pause(true);
    std::vector<std::shared_ptr<Operation>> operations;
    for (std::size_t i = 0; i < 32; ++i) operations.push_back(begin(i));
    (is_copy ? device->copies : device->events) = is_copy ? 5 : 0;  // of the first batch
    IoPool::process().pause(false);
    for (const auto& operation : operations) wait(operation);
    for (std::size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(operations[i]->error() != nullptr, i < 16) << i;
      if (i >= 16) expect_bytes(i);
    }
    const std::vector<std::byte> at_the_end(memory.data(), memory.data() + memory.size());
    TearDown();
    EXPECT_TRUE(std::ranges::equal(at_the_end, memory.bytes())) << "memory changed after the end";
    EXPECT_EQ(process_counters().pinned_bytes, 0U);
  }
}

TEST_P(SmallReads, fail_alone_if_their_file_fails) {
  auto calls = std::make_shared<FaultyCalls>();
  calls->at = 3;
  IoPool::process().pause(true);
  std::vector<std::shared_ptr<Operation>> operations;
  for (std::size_t i = 0; i < 16; ++i) operations.push_back(begin(2 * i, i == 0 ? calls : nullptr));
  IoPool::process().pause(false);
  for (const auto& operation : operations) wait(operation);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(operations[i]->error() != nullptr, i == 2) << i;
    if (i != 2) expect_bytes(2 * i);
  }
}

TEST_P(SmallReads, that_follow_each_other_in_a_file_share_a_system_call) {
  const auto calls = std::make_shared<FaultyCalls>();
  IoPool::process().pause(true);
  const std::vector<std::size_t> numbers{5, 6, 7, 20, 8, 9, 9, 10, 12};
  std::vector<std::shared_ptr<Operation>> operations;
  for (const std::size_t number : numbers) operations.push_back(begin(number, file == nullptr ? calls : nullptr));
  const auto other = begin(13, std::make_shared<FaultyCalls>());  // behind, but of another file
  IoPool::process().pause(false);
  for (const auto& operation : operations) wait(operation);
  wait(other);
  for (const std::size_t number : numbers) expect_bytes(number);
  expect_bytes(13);
  EXPECT_EQ(calls->calls, 5U);  // from 5, 20, 8, 9 and 12
}

TEST_P(SmallReads, of_different_sizes_share_a_system_call_unless_a_later_one_is_larger) {
  const auto calls = std::make_shared<FaultyCalls>();
  IoPool::process().pause(true);
  const std::vector<std::shared_ptr<Operation>> operations{begin(0, calls), begin(1, nullptr, kSize - 100), begin(3),
                                                           begin(4, nullptr, 2 * kSize)};
  IoPool::process().pause(false);
  for (const auto& operation : operations) wait(operation);
  EXPECT_EQ(calls->calls, 3U);  // from 0, 3 and 4
  for (const std::size_t number : {0, 3, 4}) expect_bytes(number);
  EXPECT_TRUE(std::equal(memory.data() + place(1), memory.data() + place(1) + kSize - 100, bytes.begin() + kSize));
}

TEST_P(SmallReads, that_share_a_system_call_end_where_the_file_does) {
  const auto calls = std::make_shared<FaultyCalls>();
  std::filesystem::resize_file(path, 2 * kSize + 100);
  IoPool::process().pause(true);
  std::vector<std::shared_ptr<Operation>> operations;
  for (std::size_t i = 0; i < 5; ++i) operations.push_back(begin(i, i == 0 ? calls : nullptr));
  IoPool::process().pause(false);
  for (const auto& operation : operations) wait(operation);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(operations[i]->error(), nullptr);
    EXPECT_EQ(operations[i]->count(), i < 2 ? kSize : i == 2 ? 100 : 0) << i;
    if (i < 2) expect_bytes(i);
  }
  EXPECT_TRUE(std::equal(memory.data() + place(2), memory.data() + place(2) + 100, bytes.begin() + 2 * kSize));
  EXPECT_EQ(memory.data()[place(2) + 100], std::byte{0});
}

TEST_P(SmallReads, that_share_a_system_call_which_fails_are_read_by_themselves) {
  for (const auto kind : {FaultyCalls::Kind::error, FaultyCalls::Kind::one_byte}) {
    const auto calls = std::make_shared<FaultyCalls>();
    calls->kind = kind;
    calls->at = 1;
    IoPool::process().pause(true);
    std::vector<std::shared_ptr<Operation>> operations;
    for (std::size_t i = 0; i < 4; ++i) operations.push_back(begin(i, i == 0 ? calls : nullptr));
    IoPool::process().pause(false);
    for (const auto& operation : operations) wait(operation);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(operations[i]->error() != nullptr, kind == FaultyCalls::Kind::error && i == 0) << i;
      if (operations[i]->error() == nullptr) expect_bytes(i);
    }
    EXPECT_EQ(calls->calls, 2U);
  }
}

// The first call reads one piece, and the second one fails.
class FailingBehindOnePiece final : public detail::FileCalls {
 public:
  ssize_t preadv2(int fd, const iovec* to, int count, off_t offset, int flags) override {
    if (calls_++ > 1) return FileCalls::preadv2(fd, to, count, offset, flags);
    errno = EIO;
    const iovec piece{to->iov_base, std::min(to->iov_len, kSize)};
    return calls_ == 1 ? FileCalls::preadv2(fd, &piece, 1, offset, flags) : -1;
  }

 private:
  std::atomic<int> calls_{0};
};

TEST_P(SmallReads, that_share_a_system_call_do_not_share_an_error_behind_them) {
  IoPool::process().pause(true);
  std::vector<std::shared_ptr<Operation>> operations;
  for (std::size_t i = 0; i < 4; ++i)
    operations.push_back(begin(i, i == 0 ? std::make_shared<FailingBehindOnePiece>() : nullptr));
  IoPool::process().pause(false);
  for (const auto& operation : operations) wait(operation);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(operations[i]->error(), nullptr) << i;
    expect_bytes(i);
  }
}

TEST_P(SmallReads, that_share_a_system_call_need_not_fit_into_one_slot) {
  change_io_settings([](IoSettings& s) { s.bounce_buffer_size = 2 * kSize + 100; });
  StagingPool::process().free_idle();
  IoPool::process().pause(true);
  std::vector<std::shared_ptr<Operation>> operations;
  for (std::size_t i = 0; i < 9; ++i) operations.push_back(begin(i));
  IoPool::process().pause(false);
  for (const auto& operation : operations) wait(operation);
  for (std::size_t i = 0; i < 9; ++i) expect_bytes(i);
}

TEST_P(SmallReads, wait_for_the_last_event_that_a_thread_recorded_on_the_legacy_stream) {
  const auto producer = device->make_stream();
  std::thread::id other;
  std::thread([&] { other = std::this_thread::get_id(); }).join();
  const std::thread::id own = std::this_thread::get_id(), none;
  const auto waits_of = [&](const std::vector<std::thread::id>& recorders) {
    IoPool::process().pause(true);
    std::vector<std::shared_ptr<Operation>> operations{begin(0)};
    const int before = device->waits;
    for (const std::thread::id recorder : recorders) {  // where the last one may write, the producer does first
      const std::size_t number = operations.size();
      producer->fill(memory.bytes().subspan(place(number), kSize), std::byte{1});
      operations.push_back(begin_on({device, producer->record(), recorder}, number));
    }
    IoPool::process().pause(false);
    for (const auto& operation : operations) wait(operation);
    for (std::size_t i = 0; i < operations.size(); ++i) expect_bytes(i);
    return device->waits - before;
  };
  EXPECT_EQ(waits_of({own, own, own, own}), 1);
  EXPECT_EQ(waits_of({none, none, none}), 3);
  EXPECT_EQ(waits_of({own, own, other, other, own, none, own}), 5);
}

TEST_P(SmallReads, end_when_cancelled_or_helped_in_any_order) {
  std::mt19937 random(5);
  with_threads(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::shared_ptr<Operation>> operations;
    for (std::size_t i = 0; i < kCount; ++i) operations.push_back(begin(i));
    for (const auto& operation : operations) switch (random() % 3) {
        case 0:
          operation->drop_rest(/*as_cancelled=*/true);
          break;
        case 1:
          operation->wait(std::nullopt);
          break;
        default:
          break;
      }
    for (std::size_t i = 0; i < kCount; ++i) {
      wait(operations[i]);
      EXPECT_EQ(operations[i]->error(), nullptr);
      if (!operations[i]->cancelled()) expect_bytes(i);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SmallReads,
                         ::testing::Values(HostOrder::Kind::eager, HostOrder::Kind::lazy, HostOrder::Kind::random),
                         [](const auto& chosen) {
                           return chosen.param == HostOrder::Kind::eager  ? "eager"
                                  : chosen.param == HostOrder::Kind::lazy ? "lazy"
                                                                          : "random";
                         });

}  // namespace
}  // namespace damacy
