#include "damacy/store/http/known_objects.h"

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "damacy/core/clock.h"
#include "damacy/store/http/plain_service.h"
#include "damacy/store/storage_watch.h"
#include "support/error_of.h"

namespace damacy::http {
namespace {

using namespace std::chrono_literals;

TEST(KnownObjects, an_expected_object_that_was_taken_is_claimed_by_nobody_until_it_is_kept) {
  KnownObjects objects(1h);
  ASSERT_TRUE(objects.claim("a"));
  objects.expect("a", std::make_unique<ExpectedObject>());
  {
    const KnownObjects::Asking asking(objects, "a");
    ASSERT_NE(objects.take_expected("a"), nullptr);
    EXPECT_FALSE(objects.claim("a"));
    EXPECT_TRUE(objects.claim("b"));
    objects.keep("a", nullptr, std::chrono::steady_clock::now());
  }
  EXPECT_FALSE(objects.claim("a"));
  ASSERT_TRUE(objects.find("a"));
}

TEST(KnownObjects, one_that_could_not_be_asked_for_is_claimed_again) {
  KnownObjects objects(1h);
  {
    const KnownObjects::Asking one(objects, "a"), other(objects, "a", /*waits=*/false);
    EXPECT_FALSE(objects.claim("a"));
  }
  EXPECT_TRUE(objects.claim("a"));
}

TEST(KnownObjects, who_asks_waits_for_who_asks_already) {
  KnownObjects objects(1h);
  std::optional<KnownObjects::Asking> first(std::in_place, objects, "a");
  std::atomic<bool> asks{false};
  std::jthread second([&] {
    const KnownObjects::Asking asking(objects, "a");
    EXPECT_TRUE(objects.find("a"));
    asks = true;
  });
  const KnownObjects::Asking other(objects, "b");
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(asks);
  objects.keep("a", nullptr, std::chrono::steady_clock::now());
  first.reset();
}

TEST(KnownObjects, none_waits_for_an_answer_that_is_not_kept) {
  KnownObjects objects(0ms);
  const KnownObjects::Asking one(objects, "a"), another(objects, "a");
}

TEST(KnownObjects, who_asks_and_is_cancelled_waits_no_longer) {
  KnownObjects objects(1h);
  const KnownObjects::Asking first(objects, "a");
  StorageWatch watch(std::make_shared<SteadyClock>());
  std::jthread cancelled([&] {
    watch.attach_thread();
    EXPECT_EQ(error_of([&] { const KnownObjects::Asking asking(objects, "a"); }).where().reason, "closed");
  });
  watch.cancel_remote();
}

TEST(KnownObjects, who_asks_waits_for_the_request_of_a_claim) {
  KnownObjects objects(1h);
  ASSERT_TRUE(objects.claim("a"));
  std::atomic<bool> has_begun{false};
  std::jthread begins([&] {
    std::this_thread::sleep_for(20ms);
    has_begun = true;
    objects.expect("a", std::make_unique<ExpectedObject>());
  });
  const KnownObjects::Asking asking(objects, "a");
  EXPECT_TRUE(has_begun);
  EXPECT_NE(objects.take_expected("a"), nullptr);
}

TEST(KnownObjects, an_object_that_is_being_asked_for_is_found_but_not_opened) {
  KnownObjects objects(1h);
  objects.keep("a", nullptr, std::chrono::steady_clock::now());
  EXPECT_TRUE(objects.find_unasked("a"));
  const KnownObjects::Asking asking(objects, "a");  // perhaps for its bytes
  EXPECT_FALSE(objects.find_unasked("a"));
  EXPECT_TRUE(objects.find("a"));
}

TEST(KnownObjects, those_that_waited_for_one_claim_wait_for_each_other) {
  for (int round = 0; round < 200; ++round) {
    KnownObjects objects(1h);
    ASSERT_TRUE(objects.claim("a"));
    std::atomic<int> began{0}, taken{0}, known{0};
    std::list<std::jthread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        ++began;
        const KnownObjects::Asking asking(objects, "a");
        if (objects.find("a")) return void(++known);
        if (objects.take_expected("a") == nullptr) return;
        ++taken;
        std::this_thread::yield();
        objects.keep("a", nullptr, std::chrono::steady_clock::now());
      });
    while (began < 3) std::this_thread::yield();
    if (round % 2 == 0) std::this_thread::sleep_for(1ms);  // all wait
    objects.expect("a", std::make_unique<ExpectedObject>());
    threads.clear();
    ASSERT_EQ(taken, 1);
    ASSERT_EQ(known, 2) << "asked again";
  }
}

TEST(KnownObjects, who_asks_goes_on_when_a_claim_is_given_up) {
  KnownObjects objects(1h);
  ASSERT_TRUE(objects.claim("a"));
  std::atomic<bool> is_given_up{false};
  std::jthread gives_up([&] {
    std::this_thread::sleep_for(20ms);
    is_given_up = true;
    objects.forget("a");
  });
  const KnownObjects::Asking asking(objects, "a");
  EXPECT_TRUE(is_given_up);
  EXPECT_EQ(objects.take_expected("a"), nullptr);
}

