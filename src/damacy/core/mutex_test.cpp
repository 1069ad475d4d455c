#include "damacy/core/mutex.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

namespace damacy {
namespace {

// The analysis cannot follow locks through the macros of GoogleTest.
bool is_free(Mutex& mutex) DAMACY_NO_THREAD_SAFETY_ANALYSIS {
  if (!mutex.try_lock()) return false;
  mutex.unlock();
  return true;
}

TEST(LockRelease, lets_others_take_the_mutex_while_it_lives) {
  Mutex mutex;
  Lock lock(mutex);
  {
    const LockRelease meanwhile(lock, mutex);
    EXPECT_FALSE(lock.owns_lock());
    EXPECT_TRUE(is_free(mutex));
  }
  EXPECT_TRUE(lock.owns_lock());
}

TEST(LockRelease, takes_the_lock_again_when_an_exception_leaves_its_scope) {
  Mutex mutex;
  Lock lock(mutex);
  EXPECT_THROW(
      {
        const LockRelease meanwhile(lock, mutex);
        throw std::runtime_error("meanwhile");
      },
      std::runtime_error);
  EXPECT_TRUE(lock.owns_lock());
}

// A thread of the parent may have the mutex forever.
TEST(LockRelease, leaves_the_lock_released_in_a_child_that_was_forked_meanwhile) {
  Mutex mutex;
  Lock lock(mutex);
  pid_t child = -1;
  {
    const LockRelease meanwhile(lock, mutex);
    child = ::fork();
  }
  if (child == 0) ::_exit(lock.owns_lock() ? 1 : 0);
  EXPECT_TRUE(lock.owns_lock());
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace damacy
