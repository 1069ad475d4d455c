// What a user gives to a pipeline may take a lock of the user when it is destroyed. So the pipeline's own lock is free
// then.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/pipeline/pipeline.h"
#include "support/error_of.h"
#include "support/eventually.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using testing::TempDir;
using testing::write_array;

class SourceLocks : public ::testing::Test {
 protected:
  // Notes at its end whether the pipeline's lock is free.
  struct Witness {
    explicit Witness(SourceLocks& of) : test(of) {}
    Witness(const Witness&) = delete;
    Witness& operator=(const Witness&) = delete;
    ~Witness() { test.found_free_.push_back(test.is_lock_free()); }
    SourceLocks& test;
  };
  std::shared_ptr<Witness> witness() { return std::make_shared<Witness>(*this); }
  struct Thrown {
    std::shared_ptr<Witness> by;
  };
  // Its source destroys it.
  using Next = std::function<std::optional<Sample>()>;

  SourceLocks() { write_array(root(), {16, 16}, {8, 8}); }
  void TearDown() override { pipeline_.close(); }
  std::string root() const { return (dir_.path() / "a.zarr").string(); }
  Sample good() const { return {root(), {{0, 4}, {0, 4}}}; }
  Sample refused() const { return {root(), {{0, 99}, {0, 4}}}; }

  static Config config() {
    Config config;
    config.batch_size = 1;
    config.host_buffer_bytes = config.device_buffer_bytes = 1 << 20;
    config.device = {DeviceChoice::Kind::cpu};
    return config;
  }

  bool is_lock_free() {
    auto answered = std::make_shared<std::atomic<bool>>(false);
    askers_.emplace_back([this, answered] {
      static_cast<void>(pipeline_.pending());
      *answered = true;
    });
    return testing::eventually([&] { return answered->load(); });
  }

  TempDir dir_{"locks"};
  Pipeline pipeline_{config()};
  std::vector<bool> found_free_;
  std::vector<std::jthread> askers_;
};

TEST_F(SourceLocks, a_source_that_ends_in_a_pop_is_destroyed_without_the_lock) {
  pipeline_.push(Next([this, of = witness(), left = 100]() mutable -> std::optional<Sample> {
    if (left-- == 0) return std::nullopt;
    return good();
  }));
  EXPECT_TRUE(found_free_.empty());  // more samples than there is room for
  while (pipeline_.pending()) pipeline_.pop();
  EXPECT_EQ(found_free_, std::vector<bool>{true});
}

TEST_F(SourceLocks, an_exception_that_a_refused_sample_replaces_is_destroyed_without_the_lock) {
  Next next = [this, of = witness(), taken = 0]() mutable -> std::optional<Sample> {
    if (taken++ == 0) return refused();
    throw Thrown{std::move(of)};
  };
  EXPECT_EQ(error_of([&] { pipeline_.push(std::move(next)); }).status(), Status::inval);
  EXPECT_EQ(found_free_, std::vector<bool>{true});
}

TEST_F(SourceLocks, a_source_that_closes_its_pipeline_is_destroyed_without_the_lock) {
  pipeline_.push(Next([this, of = witness(), left = 100]() mutable -> std::optional<Sample> {
    if (left-- == 0) pipeline_.close();
    return good();
  }));
  const auto drain = [&] {
    for (;;) pipeline_.pop();
  };
  EXPECT_EQ(error_of(drain).status(), Status::shutdown);
  EXPECT_EQ(found_free_, std::vector<bool>{true});
}

}  // namespace
}  // namespace damacy
