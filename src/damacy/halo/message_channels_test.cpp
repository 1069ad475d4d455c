// Channels over a library that writes down its calls.
#include "damacy/halo/message_channels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/halo/message_tags.h"
#include "damacy/halo/spec.h"
#include "support/error_of.h"

namespace damacy::halo {
namespace {

using Seen = std::vector<std::string>;

// What was sent to a peer is received from it, unless `answers_as` is in its place. Names of calls end with the tag of
// what is received.
struct FakeLibrary {
  Seen seen;
  std::string fails;                                    // the call that throws, once
  bool answers = true;                                  // messages arrive
  bool reads_late = false;                              // cancelled messages may still be read
  int left = 0;                                         // calls of leave_messages()
  std::vector<Tags> tags;                               // of the messages that were made
  std::map<std::int64_t, std::vector<std::byte>> sent;  // by peer, the last time
  std::map<std::int64_t, std::vector<std::byte>> answers_as;

  void note(const char* call, int tag) {
    seen.push_back(formatted("{} {}", call, tag));
    if (seen.back() != fails) return;
    fails.clear();
    throw Error(Status::io, "the library failed");
  }
};

class FakeRequests final : public Requests {
 public:
  FakeRequests(FakeLibrary& library, Round round, int tag) : library_(library), round_(std::move(round)), tag_(tag) {}
  void post() override { library_.note("post", tag_); }
  void send() override {
    library_.note("send", tag_);
    for (const auto& [peer, buffer] : round_.send) library_.sent[peer].assign(buffer.begin(), buffer.end());
  }
  void wait_received() override {
    library_.note("received", tag_);
    for (const auto& [peer, buffer] : round_.receive) {
      const auto other = library_.answers_as.find(peer);
      std::ranges::copy(other == library_.answers_as.end() ? library_.sent.at(peer) : other->second, buffer.begin());
    }
  }
  void wait_sent() override { library_.note("sent", tag_); }
  std::vector<std::int64_t> missing() override {
    std::vector<std::int64_t> peers;
    for (const auto& [peer, buffer] : round_.receive)
      if (!library_.answers) peers.push_back(peer);
    return peers;
  }
  bool cancel() noexcept override {
    library_.seen.push_back(formatted("cancel {}", tag_));
    return !library_.reads_late;
  }

 private:
  FakeLibrary& library_;
  const Round round_;
  const int tag_;
};

class Library final : public MessageLibrary {
 public:
  explicit Library(FakeLibrary& fake) : fake_(fake) {}
  std::unique_ptr<Requests> messages(int, int, const Tags& tags) override {
    fake_.tags.push_back(tags);
    return digests({}, tags);
  }
  std::unique_ptr<Requests> digests(Round round, const Tags& tags) override {
    fake_.note("make", tags.receive);
    return std::make_unique<FakeRequests>(fake_, std::move(round), tags.receive);
  }
  void leave_messages() noexcept override { ++fake_.left; }

