#include "damacy/core/on_failure.h"

#include <stdexcept>

#include <gtest/gtest.h>

namespace damacy {
namespace {

TEST(OnFailure, undoes_a_step_when_a_later_one_throws) {
  int steps = 1;
  EXPECT_THROW(
      {
        const OnFailure undo([&] { --steps; });
        throw std::runtime_error("later");
      },
      std::runtime_error);
  EXPECT_EQ(steps, 0);
}

TEST(OnFailure, keeps_a_step_when_the_scope_ends) {
  int steps = 1;
  {
    const OnFailure undo([&] { --steps; });
  }
  EXPECT_EQ(steps, 1);
}

// A scope that succeeds in a destructor, while another exception is under way, has not failed.
TEST(OnFailure, counts_only_exceptions_of_its_own_scope) {
  int steps = 1;
  struct Inner {
    int& steps;
    ~Inner() {
      const OnFailure undo([this] { --steps; });
    }
  };
  EXPECT_THROW(
      {
        const Inner inner{steps};
        throw std::runtime_error("outer");
      },
      std::runtime_error);
  EXPECT_EQ(steps, 1);
}

}  // namespace
}  // namespace damacy
