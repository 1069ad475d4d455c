// What every Transport that sends from host memory does with messages. A new implementation joins with
//   struct MyFixture {
//     // Runs body(rank) on each of so many ranks, and waits for them.
//     void on_ranks(int count, const std::function<void(int)>& body);
//     std::unique_ptr<halo::Channels> open(int rank, halo::Rounds rounds);  // on that rank
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, TransportSuite, MyFixture);
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/halo/transport.h"

namespace damacy {

template <class Fixture>
class TransportSuite : public ::testing::Test {
 protected:
  static constexpr std::size_t kSlots = 2, kPhases = 2;
  using Message = std::array<std::byte, 24>;

  // The messages of a rank with each of `peers`, in every slot and phase.
  struct Rank {
    Rank(Fixture& fixture, int rank, const std::vector<int>& peers) {
      halo::Rounds rounds(kSlots);
      for (std::size_t slot = 0; slot < kSlots; ++slot)
        for (std::size_t phase = 0; phase < kPhases; ++phase) {
          halo::Round& round = rounds[slot].emplace_back();
          for (const int peer : peers) {
            round.send[peer] = sent[{slot, phase, peer}];
            round.receive[peer] = received[{slot, phase, peer}];
          }
        }
      channels = fixture.open(rank, std::move(rounds));
      std::map<std::int64_t, halo::Digests> mine;
      for (const int peer : peers) mine[peer] = {};
      (void)channels->exchange_digests(mine);
    }
    void fill(std::size_t slot, std::size_t phase, int peer, int value) {
      sent.at({slot, phase, peer}).fill(static_cast<std::byte>(value));
    }
    void expect(std::size_t slot, std::size_t phase, int peer, int value) {
      Message wanted;
      wanted.fill(static_cast<std::byte>(value));
      EXPECT_EQ(received.at({slot, phase, peer}), wanted) << "slot " << slot << ", phase " << phase;
    }
    std::map<std::tuple<std::size_t, std::size_t, int>, Message> sent, received;
    std::unique_ptr<halo::Channels> channels;
  };

  Fixture fixture;
};

TYPED_TEST_SUITE_P(TransportSuite);

TYPED_TEST_P(TransportSuite, messages_arrive_as_they_were_sent_again_and_again) {
  this->fixture.on_ranks(3, [&](int rank) {
    const std::vector<int> peers{(rank + 1) % 3, (rank + 2) % 3};
    typename TestFixture::Rank one(this->fixture, rank, peers);
    for (int round = 0; round < 4; ++round) {
      for (const int peer : peers) one.fill(0, 0, peer, 50 * rank + 10 * peer + round);
      one.channels->post_receives(0, 0);
      one.channels->send(0, 0);
      one.channels->wait_received(0, 0);
      one.channels->wait_sent(0, 0);
      for (const int peer : peers) one.expect(0, 0, peer, 50 * peer + 10 * rank + round);
    }
    EXPECT_TRUE(one.channels->close());
  });
}

TYPED_TEST_P(TransportSuite, phases_and_slots_have_messages_of_their_own) {
  this->fixture.on_ranks(2, [&](int rank) {
    typename TestFixture::Rank one(this->fixture, rank, {1 - rank});
    for (int slot = 0; slot < 2; ++slot)
      for (int phase = 0; phase < 2; ++phase)
        one.fill(static_cast<std::size_t>(slot), static_cast<std::size_t>(phase), 1 - rank,
                 100 * rank + 10 * slot + phase + 1);
    for (int slot = 0; slot < 2; ++slot)
      for (int phase = 0; phase < 2; ++phase) {
        one.channels->post_receives(slot, phase);
        one.channels->send(slot, phase);
        one.channels->wait_received(slot, phase);
        one.channels->wait_sent(slot, phase);
        one.expect(static_cast<std::size_t>(slot), static_cast<std::size_t>(phase), 1 - rank,
                   100 * (1 - rank) + 10 * slot + phase + 1);
      }
    EXPECT_TRUE(one.channels->close());
  });
}

TYPED_TEST_P(TransportSuite, a_message_is_as_it_was_when_it_was_sent_until_that_is_waited_for) {
  this->fixture.on_ranks(2, [&](int rank) {
    typename TestFixture::Rank one(this->fixture, rank, {1 - rank});
    one.fill(0, 0, 1 - rank, 7 + rank);
    one.channels->post_receives(0, 0);
    one.channels->send(0, 0);
    one.channels->wait_received(0, 0);
    one.channels->wait_sent(0, 0);
    one.fill(0, 0, 1 - rank, 99);  // its buffer is free again
    one.expect(0, 0, 1 - rank, 7 + 1 - rank);
    EXPECT_TRUE(one.channels->close());
  });
}

TYPED_TEST_P(TransportSuite, receives_that_are_posted_again_stay_posted) {
  this->fixture.on_ranks(2, [&](int rank) {
    typename TestFixture::Rank one(this->fixture, rank, {1 - rank});
    one.fill(0, 0, 1 - rank, 5 + rank);
    one.channels->post_receives(0, 0);
    one.channels->post_receives(0, 0);
    one.channels->send(0, 0);
    one.channels->wait_received(0, 0);
    one.channels->wait_sent(0, 0);
    one.expect(0, 0, 1 - rank, 5 + 1 - rank);
    EXPECT_TRUE(one.channels->close());
  });
}

TYPED_TEST_P(TransportSuite, a_rank_without_peers_waits_for_nothing) {
  this->fixture.on_ranks(1, [&](int rank) {
    typename TestFixture::Rank one(this->fixture, rank, {});
    one.channels->post_receives(0, 0);
    one.channels->send(0, 0);
    one.channels->wait_received(0, 0);
    one.channels->wait_sent(0, 0);
    EXPECT_TRUE(one.channels->close());
  });
}

REGISTER_TYPED_TEST_SUITE_P(TransportSuite, messages_arrive_as_they_were_sent_again_and_again,
                            phases_and_slots_have_messages_of_their_own,
                            a_message_is_as_it_was_when_it_was_sent_until_that_is_waited_for,
                            receives_that_are_posted_again_stay_posted, a_rank_without_peers_waits_for_nothing);

}  // namespace damacy