 private:
  FakeLibrary& fake_;
};

std::shared_ptr<MessageTags> some_tags() {
  return std::make_shared<MessageTags>(/*of_digests=*/99, /*first=*/2, /*last=*/20);
}

MessageChannels channels_over(FakeLibrary& fake, int slots, int phases, int timeout_ms = 60'000,
                              std::shared_ptr<MessageTags> tags = some_tags()) {
  return {std::make_unique<Library>(fake), /*rank=*/0, slots, phases,
          MessageOptions{std::move(tags), std::chrono::milliseconds(timeout_ms)}};
}

const std::map<std::int64_t, Digests> kDigests{{3, {Digest{1, 2, 3, 4}, Digest{5, 6, 7, 8}}}, {5, {}}};

// Without those of the exchange of digests.
Seen calls_after_open(FakeLibrary& fake, MessageChannels& channels) {
  (void)channels.exchange_digests(kDigests);
  Seen made(fake.seen.begin() + 5, fake.seen.end());
  fake.seen.clear();
  return made;
}

TEST(MessageChannels, each_phase_has_a_tag_that_all_slots_use) {
  FakeLibrary fake;
  auto channels = channels_over(fake, 2, 2);
  EXPECT_EQ(calls_after_open(fake, channels), (Seen{"make 2", "make 3", "make 2", "make 3"}));
  channels.post_receives(1, 0);
  channels.send(1, 0);
  channels.wait_received(1, 1);
  channels.wait_sent(1, 1);
  EXPECT_EQ(fake.seen, (Seen{"post 2", "send 2", "received 3", "sent 3"}));
}

TEST(MessageChannels, peers_are_sent_what_has_their_tags) {
  FakeLibrary fake, peer;
  const auto tags = some_tags();
  auto first = channels_over(fake, 1, 1, 60'000, tags), second = channels_over(peer, 1, 1, 60'000, tags);
  EXPECT_EQ(calls_after_open(peer, second), (Seen{"make 3"}));
  fake.answers_as[5] = peer.sent.at(5);  // which has other exchangers
  EXPECT_EQ(calls_after_open(fake, first), (Seen{"make 2"}));
  EXPECT_EQ(fake.tags.at(0).send, (std::map<std::int64_t, int>{{3, 2}, {5, 3}}));
}

TEST(MessageTags, that_were_given_back_are_taken_again_last) {
  MessageTags tags(0, 1, 6);
  EXPECT_EQ(tags.take(2), 1);
  EXPECT_EQ(tags.take(2), 3);
  tags.give(1);
  EXPECT_EQ(tags.take(2), 5);
  EXPECT_EQ(tags.take(1), 1);
  EXPECT_EQ(tags.take(1), 2);
  EXPECT_EQ(error_of([&] { (void)tags.take(1); }).message(),
            "this transport has no 1 tags left for another exchanger: close exchangers, or make another transport");
  tags.give(3);
  EXPECT_EQ(tags.take(2), 3);
}

TEST(MessageTags, those_without_phases_do_not_share_a_first_tag) {
  MessageTags tags(0, 1, 3);
  EXPECT_EQ(tags.take(0), 1);
  EXPECT_EQ(tags.take(2), 2);
  tags.give(1);
  EXPECT_THROW((void)tags.take(2), Error);
  EXPECT_EQ(tags.take(0), 1);
}

TEST(MessageChannels, digests_are_received_before_their_memory_is_let_go) {
  FakeLibrary fake;
  auto channels = channels_over(fake, 0, 0);
  EXPECT_EQ(channels.exchange_digests(kDigests), kDigests);
  EXPECT_EQ(fake.seen, (Seen{"make 99", "post 99", "send 99", "received 99", "sent 99"}));
  EXPECT_TRUE(channels.close());
}

TEST(MessageChannels, peers_without_digests_are_named_and_their_messages_left) {
  for (const bool reads_late : {false, true}) {
    FakeLibrary fake;
    fake.answers = false;
    fake.reads_late = reads_late;
    auto channels = channels_over(fake, 0, 0, /*timeout_ms=*/0);
    const Error error = error_of([&] { (void)channels.exchange_digests(kDigests); });
    EXPECT_EQ(error.status(), Status::io);
    EXPECT_EQ(error.message(),
              "rank 0 timed out after 0 s: ranks [3, 5] have no exchanger with links to it. Every rank must construct "
              "its exchanger, and every link needs its counterpart");
    EXPECT_EQ(fake.left, 1);
    EXPECT_EQ(fake.seen.back(), "cancel 99");
  }
}

TEST(MessageChannels, a_transport_whose_digests_were_left_behind_refuses_another_exchanger) {
  for (const bool in_part : {false, true}) {
    FakeLibrary fake;
    fake.answers = false;
    if (in_part) fake.fails = "send 99";
    const auto tags = some_tags();
    EXPECT_THROW((void)channels_over(fake, 1, 1, /*timeout_ms=*/0, tags).exchange_digests(kDigests), Error);
    const Error error = error_of([&] { (void)channels_over(fake, 1, 1, 60'000, tags); });
    EXPECT_EQ(error.status(), Status::inval);
    EXPECT_EQ(
        error.message(),
        "an exchanger of this transport could not be constructed, and its messages may still arrive: make another "
        "transport, on all ranks");
  }
}

TEST(MessageChannels, a_transport_that_has_sent_no_digests_takes_another_exchanger) {
  FakeLibrary fake;
  fake.fails = "post 99";
  const auto tags = some_tags();
  EXPECT_THROW((void)channels_over(fake, 1, 1, 60'000, tags).exchange_digests(kDigests), Error);
  EXPECT_EQ(channels_over(fake, 1, 1, 60'000, tags).exchange_digests(kDigests), kDigests);
}

TEST(MessageChannels, receives_of_a_retry_stay_posted_unless_posting_failed) {
  FakeLibrary fake;
  auto channels = channels_over(fake, 1, 1);
  (void)calls_after_open(fake, channels);
  fake.fails = "post 2";
  EXPECT_THROW(channels.post_receives(0, 0), Error);
  for (int tries = 0; tries < 3; ++tries) channels.post_receives(0, 0);
  EXPECT_EQ(fake.seen, (Seen{"post 2", "post 2"}));
  channels.send(0, 0);
  channels.post_receives(0, 0);
  EXPECT_EQ(fake.seen, (Seen{"post 2", "post 2", "send 2", "post 2"}));
}

TEST(MessageChannels, closing_cancels_all_and_tells_whether_buffers_may_still_be_read) {
  for (const bool reads_late : {false, true}) {
    FakeLibrary fake;
    auto channels = channels_over(fake, 1, 2);
    (void)calls_after_open(fake, channels);
    fake.reads_late = reads_late;
    EXPECT_EQ(channels.close(), !reads_late);
    EXPECT_EQ(fake.seen, (Seen{"cancel 2", "cancel 3"}));
    EXPECT_TRUE(channels.close());
  }
}

TEST(MessageChannels, requests_that_were_made_are_cancelled_if_later_ones_cannot_be_made) {
  FakeLibrary fake;
  fake.fails = "make 3";
  {
    auto channels = channels_over(fake, 1, 2);
    EXPECT_EQ(error_of([&] { (void)channels.exchange_digests(kDigests); }).message(), "the library failed");
  }
  EXPECT_EQ(Seen(fake.seen.begin() + 5, fake.seen.end()), (Seen{"make 2", "make 3", "cancel 2"}));
}

}  // namespace
}  // namespace damacy::halo
