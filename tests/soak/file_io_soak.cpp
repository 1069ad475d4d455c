// Random open, read, write, cancel and close of the file I/O layer, from several threads at once, for a given time:
//
//     file_io_soak [--seconds N] [--seed N] [--fork] [--folder PATH]
//
// Every byte is compared with a model. Meant for a build with a sanitizer; --fork forks with I/O in flight.
// Prints totals and ends with 0, or says what it found and aborts.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "damacy/fileio/io_pool.h"
#include "damacy/fileio/io_settings.h"
#include "damacy/fileio/staging.h"
#include "fakes/fake_paths.h"
#include "soak/territory.h"

namespace damacy::soak {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kActors = 4;
constexpr std::size_t kMeddlers = 2;
constexpr auto kHung = std::chrono::seconds(120);  // without a round of some actor's

struct Options {
  std::int64_t seconds = 3;
  std::uint64_t seed = 1;
  bool fork = false;
  fs::path folder = fs::temp_directory_path();
};

Options options_from(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const char* value = i + 1 < count ? words[i + 1] : "";
    if (word == "--fork") {
      options.fork = true;
      continue;
    }
    if (word == "--seconds") options.seconds = std::atoll(value);
    if (word == "--seed") options.seed = static_cast<std::uint64_t>(std::atoll(value));
    if (word == "--folder") options.folder = value;
    ++i;
  }
  return options;
}

std::ptrdiff_t open_descriptors() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator{});
}

// Settings change, workers are replaced and paused, blocks are freed.
void govern(std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
      change_io_settings([&](IoSettings& s) {
        s.num_threads = 1 + random() % 4;
        s.num_threads_set = random() % 2 == 0;
        s.auto_threads = 1 + random() % 4;
        s.task_size = 1000 + random() % 100'000;
        s.bounce_buffer_size = random() % 3 == 0 ? 1000 + random() % 5000 : 65'536 << (random() % 5);
        s.pinned_limit = 1 << 20;
        s.coalesce_gap = random() % 8192;
        s.queue_depth = 1 + random() % 64;
      });
      break;
    case 1:
      IoPool::process().replace_workers();
      break;
    case 2:
      IoPool::process().pause(true);
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
      IoPool::process().pause(false);
      break;
    case 3:
      StagingPool::process().free_idle();
      break;
    default:
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 50));
  }
}

// A file that does not change, for children to read.
class Heirloom {
 public:
  explicit Heirloom(const std::string& path) : bytes_(200'000) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i * 7);
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes_.data()), std::ssize(bytes_));
    file_ = File::open({path, AT_FDCWD}, OpenFlags::parse("r"));
  }

  // With a request of the parent's in flight.
  void fork_once() const {
    std::vector<std::byte> mine(bytes_.size());
    const auto parents = read(mine);
    const pid_t child = ::fork();
    if (child == 0) in_the_child(*parents);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) {
    }
    parents->wait(std::nullopt);
    require(mine == bytes_, "what the parent read around a fork");
    if (status != 0) found("a child ended with status " + std::to_string(status));
  }

 private:
  std::shared_ptr<Operation> read(std::vector<std::byte>& into) const {
    return begin_request({file_, Direction::read, 0, {{into.data(), into.size(), nullptr}}, {5000, false}});
  }
  [[noreturn]] void in_the_child(const Operation& parents) const {
    ::alarm(60);
    require(parents.is_parents(), "a child takes its parent's future for its own");
    std::vector<std::byte> own(bytes_.size());
    const auto operation = read(own);
    operation->wait(std::nullopt);
    require(own == bytes_, "what a child read");
    ::_exit(0);
  }

  std::vector<std::byte> bytes_;
  std::shared_ptr<File> file_;
};

struct Threads {
  std::vector<std::jthread> all;
  std::array<std::atomic<std::uint64_t>, kActors> rounds{};
};

void start(Threads& threads, const fs::path& folder, std::uint64_t seed, Mailbox& mailbox) {
  for (std::size_t i = 0; i < kActors; ++i)
    threads.all.emplace_back([&, i, seed](std::stop_token stop) {
      Territory territory(folder / ("territory" + std::to_string(i)), seed * 1000 + i, mailbox);
      for (; !stop.stop_requested(); ++threads.rounds[i]) territory.round();
    });
  for (std::size_t i = 0; i < kMeddlers; ++i)
    threads.all.emplace_back([&, i, seed](std::stop_token stop) {
      std::mt19937_64 random(seed * 1000 + 100 + i);
      while (!stop.stop_requested()) {
        mailbox.meddle(random);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
      }
    });
  threads.all.emplace_back([seed](std::stop_token stop) {
    std::mt19937_64 random(seed * 1000 + 200);
    while (!stop.stop_requested()) govern(random);
  });
}

void watch(const Threads& threads, const Options& options, const Heirloom& heirloom, std::uint64_t& forks) {
  std::array<std::uint64_t, kActors> seen{};
  std::array<Clock::time_point, kActors> since;
  since.fill(Clock::now());
  for (const auto end = Clock::now() + std::chrono::seconds(options.seconds); Clock::now() < end;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (std::size_t i = 0; i < kActors; ++i) {
      if (const std::uint64_t now = threads.rounds[i]; now != seen[i]) {
        seen[i] = now;
        since[i] = Clock::now();
      }
      if (Clock::now() - since[i] > kHung) found("a thread hangs");
    }
    if (options.fork) heirloom.fork_once();
    forks += options.fork ? 1 : 0;
  }
}

void leave_nothing(std::ptrdiff_t descriptors) {
  IoPool::process().replace_workers();
  StagingPool::process().free_idle();
  require(process_counters().pinned_bytes == 0, "pinned bytes at the end");
  // Rings close when their threads are gone, a moment after the pool has let them go.
  for (int tries = 0; open_descriptors() > descriptors && tries < 100; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  require(open_descriptors() <= descriptors, "descriptors at the end");
}

int run(const Options& options) {
  const fs::path folder = options.folder / ("damacy-file-io-soak-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  ::setenv("DAMACY_LIBCUFILE", kFakeCufile, /*overwrite=*/0);
  std::uint64_t rounds = 0, forks = 0;
  {
    const Heirloom heirloom(folder / "heirloom");
    const std::ptrdiff_t descriptors = open_descriptors();
    Mailbox mailbox;
    Threads threads;
    start(threads, folder, options.seed, mailbox);
    watch(threads, options, heirloom, forks);
    threads.all.clear();
    mailbox.clear();
    leave_nothing(descriptors);
    for (const auto& n : threads.rounds) rounds += n;
  }
  fs::remove_all(folder);
  const Totals& all = totals();
  std::printf(
      "file_io_soak: %ld s, seed %lu: %lu rounds, %lu requests (%lu writes, %lu cancelled, %lu failed on purpose, "
      "%lu refused, %lu short, %lu dropped), %lu forks, no finding\n",
      options.seconds, options.seed, rounds, all.requests.load(), all.writes.load(), all.cancelled.load(),
      all.failed.load(), all.refused.load(), all.short_reads.load(), all.dropped.load(), forks);
  return 0;
}

}  // namespace
}  // namespace damacy::soak

int main(int count, char** words) {
  return damacy::soak::run(damacy::soak::options_from(count, words));
}
