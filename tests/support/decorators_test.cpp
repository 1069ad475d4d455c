
#include <gtest/gtest.h>

#include "conformance/store_suite.h"
#include "damacy/store/memory_store.h"
#include "support/faulty_store.h"
#include "support/latency_store.h"
#include "support/metered_store.h"

namespace damacy {
namespace {

std::shared_ptr<MemoryStore> digits() {
  auto store = std::make_shared<MemoryStore>();
  store->put("key", "0123456789");
  return store;
}

TEST(MeteredStore, counts_every_call_and_the_bytes_that_came) {
  MeteredStore store(digits());
  const auto object = store.open("key");
  store.open("absent");
  store.stamp("key");
  store.list("");
  read_text(*object, 0, 10);
  read_text(*object, 3, 4);
  error_of([&] { read_text(*object, 8, 4); });
  EXPECT_EQ(store.counts(), (MeteredStore::Counts{.opens = 2, .stamps = 1, .lists = 1, .reads = 3, .bytes = 14}));
}

TEST(LatencyStore, a_call_ends_when_the_clock_has_moved_on) {
  const auto clock = std::make_shared<ManualClock>();
  LatencyStore store(digits(), clock, Clock::Time(1000));
  std::atomic<bool> opened{false};
  std::jthread caller([&] {
    store.open("key");
    opened = true;
  });
  EXPECT_FALSE(opened);
  clock->advance(Clock::Time(999));
  EXPECT_FALSE(opened);
  while (!opened) clock->advance(Clock::Time(1));  // the caller may have looked at the clock late
}

TEST(FaultyStore, fails_the_nth_call_once) {
  FaultyStore store(digits(), {.call = Fault::Call::read, .at = 2, .error_number = ESTALE});
  const auto object = store.open("key");
  EXPECT_EQ(read_text(*object, 0, 2), "01");
  const Error error = error_of([&] { read_text(*object, 0, 2); });
  EXPECT_EQ(error.status(), Status::io);
  EXPECT_EQ(error.system_errno(), ESTALE);
  EXPECT_EQ(error.where().key, "key");
  EXPECT_EQ(read_text(*object, 0, 2), "01");
  EXPECT_EQ(store.faults(), 1u);
  EXPECT_EQ(store.calls(), 3u);
}

TEST(FaultyStore, fails_permanently_from_the_nth_call_on) {
  FaultyStore store(digits(), {.at = 2, .for_ever = true});
  EXPECT_TRUE(store.open("key"));
  EXPECT_EQ(error_of([&] { store.stamp("key"); }).status(), Status::io);
  EXPECT_EQ(error_of([&] { store.list(""); }).status(), Status::io);
  EXPECT_EQ(error_of([&] { store.open("key"); }).status(), Status::io);
  EXPECT_EQ(store.faults(), 3u);
}

TEST(FaultyStore, reads_short) {
  FaultyStore store(digits(), {.kind = Fault::Kind::short_read, .at = 1});
  const auto object = store.open("key");
  const Error error = error_of([&] { read_text(*object, 0, 8); });
  EXPECT_EQ(error.where().reason, "short-read");
  EXPECT_EQ(error.message(), "short read: 4 of 8 bytes");
}

TEST(FaultyStore, shows_a_changed_object) {
  FaultyStore reads(digits(), {.call = Fault::Call::read, .kind = Fault::Kind::changed, .at = 1});
  const auto object = reads.open("key");
  EXPECT_NE(read_text(*object, 0, 4), "0123");
  EXPECT_EQ(read_text(*object, 0, 4), "0123");
  FaultyStore stamps(digits(), {.call = Fault::Call::stamp, .kind = Fault::Kind::changed, .at = 1, .for_ever = true});
  EXPECT_NE(stamps.stamp("key"), stamps.open("key")->stamp());
}

TEST(FaultyStore, a_seed_fails_the_same_calls_every_time) {
  const auto faults_of = [](std::uint64_t seed) {
    FaultyStore store(digits(), {.call = Fault::Call::read, .seed = seed, .one_in = 8});
    const auto object = store.open("key");
    std::string pattern;
    for (int i = 0; i < 400; ++i) {
      try {
        read_text(*object, 0, 1);
        pattern += '.';
      } catch (const Error&) {
        pattern += 'x';
      }
    }
    return pattern;
  };
  const std::string first = faults_of(7);
  EXPECT_EQ(first, faults_of(7));
  EXPECT_NE(first, faults_of(8));
  const auto failed = std::count(first.begin(), first.end(), 'x');
  EXPECT_GT(failed, 20);
  EXPECT_LT(failed, 100);
}

}  // namespace
}  // namespace damacy
