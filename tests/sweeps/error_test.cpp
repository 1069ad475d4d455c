// Errors while no allocation succeeds: each step gives an Error that can be read.
#include "damacy/core/error.h"

#include <new>

#include <gtest/gtest.h>

#include "sweeps/failing_new.h"

namespace damacy::testing {
namespace {

TEST(ErrorWithoutMemory, copies_what_there_is) {
  const Error error = Error(Status::io, "a message that is longer than a short string").at_key("c/0/1");
  std::optional<Error> copy;
  {
    const Starved without_memory;
    copy = error;
  }
  EXPECT_STREQ(copy->what(), error.what());
}

TEST(ErrorWithoutMemory, one_that_cannot_be_made_or_extended_is_out_of_memory) {
  Error extended(Status::io, "gone");
  std::optional<Error> made;
  {
    std::string message = "gone";  // short: takes no memory
    const Starved without_memory;
    made.emplace(Status::io, std::move(message));
    extended.at_key("a key that is longer than a short string");
  }
  EXPECT_EQ(made->status(), Status::oom);
  EXPECT_EQ(extended.status(), Status::oom);
  EXPECT_STREQ(extended.what(), "no memory left on the host (out of memory, memory)");
}

TEST(ErrorWithoutMemory, the_exception_in_flight_is_an_error) {
  std::optional<Error> error;
  {
    const Starved without_memory;
    error = failure_of([] { throw std::bad_alloc(); });
  }
  EXPECT_EQ(error->status(), Status::oom);
  EXPECT_EQ(error->where().reason, "memory");
}

}  // namespace
}  // namespace damacy::testing
