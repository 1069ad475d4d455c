#include "damacy/cache/shared/process_id.h"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace damacy {
namespace {

TEST(ProcessId, of_this_process_is_the_same_each_time_and_alive) {
  EXPECT_EQ(this_process(), this_process());
  EXPECT_EQ(number_of(this_process()), ::getpid());
  EXPECT_TRUE(is_alive(this_process()));
  EXPECT_FALSE(is_alive(0));
}

TEST(ProcessId, of_another_start_is_dead) {
  EXPECT_FALSE(is_alive(this_process() + 1));
  EXPECT_FALSE(is_alive(this_process() - 1));
}

TEST(ProcessId, of_a_process_that_was_killed_is_dead_before_and_after_its_parent_has_waited) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const ProcessId own = this_process();
    if (::write(pipe[1], &own, sizeof own) == sizeof own) ::pause();
    ::_exit(1);
  }
  ProcessId process = 0;
  ASSERT_EQ(::read(pipe[0], &process, sizeof process), static_cast<ssize_t>(sizeof process));
  EXPECT_EQ(number_of(process), child);
  EXPECT_TRUE(is_alive(process));
  ::kill(child, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(is_alive(process));
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(is_alive(process));
  ::close(pipe[0]);
  ::close(pipe[1]);
}

}  // namespace
}  // namespace damacy
