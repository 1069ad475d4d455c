// Every n-th system call of a request fails, once and permanently, for every kind of request: the error is typed,
// memory stays as it was when get() raised, and descriptors, threads and pinned bytes go back to where they began.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/device/host_device.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/file_requests.h"
#include "damacy/fileio/io_pool.h"
#include "damacy/fileio/staging.h"
#include "fakes/faulty_calls.h"
#include "fakes/temp_dir.h"
#include "support/eventually.h"

namespace damacy {
namespace {

namespace fs = std::filesystem;
using Kind = FaultyCalls::Kind;

constexpr std::size_t kSize = 60'000;

enum class Request { parts, one_part, gather, in_stream };
struct Scenario {
  const char* name;
  Request request;
  bool on_device;
  DirectIo direct = DirectIo::off;
};
constexpr Scenario kScenarios[] = {
    {"parts", Request::parts, false},
    {"one_part", Request::one_part, false},
    {"gather", Request::gather, false},
    {"direct", Request::parts, false, DirectIo::on},
    {"device_parts", Request::parts, true},
    {"device_one_part", Request::one_part, true},
    {"device_gather", Request::gather, true},
    {"device_in_stream", Request::in_stream, true},
    {"device_direct", Request::parts, true, DirectIo::on},
};

std::ptrdiff_t entries(const char* folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator{});
}

struct Held {
  std::ptrdiff_t descriptors = entries("/proc/self/fd");
  std::ptrdiff_t threads = entries("/proc/self/task");
  std::uint64_t pinned = process_counters().pinned_bytes;
  bool is_within(const Held& other) const {
    return descriptors <= other.descriptors && threads <= other.threads && pinned <= other.pinned;
  }
};

class EngineFaults : public ::testing::TestWithParam<Scenario> {
 protected:
  void SetUp() override {
    std::mt19937 random(7);
    for (auto& b : bytes) b = static_cast<std::byte>(random());
    write_file();
    change_io_settings([](IoSettings& s) {
      s = IoSettings{};
      s.num_threads = 2;
      s.num_threads_set = true;
      s.compat_mode = CompatMode::on;
      s.bounce_buffer_size = 8192;
    });
    settle();
    std::thread([] {}).join();  // with the first, the thread sanitizer starts one of its own
    baseline = Held{};
    if (GetParam().request == Request::in_stream) ++baseline.threads;  // the callback thread, which ends when idle
  }
  void write_file() const {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  }

  // Every thread that could still access anything has ended.
  static void settle() {
    IoPool::process().replace_workers();
    StagingPool::process().free_idle();
  }

  std::shared_ptr<Operation> begin(std::shared_ptr<FaultyCalls> calls, Direction direction) {
    const Scenario& s = GetParam();
    auto file = File::open({path, AT_FDCWD}, OpenFlags::parse("r+"),
                           {.compat_mode = {}, .engine = {}, .direct_io = s.direct}, std::move(calls));
    const auto on = s.on_device ? std::make_shared<OnDevice>(OnDevice{device, {}}) : nullptr;
    if (s.request == Request::gather) {
      GatherRequest gather{{std::move(file)}, {}, {}, direction, {}, {4096, false}};
      if (on) gather.devices = {on};
      for (std::uint64_t i = 0; i < 12; ++i)
        gather.ranges.push_back({0, on ? 1U : 0U, i * 5000, i == 11 ? 5000U : 4990U, memory.data() + i * 5000});
      return begin_gather(std::move(gather));
    }
    FileRequest request{std::move(file), direction, 0, {{memory.data(), kSize, on}}, {9000, false}};
    if (s.request == Request::one_part) request.options.task_size = kSize;
    if (s.request == Request::in_stream) return begin_in_stream(std::move(request), 0);
    return begin_request(std::move(request));
  }

  void fill_memory(Direction direction) {
    if (direction == Direction::write)
      std::copy_n(bytes.begin(), kSize, memory.data());
    else
      std::fill_n(memory.data(), kSize, std::byte{0x5a});
  }

