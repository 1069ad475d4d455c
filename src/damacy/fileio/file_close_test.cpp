// When a close that waits may return.
#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "damacy/core/file_calls.h"
#include "damacy/fileio/file.h"
#include "fakes/temp_dir.h"

namespace damacy {
namespace {

struct WatchedClose : detail::FileCalls {
  std::function<void()> closing;
  int close(int fd) noexcept override {
    closing();
    return detail::FileCalls::close(fd);
  }
};

TEST(FileClose, returns_after_another_thread_has_closed_the_descriptor) {
  const TempDir dir;
  const auto calls = std::make_shared<WatchedClose>();
  const auto file = File::open({dir.path() + "/data", AT_FDCWD}, OpenFlags::parse("w"), {}, calls);
  std::atomic<bool> waits{false}, is_closed{false};
  std::optional<bool> was_closed;
  std::thread closer;
  calls->closing = [&] {
    closer = std::thread([&] {
      waits = true;
      file->close(/*wait=*/true);
      was_closed = is_closed;
    });
    while (!waits) std::this_thread::yield();
    for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();  // a close that does not wait returns meanwhile
    is_closed = true;
  };
  file->begin();
  file->close(/*wait=*/false);
  file->end();  // the last use: closes the descriptor
  closer.join();
  EXPECT_EQ(was_closed, true);
}

TEST(FileClose, returns_if_the_file_was_not_used) {
  const TempDir dir;
  const auto file = File::open({dir.path() + "/data", AT_FDCWD}, OpenFlags::parse("w"));
  file->close(/*wait=*/true);
  file->close(/*wait=*/true);
  EXPECT_TRUE(file->closed());
}

}  // namespace
}  // namespace damacy
