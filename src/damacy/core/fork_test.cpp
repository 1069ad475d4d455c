#include "damacy/core/fork.h"

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

namespace damacy {
namespace {

struct Thing {
  explicit Thing(int first) : value(first) {}
  int value;
};

// Whether `check` is true in a forked child.
template <class Check>
bool in_child(Check check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check() ? 0 : 1);
  int status = -1;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

TEST(PerProcess, gives_a_forked_child_a_thing_of_its_own) {
  PerProcess<Thing, int> things(1);
  things.get().value = 2;
  EXPECT_TRUE(in_child([&] { return things.get().value == 1; }));
  EXPECT_EQ(things.get().value, 2);
}

TEST(PerProcess, destroys_what_the_same_process_made) {
  struct Counted {
    explicit Counted(std::shared_ptr<int> of) : alive(std::move(of)) {}
    std::shared_ptr<int> alive;
  };
  const auto alive = std::make_shared<int>();
  std::optional<PerProcess<Counted, std::shared_ptr<int>>> things(alive);
  (void)things->get();
  EXPECT_EQ(alive.use_count(), 3);  // here, as the argument, and in the thing
  EXPECT_TRUE(in_child([&] {
    things.reset();
    return alive.use_count() == 2;  // the parent's thing is not touched
  }));
  things.reset();
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(OnePerProcess, gives_a_forked_child_a_thing_of_its_own) {
  struct Own {
    int value = 1;
  };
  one_per_process<Own>().value = 2;
  EXPECT_EQ(one_per_process<Own>().value, 2);
  EXPECT_TRUE(in_child([] { return one_per_process<Own>().value == 1; }));
  static_assert(std::is_trivially_destructible_v<detail::MadePerProcess<Own>>, "a static one has no guard");
}

}  // namespace
}  // namespace damacy