  static void expect_typed(const std::exception_ptr& error, Kind kind, Direction direction) {
    try {
      std::rethrow_exception(error);
    } catch (const FileError& failed) {
      const int expected = kind == Kind::again ? EAGAIN : kind == Kind::nothing ? ENOSPC : EIO;
      EXPECT_EQ(failed.system_errno(), expected) << failed.what();
      EXPECT_NE(std::string(failed.what()).find(direction == Direction::read ? "pread" : "pwrite"), std::string::npos);
      EXPECT_FALSE(failed.path.empty() || failed.backend.empty());
      EXPECT_TRUE(failed.offset && failed.length && failed.transferred);
      EXPECT_LE(*failed.offset + *failed.length, kSize);
    }
  }

  // One request with the n-th call at fault; false: it ended before.
  bool strike(Direction direction, Kind kind, bool for_ever, std::uint64_t n) {
    auto calls = std::make_shared<FaultyCalls>();
    calls->kind = kind;
    calls->at = n;
    calls->for_ever = for_ever;
    fill_memory(direction);
    const auto operation = begin(calls, direction);
    operation->wait(std::nullopt);
    const std::vector<std::byte> when_get_raised(memory.data(), memory.data() + kSize);
    const auto error = operation->error();
    const bool fails = kind == Kind::error || (kind == Kind::again && for_ever) ||
                       (kind == Kind::nothing && direction == Direction::write);
    // What a direct transfer stops short of goes on buffered.
    const bool may_go_on = kind == Kind::nothing && GetParam().direct == DirectIo::on;
    if (!may_go_on) {
      EXPECT_EQ(error != nullptr, fails && calls->struck());
    }
    if (error) expect_typed(error, kind, direction);
    if (!error && kind != Kind::nothing) {
      EXPECT_EQ(operation->count(), GetParam().request == Request::gather ? kSize - 110 : kSize);
      if (direction == Direction::read) expect_bytes();
    }
    settle();
    EXPECT_TRUE(std::ranges::equal(when_get_raised, memory.bytes())) << "memory changed after get() had raised";
    injected += calls->faults();
    return calls->struck();
  }

  void expect_bytes() const {
    const std::size_t step = GetParam().request == Request::gather ? 5000 : kSize;
    for (std::size_t at = 0; at < kSize; at += step) {
      const std::size_t size = step < kSize && at + step < kSize ? step - 10 : step;
      EXPECT_TRUE(std::equal(memory.data() + at, memory.data() + at + size, bytes.begin() + std::ptrdiff_t(at)));
    }
  }

  void sweep(Direction direction, Kind kind, bool for_ever) {
    constexpr std::uint64_t kMost = 60;  // calls of a request, but where every call moves one byte
    for (std::uint64_t n = 1; strike(direction, kind, for_ever, n); ++n) {
      Held now;
      static_cast<void>(testing::eventually([&] { return (now = Held{}).is_within(baseline); }));
      ASSERT_LE(now.descriptors, baseline.descriptors);
      ASSERT_LE(now.threads, baseline.threads);
      ASSERT_EQ(now.pinned, 0U);
      const bool is_long = for_ever && (kind == Kind::one_byte || kind == Kind::again);  // so many calls, or retries
      if (is_long && n == 2) break;
      ASSERT_LT(n, kMost);
    }
    if (direction == Direction::write) write_file();
  }

  TempDir dir;
  std::string path = dir.path() + "/data";
  std::vector<std::byte> bytes = std::vector<std::byte>(kSize);
  std::shared_ptr<Device> device = make_host_device({.kind = HostOrder::Kind::lazy, .seed = 5, .guard = false});
  HostBuffer memory{device->device_memory(), kSize};
  Held baseline;
  std::uint64_t injected = 0;
};

TEST_P(EngineFaults, leave_typed_errors_still_memory_and_nothing_behind) {
  for (const Direction direction : {Direction::read, Direction::write})
    for (const bool for_ever : {false, true})
      for (const Kind kind : {Kind::error, Kind::one_byte, Kind::nothing, Kind::interrupted, Kind::again, Kind::late})
        ASSERT_NO_FATAL_FAILURE(sweep(direction, kind, for_ever));
  EXPECT_GT(injected, 50U);
  RecordProperty("injected", std::to_string(injected));
  std::cout << "faults injected: " << injected << "\n";
}

INSTANTIATE_TEST_SUITE_P(Requests, EngineFaults, ::testing::ValuesIn(kScenarios),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

}  // namespace
}  // namespace damacy
