// Requests on real files: over system calls that fail on request, over devices that work at the last legal moment, over
// a cuFile without a GPU, and for futures in every order.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <latch>
#include <random>
#include <thread>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/uio.h>

#include "damacy/core/error.h"
#include "damacy/core/file_calls.h"
#include "damacy/device/host_device.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/file_requests.h"
#include "damacy/fileio/io_pool.h"
#include "damacy/fileio/staging.h"
#include "fakes/faulty_calls.h"
#include "fakes/temp_dir.h"
#include "support/eventually.h"
#include "support/forwarding_device.h"

namespace damacy {
namespace {

namespace fs = std::filesystem;

// Those of this process: other tests' threads open files too.
std::size_t descriptors_of(const std::string& path) {
  const fs::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::ranges::count_if(all, [&](const fs::directory_entry& entry) {
    std::error_code gone;
    return fs::read_symlink(entry, gone) == path;
  }));
}

class FileRequestsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    bytes.resize(300'000);
    std::mt19937 random(7);
    for (auto& b : bytes) b = static_cast<std::byte>(random());
    std::ofstream(path(), std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    change_io_settings([](IoSettings& s) {
      s = IoSettings{};
      s.num_threads = 3;
      s.num_threads_set = true;
      s.compat_mode = CompatMode::on;
    });
  }
  std::string path() const { return dir.path() + "/data"; }
  std::shared_ptr<File> open(std::string_view flags = "r", std::shared_ptr<detail::FileCalls> calls = nullptr,
                             FileOptions options = {}) const {
    return File::open({path(), AT_FDCWD}, OpenFlags::parse(flags), options, std::move(calls));
  }
  static FileRequest request(std::shared_ptr<File> file, Direction direction, std::uint64_t offset,
                             std::vector<FileMemory> memory, std::uint64_t task_size = 0, bool exact = false) {
    return {std::move(file), direction, offset, std::move(memory), {task_size, exact}};
  }
  static std::uint64_t result(const std::shared_ptr<Operation>& operation) {
    operation->wait(std::nullopt);
    if (const auto error = operation->error()) std::rethrow_exception(error);
    return operation->count();
  }
  std::vector<std::byte> on_disk() const {
    std::ifstream in(path(), std::ios::binary);
    std::vector<char> all((std::istreambuf_iterator<char>(in)), {});
    std::vector<std::byte> out(all.size());
    std::transform(all.begin(), all.end(), out.begin(), [](char c) { return static_cast<std::byte>(c); });
    return out;
  }

  TempDir dir;
  std::vector<std::byte> bytes;
};

TEST_F(FileRequestsTest, of_several_failures_the_one_at_the_lowest_offset_is_reported) {
  auto calls = std::make_shared<FaultyCalls>();
  calls->at = 1;
  calls->for_ever = true;
  std::vector<std::byte> buffer(10'000);
  for (int round = 0; round < 20; ++round) {
    const auto operation =
        begin_request(request(open("r", calls), Direction::read, 40, {{buffer.data(), buffer.size(), nullptr}}, 100));
    operation->wait(std::nullopt);
    try {
      result(operation);
      FAIL();
    } catch (const FileError& error) {
      EXPECT_EQ(error.offset, 40U);
    }
  }
}

TEST_F(FileRequestsTest, gathers_are_the_bytes_of_their_ranges) {
  std::mt19937 random(3);
  for (const EngineChoice engine : {EngineChoice::pread, EngineChoice::automatic}) {
    for (int round = 0; round < 20; ++round) {
      GatherRequest gather;
      gather.files = {open("r", nullptr, {.compat_mode = {}, .engine = engine, .direct_io = {}})};
      std::vector<std::vector<std::byte>> buffers(50);
      for (auto& buffer : buffers) {
        buffer.resize(random() % 9000);
        gather.ranges.push_back({0, 0, random() % 302'000, buffer.size(), buffer.data()});
      }
      const auto ranges = gather.ranges;
      const auto operation = begin_gather(std::move(gather));
      operation->wait(std::nullopt);
      ASSERT_EQ(operation->error(), nullptr);
      const auto counts = operation->counts();
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        const std::uint64_t there = ranges[i].offset >= bytes.size() ? 0 : bytes.size() - ranges[i].offset;
        ASSERT_EQ(counts[i], std::min(there, ranges[i].size));
        EXPECT_TRUE(std::equal(ranges[i].data, ranges[i].data + counts[i],
                               bytes.begin() + static_cast<std::ptrdiff_t>(ranges[i].offset)));
      }
    }
  }
}

TEST_F(FileRequestsTest, a_gap_between_ranges_is_not_delivered) {
  std::vector<std::byte> buffer(300, std::byte{0xee});
  GatherRequest gather;
  gather.files = {open()};
  gather.ranges = {{0, 0, 0, 100, buffer.data()}, {0, 0, 1100, 100, buffer.data() + 200}};
  EXPECT_EQ(result(begin_gather(std::move(gather))), 200U);
  EXPECT_TRUE(std::all_of(buffer.begin() + 100, buffer.begin() + 200, [](auto b) { return b == std::byte{0xee}; }));
  EXPECT_TRUE(std::equal(buffer.begin(), buffer.begin() + 100, bytes.begin()));
  EXPECT_TRUE(std::equal(buffer.begin() + 200, buffer.end(), bytes.begin() + 1100));
}

TEST_F(FileRequestsTest, closing_waits_for_what_runs_and_lets_go_of_descriptors_last) {
  for (int round = 0; round < 50; ++round) {
    std::vector<std::byte> buffer(100'000);
    auto file = open();
    const auto operation =
        begin_request(request(file, Direction::read, 0, {{buffer.data(), buffer.size(), nullptr}}, 1000));
    file->close(/*wait=*/round % 2 == 0);
    if (round % 2 == 0) {
      EXPECT_TRUE(operation->parts_ended());
    }
    EXPECT_EQ(result(operation), buffer.size());
    EXPECT_THROW(file->begin(), FileError);
    file.reset();
    EXPECT_EQ(descriptors_of(path()), 0U);
  }
}

TEST_F(FileRequestsTest, workers_are_replaced_under_load_and_nothing_is_lost) {
  std::vector<std::vector<std::byte>> buffers(60, std::vector<std::byte>(50'000));
  std::vector<std::shared_ptr<Operation>> operations;
  std::jthread replacing([](std::stop_token stop) {
    while (!stop.stop_requested()) IoPool::process().replace_workers();
  });
  for (auto& buffer : buffers)
    operations.push_back(
        begin_request(request(open(), Direction::read, 0, {{buffer.data(), buffer.size(), nullptr}}, 100)));
  for (const auto& operation : operations) EXPECT_EQ(result(operation), 50'000U);
  for (const auto& buffer : buffers) EXPECT_TRUE(std::equal(buffer.begin(), buffer.end(), bytes.begin()));
}

TEST_F(FileRequestsTest, random_cancels_leave_every_future_ended) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::byte> buffer(20'000);
    const auto operation =
        begin_request(request(open(), Direction::read, 0, {{buffer.data(), buffer.size(), nullptr}}, 50));
    for (std::uint64_t i = random() % 300; i > 0; --i) operation->run_one();
    const bool dropped = operation->drop_rest(/*as_cancelled=*/true);
    operation->wait(std::nullopt);
    EXPECT_EQ(operation->cancelled(), dropped);
    EXPECT_TRUE(operation->done());
    EXPECT_FALSE(operation->drop_rest(/*as_cancelled=*/true));
  }
}

// Which threads read, and whether they would wait. The page cache has all bytes here: the system may not know this
// flag.
class ObservedCalls final : public detail::FileCalls {
 public:
  ssize_t preadv2(int fd, const iovec* to, int count, off_t offset, int flags) override {
    const bool waits = (flags & RWF_NOWAIT) == 0;
    (std::this_thread::get_id() == caller_ ? (waits ? waiting : at_once) : by_workers) += 1;
    return FileCalls::preadv2(fd, to, count, offset, flags & ~RWF_NOWAIT);
  }
  std::atomic<int> at_once{0}, waiting{0}, by_workers{0};  // the first two: on the thread that made this

 private:
  const std::thread::id caller_ = std::this_thread::get_id();
};

TEST_F(FileRequestsTest, are_read_by_the_caller_at_once_up_to_a_size_that_depends_on_the_number_of_threads) {
  for (const auto& [threads, most] : {std::pair<std::uint64_t, std::size_t>{1, 64 << 10}, {2, 16 << 10}}) {
    change_io_settings([&](IoSettings& s) { s.use_threads(threads); });
    for (const std::size_t size : {most, most + 1}) {
      const auto calls = std::make_shared<ObservedCalls>();
      const auto file = open("r", calls);
      std::vector<std::byte> got(size);
      const auto count = read_if_resident(*file, got, 40);
      EXPECT_EQ(count.has_value(), size == most) << threads;
      if (!count) {
        const auto operation = begin_request(request(file, Direction::read, 40, {{got.data(), size, nullptr}}));
        EXPECT_TRUE(operation->wait(std::chrono::minutes(1)));  // without helping
        EXPECT_EQ(operation->count(), size);
      }
      EXPECT_EQ(calls->at_once, size == most ? 1 : 0);
      EXPECT_EQ(calls->waiting, 0);
      EXPECT_EQ(calls->by_workers, size == most ? 0 : 1);
      const IoCounters& counters = file->counters();
      EXPECT_EQ(counters.traffic[static_cast<std::size_t>(IoWay::inline_)][0].calls, size == most ? 1U : 0U);
      EXPECT_EQ(counters.traffic[static_cast<std::size_t>(IoWay::pread)][0].calls, size == most ? 0U : 1U);
      EXPECT_EQ(counters.resident_bytes + counters.cold_bytes, size == most ? size : 0U);
      EXPECT_TRUE(std::equal(got.begin(), got.end(), bytes.begin() + 40));
    }
  }
}

TEST_F(FileRequestsTest, of_one_part_that_block_are_read_by_the_caller_whatever_the_number_of_threads) {
  for (const std::size_t size : {std::size_t{4096}, std::size_t{32} << 10, std::size_t{200'000}}) {
    const auto calls = std::make_shared<ObservedCalls>();
    const auto file = open("r", calls);
    std::vector<std::byte> got(size);
    EXPECT_EQ(read_now(*file, got, 40, /*exact=*/false), size);
    EXPECT_EQ(calls->waiting, 1);
    EXPECT_EQ(calls->by_workers, 0);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), bytes.begin() + 40));
  }
}

// -- devices ---------------------------------------------------------------------------------------------------------

class OnDeviceTest : public FileRequestsTest, public ::testing::WithParamInterface<HostOrder::Kind> {
 protected:
  std::shared_ptr<Device> device = make_host_device({.kind = GetParam(), .seed = 5, .guard = false});
  HostBuffer memory{device->device_memory(), 200'000};

  FileMemory piece(std::size_t begin, std::size_t size, Event before = {}) const {
    return {memory.data() + begin, size, std::make_shared<OnDevice>(OnDevice{device, std::move(before)})};
  }
  static void with_blocks_of(std::uint64_t bytes_of_block) {
    change_io_settings([&](IoSettings& s) { s.bounce_buffer_size = bytes_of_block; });
  }
};

TEST_P(OnDeviceTest, reads_land_whole_whatever_the_blocks) {
  for (const std::uint64_t block : {1U, 4096U, 70'000U, 400'000U, 16U << 20}) {
    with_blocks_of(block);
    const std::uint64_t size = block == 1 ? 100 : 150'001;
    std::fill_n(memory.data(), memory.size(), std::byte{0});
    const auto operation = begin_request(request(open(), Direction::read, 17, {piece(3, size)}, 20'000));
    EXPECT_EQ(result(operation), size);
    EXPECT_TRUE(std::equal(memory.data() + 3, memory.data() + 3 + size, bytes.begin() + 17));
    EXPECT_EQ(memory.data()[size + 3], std::byte{0});
  }
}

TEST_P(OnDeviceTest, a_slot_is_not_filled_again_before_its_copy) {
  with_blocks_of(4096);
  const auto operation = begin_request(request(open(), Direction::read, 0, {piece(0, 100'000)}, 100'000));
  EXPECT_EQ(result(operation), 100'000U);
  EXPECT_TRUE(std::equal(memory.data(), memory.data() + 100'000, bytes.begin()));
}

TEST_P(OnDeviceTest, a_write_waits_for_the_producer_and_for_its_own_copies) {
  for (const std::uint64_t block : {4096U, 400'000U}) {
    with_blocks_of(block);
    HostBuffer source(device->pinned_memory(), 150'000);
    std::fill_n(source.data(), source.size(), std::byte(block & 0x7f));
    std::copy_n(bytes.begin(), 1000, source.data() + 70'000);
    const auto producer = device->make_stream();
    producer->copy(std::span(memory.data(), 150'000), source.bytes());
    const Event made = producer->record();
    const auto operation = begin_request(request(open("r+"), Direction::write, 5, {piece(0, 150'000, made)}, 40'000));
    EXPECT_EQ(result(operation), 150'000U);
    const auto now = on_disk();
    EXPECT_TRUE(std::equal(source.data(), source.data() + 150'000, now.begin() + 5));
  }
}

TEST_P(OnDeviceTest, a_read_waits_for_what_was_queued_before) {
  HostBuffer zeros(device->pinned_memory(), 100'000);
  std::fill_n(zeros.data(), zeros.size(), std::byte{0});
  const auto before = device->make_stream();
  before->copy(std::span(memory.data(), 100'000), zeros.bytes());  // must not come after the bytes of the file
  const Event ready = before->record();
  EXPECT_EQ(result(begin_request(request(open(), Direction::read, 0, {piece(0, 100'000, ready)}))), 100'000U);
  EXPECT_TRUE(std::equal(memory.data(), memory.data() + 100'000, bytes.begin()));
}

TEST_P(OnDeviceTest, every_way_to_hear_of_the_end_hears_of_the_copies_too) {
  using Operations = const std::shared_ptr<Operation>&;
  const std::function<void(Operations)> ways[] = {
      [](Operations o) { EXPECT_TRUE(o->wait(std::chrono::hours(1))); },
      [](Operations o) { EXPECT_TRUE(o->wait(std::nullopt, [] {})); },
      [](Operations o) {
        while (!o->done()) std::this_thread::yield();
      },
  };
  for (const bool in_stream : {false, true})
    for (const auto& way : ways) {
      std::fill_n(memory.data(), memory.size(), std::byte{0});
      auto asked = request(open(), Direction::read, 0, {piece(0, 50'000)});
      const auto operation = in_stream ? begin_in_stream(std::move(asked), 0) : begin_request(std::move(asked));
      way(operation);
      EXPECT_TRUE(std::equal(memory.data(), memory.data() + 50'000, bytes.begin()));
    }
}

TEST_P(OnDeviceTest, who_is_called_back_finds_the_bytes) {
  std::fill_n(memory.data(), memory.size(), std::byte{0});
  const auto operation = begin_request(request(open(), Direction::read, 0, {piece(0, 50'000)}));
  std::vector<std::byte> seen(50'000);
  std::latch called_back(1);
  operation->when_done([&] {
    std::copy_n(memory.data(), seen.size(), seen.begin());
    called_back.count_down();
  });
  called_back.wait();
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), bytes.begin()));
}

TEST_P(OnDeviceTest, a_stream_request_waits_for_what_was_queued_before) {
  HostBuffer zeros(device->pinned_memory(), 50'000);
  std::fill_n(zeros.data(), zeros.size(), std::byte{0});
  const auto before = device->make_stream();
  before->copy(std::span(memory.data(), 50'000), zeros.bytes());
  const Event ready = before->record();
  EXPECT_EQ(result(begin_in_stream(request(open(), Direction::read, 0, {piece(0, 50'000, ready)}), 0)), 50'000U);
  ready.wait();
  EXPECT_TRUE(std::equal(memory.data(), memory.data() + 50'000, bytes.begin()));
}

TEST_P(OnDeviceTest, a_gather_is_one_batch_of_copies_for_a_block) {
  with_blocks_of(1 << 20);
  GatherRequest gather;
  gather.files = {open()};
  gather.devices = {std::make_shared<OnDevice>(OnDevice{device, {}})};
  for (std::uint64_t i = 0; i < 60; ++i)
    gather.ranges.push_back({0, 1, (i * 37 % 60) * 4900, 3000, memory.data() + i * 3000});
  const auto file = gather.files[0];
  EXPECT_EQ(result(begin_gather(std::move(gather))), 180'000U);
  for (std::uint64_t i = 0; i < 60; ++i)
    EXPECT_TRUE(std::equal(memory.data() + i * 3000, memory.data() + (i + 1) * 3000,
                           bytes.begin() + static_cast<std::ptrdiff_t>((i * 37 % 60) * 4900)));
  EXPECT_LE(file->counters().copies, 61U);  // one of them may lie in two slots
  EXPECT_LE(file->counters().copy_batches, 2U);
  EXPECT_LE(file->counters().host_waits, 2U);
}

TEST_P(OnDeviceTest, ranges_from_anywhere_to_memory_in_a_row_are_one_copy_a_slot) {
  with_blocks_of(256 << 10);  // slots of 64 KiB
  GatherRequest gather;
  gather.files = {open()};
  gather.devices = {std::make_shared<OnDevice>(OnDevice{device, {}})};
  constexpr std::uint64_t kSize = 4096;
  for (std::uint64_t i = 0; i < 32; ++i)
    gather.ranges.push_back({0, 1, (i * 13 % 32) * 9000, kSize, memory.data() + i * kSize});
  const auto file = gather.files[0];
  StagingPool::process().free_idle();
  EXPECT_EQ(result(begin_gather(std::move(gather))), 32 * kSize);
  for (std::uint64_t i = 0; i < 32; ++i)
    EXPECT_TRUE(std::equal(memory.data() + i * kSize, memory.data() + (i + 1) * kSize,
                           bytes.begin() + static_cast<std::ptrdiff_t>((i * 13 % 32) * 9000)));
  EXPECT_EQ(file->counters().copies, 2U);
  EXPECT_EQ(file->counters().copy_batches, 2U);
}

TEST_P(OnDeviceTest, host_and_device_memory_mix_in_a_list) {
  std::vector<std::byte> host(5000);
  const auto operation = begin_request(
      request(open(), Direction::read, 0, {piece(0, 3000), {host.data(), 5000, nullptr}, piece(3000, 4000)}, 1111));
  EXPECT_EQ(result(operation), 12'000U);
  EXPECT_TRUE(std::equal(memory.data(), memory.data() + 3000, bytes.begin()));
  EXPECT_TRUE(std::equal(host.begin(), host.end(), bytes.begin() + 3000));
  EXPECT_TRUE(std::equal(memory.data() + 3000, memory.data() + 7000, bytes.begin() + 8000));
}

TEST_P(OnDeviceTest, the_end_of_the_file_leaves_the_rest_as_it_was) {
  for (const bool in_stream : {false, true}) {
    std::fill_n(memory.data(), memory.size(), std::byte{0x5a});
    auto asked = request(open(), Direction::read, bytes.size() - 10'000, {piece(0, 50'000)}, in_stream ? 0 : 3000);
    const auto operation = in_stream ? begin_in_stream(std::move(asked), 0) : begin_request(std::move(asked));
    EXPECT_EQ(result(operation), 10'000U);
    EXPECT_TRUE(std::equal(memory.data(), memory.data() + 10'000, bytes.end() - 10'000));
    EXPECT_TRUE(
        std::all_of(memory.data() + 10'000, memory.data() + 50'000, [](auto b) { return b == std::byte{0x5a}; }));
  }
}

TEST_P(OnDeviceTest, requests_of_a_stream_follow_one_another) {
  with_blocks_of(4096);
  {
    const auto file = open("r+");
    const auto first = begin_in_stream(request(file, Direction::read, 100, {piece(0, 20'000)}), 0);
    const auto second =
        begin_in_stream(request(file, Direction::write, 40'000, {piece(0, 20'000, first->copies().back())}), 0);
    EXPECT_EQ(result(second), 20'000U);
    EXPECT_EQ(result(first), 20'000U);
    const auto now = on_disk();
    EXPECT_TRUE(std::equal(now.begin() + 40'000, now.begin() + 60'000, bytes.begin() + 100));
    EXPECT_GT(descriptors_of(path()), 0U);
  }
  EXPECT_TRUE(testing::eventually([&] { return descriptors_of(path()) == 0; }));  // a thread lets go of the last
}

// Its one stream of others is given.
class DeviceOfProducer final : public testing::ForwardingDevice {
 public:
  explicit DeviceOfProducer(std::shared_ptr<Device> inner)
      : ForwardingDevice(std::move(inner)), producer(make_stream()) {}
  std::optional<Event> try_fence(std::uint64_t) override { return producer->record(); }
  const std::unique_ptr<Stream> producer;
};

TEST_P(OnDeviceTest, a_gather_comes_after_the_work_that_was_queued_while_its_ranges_were_listed) {
  const auto own = std::make_shared<DeviceOfProducer>(device);
  for (const Direction direction : {Direction::write, Direction::read}) {
    GatherRequest gather;
    gather.files = {open("r+")};
    gather.devices = {std::make_shared<OnDevice>(OnDevice{own, *own->try_fence(1)})};
    gather.streams = {1};
    gather.direction = direction;
    for (std::size_t range = 0; range < 4; ++range) {
      gather.ranges.push_back({0, 1, range * 1000, 1000, memory.data() + range * 1000});
      const auto value = static_cast<std::byte>(direction == Direction::write ? range + 1 : 0);
      own->producer->fill(memory.bytes().subspan(range * 1000, 1000), value);
    }
    EXPECT_EQ(result(begin_gather(std::move(gather))), 4000U);
    own->producer->record().wait();
    const auto now = on_disk();
    for (std::size_t at = 0; at < 4000; ++at) {
      const auto wanted = static_cast<std::byte>(at / 1000 + 1);
      ASSERT_EQ(now[at], wanted) << at;
      ASSERT_EQ(memory.data()[at], wanted) << at;
    }
  }
}

TEST_P(OnDeviceTest, failing_calls_leave_device_memory_alone_after_the_end) {
  with_blocks_of(8192);
  for (std::uint64_t n = 1; n < 30; ++n) {
    auto calls = std::make_shared<FaultyCalls>();
    calls->at = n;
    const auto operation = begin_request(request(open("r", calls), Direction::read, 0, {piece(0, 100'000)}, 9000));
    operation->wait(std::nullopt);
    EXPECT_EQ(operation->error() != nullptr, calls->struck());
    const std::vector<std::byte> at_the_end(memory.data(), memory.data() + 100'000);
    IoPool::process().replace_workers();
    StagingPool::process().free_idle();
    EXPECT_TRUE(std::equal(at_the_end.begin(), at_the_end.end(), memory.data()));
    EXPECT_EQ(process_counters().pinned_bytes, 0U);
  }
}

TEST_P(OnDeviceTest, pinned_bytes_stay_under_their_limit) {
  change_io_settings([](IoSettings& s) {
    s.bounce_buffer_size = 64 << 10;
    s.pinned_limit = 128 << 10;
    s.num_threads = 6;
  });
  StagingPool::process().free_idle();
  std::atomic<std::uint64_t> most{0};
  std::jthread looking([&](std::stop_token stop) {
    while (!stop.stop_requested()) most = std::max<std::uint64_t>(most, process_counters().pinned_bytes);
  });
  for (int round = 0; round < 10; ++round)
    EXPECT_EQ(result(begin_request(request(open(), Direction::read, 0, {piece(0, 150'000)}, 5000))), 150'000U);
  looking = {};
  EXPECT_LE(most, 128U << 10);
  EXPECT_GT(StagingPool::process().free_idle(), 0U);
  EXPECT_EQ(process_counters().pinned_bytes, 0U);
}

INSTANTIATE_TEST_SUITE_P(Devices, OnDeviceTest,
                         ::testing::Values(HostOrder::Kind::eager, HostOrder::Kind::lazy, HostOrder::Kind::random),
                         [](const auto& chosen) {
                           return chosen.param == HostOrder::Kind::eager  ? "eager"
                                  : chosen.param == HostOrder::Kind::lazy ? "lazy"
                                                                          : "random";
                         });

}  // namespace
}  // namespace damacy
