#include "damacy/core/per_process.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

namespace damacy {
namespace {

struct Thing {
  explicit Thing(int first) : value(first) {}
  int value;
};

TEST(PerProcess, gives_a_forked_child_a_thing_of_its_own) {
  PerProcess<Thing, int> things(1);
  things.get().value = 2;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(things.get().value == 1 ? 0 : 1);
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(things.get().value, 2);
}

}  // namespace
}  // namespace damacy
