#include "damacy/store/http/known_objects.h"

#include <atomic>
#include <chrono>
#include <list>
#include <string>
#include <thread>

#include <gtest/gtest.h>

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
    const KnownObjects::Asking one(objects, "a"), another(objects, "a");
    EXPECT_FALSE(objects.claim("a"));
  }
  EXPECT_TRUE(objects.claim("a"));
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

}  // namespace
}  // namespace damacy::http