TEST(KnownObjects, all_stores_have_one_bound) {
  const std::size_t before = KnownObjects::kept_by_process();
  std::list<KnownObjects> stores;
  for (std::size_t kept = 0; kept < KnownObjects::kObjectsOfProcess + 1000; ++kept) {
    if (kept % 4000 == 0) stores.emplace_back(1h);
    stores.back().keep(std::to_string(kept), nullptr, std::chrono::steady_clock::now());
    ASSERT_LE(KnownObjects::kept_by_process(), KnownObjects::kObjectsOfProcess);
  }
  EXPECT_TRUE(stores.back().find(std::to_string(KnownObjects::kObjectsOfProcess + 999)));
  stores.clear();
  EXPECT_EQ(KnownObjects::kept_by_process(), before);
}

// With a head of `bytes`, which `reads` announced reads need.
std::shared_ptr<HttpObject> object_with(KnownObjects& objects, std::size_t bytes, std::size_t reads) {
  const HttpSettings settings;
  const std::string uri = "http://127.0.0.1:9/";
  Version version;
  version.tag = "\"a\"";
  version.size = bytes;
  FirstBytes head;
  head.block.resize(bytes);
  head.reads = reads;
  head.counts = objects.head_counts();
  return std::make_shared<HttpObject>(std::make_shared<const Origin>(uri, make_plain_service(uri, settings), settings),
                                      "a", std::move(version), std::move(head));
}

TEST(KnownObjects, heads_that_announced_reads_need_do_not_empty_other_stores) {
  constexpr std::size_t kHead = 8 << 20;
  KnownObjects announced(1h), other(1h), third(1h);
  const auto now = std::chrono::steady_clock::now();
  std::list<std::shared_ptr<HttpObject>> needed;
  for (std::size_t bytes = 0; bytes <= KnownObjects::kHeadBytesOfProcess; bytes += kHead) {
    needed.push_back(object_with(announced, kHead, 1));
    announced.keep(std::to_string(bytes), needed.back(), now);
  }
  other.keep("a", nullptr, now);
  third.keep("b", nullptr, now);
  announced.keep("c", nullptr, now);
  EXPECT_TRUE(other.find("a"));
  EXPECT_TRUE(third.find("b"));
  for (const auto& object : needed) {
    EXPECT_TRUE(object->has_head());
    object->remove_read();
    EXPECT_FALSE(object->has_head());
  }
  EXPECT_EQ(announced.head_counts()->announced, 0u);
  EXPECT_EQ(announced.head_counts()->bytes, 0u);
}

TEST(KnownObjects, heads_that_no_read_needs_make_room) {
  constexpr std::size_t kHead = 8 << 20;
  KnownObjects full(1h), other(1h);
  const auto now = std::chrono::steady_clock::now();
  for (std::size_t bytes = 0; bytes < KnownObjects::kHeadBytesOfProcess; bytes += kHead)
    full.keep(std::to_string(bytes), object_with(full, kHead, 0), now);
  EXPECT_TRUE(full.find("0"));
  other.keep("a", object_with(other, kHead, 0), now);
  EXPECT_FALSE(full.find("0"));
  EXPECT_TRUE(other.find("a"));
}

TEST(KnownObjects, an_object_that_was_asked_for_again_is_dropped_last) {
  KnownObjects objects(1h);
  const auto first = object_with(objects, 1, 0), second = object_with(objects, 1, 0);
  const auto now = std::chrono::steady_clock::now();
  objects.keep("first", first, now);
  objects.keep("second", second, now);
  for (int i = 2; i < 4096; ++i) objects.keep(std::to_string(i), nullptr, now);
  objects.keep("first", first, now);
  objects.keep("one more", nullptr, now);
  EXPECT_TRUE(objects.find("first"));
  EXPECT_FALSE(objects.find("second"));
}

TEST(KnownObjects, reads_of_a_head_that_was_dropped_do_not_keep_the_next_one) {
  KnownObjects objects(1h);
  const auto one = object_with(objects, 100, 1), same = object_with(objects, 100, 1);
  one->drop_head();
  one->take_head_of(*same);
  one->remove_read();
  EXPECT_FALSE(one->has_head());
}

TEST(KnownObjects, a_head_is_counted_as_announced_while_reads_need_it) {
  KnownObjects objects(1h);
  const auto& counts = *objects.head_counts();
  const auto one = object_with(objects, 100, 0), same = object_with(objects, 100, 2);
  const std::size_t each = counts.bytes / 2;
  EXPECT_EQ(counts.announced, each);
  one->drop_head();
  one->take_head_of(*same);
  EXPECT_EQ(counts.announced, each);
  EXPECT_EQ(counts.bytes, each);
  one->remove_read();
  EXPECT_EQ(counts.announced, each);
  EXPECT_TRUE(one->forget_piece({0, 10}));
  EXPECT_FALSE(one->forget_piece({0, 10}));
  EXPECT_TRUE(one->has_changed());
  EXPECT_EQ(counts.announced, 0u);
  EXPECT_EQ(counts.bytes, 0u);
}

}  // namespace
}  // namespace damacy::http
