#include "damacy/halo/exchange_digest.h"

#include <cstdint>
#include <span>

#include <gtest/gtest.h>

namespace damacy::halo {
namespace {

constexpr std::int64_t kPeer = 3;

// A phase that sends and receives one box of a field of 8 x 6 cells with a halo of 2.
ExchangePhase phase_of(const Box& box, int rotation = 0) {
  const Entry entry{{0, box}, {}, rotation, false};
  ExchangePhase phase;
  phase.sends[kPeer] = {entry};
  phase.receives[kPeer] = {entry};
  return phase;
}

Digest digest(const ExchangePhase& phase, bool sends, Wire wire = Wire::ndsl, std::int64_t peer = kPeer,
              bool lines = false) {
  const QuantityHaloSpec field = dense_field({"j", "i"}, {6, 8}, 2);
  return digest_of(std::span(&field, 1), std::span(&phase, 1), peer, sends, wire, lines);
}

const Box kRow{{2, 2}, {4, 10}};     // 2 x 8
const Box kColumn{{2, 2}, {8, 4}};   // 6 x 2
const Box kTurned{{2, 2}, {10, 4}};  // 8 x 2, as kRow arrives after a quarter turn

TEST(ExchangeDigest, sender_and_receiver_of_the_same_cells_agree) {
  EXPECT_EQ(digest(phase_of(kRow), true), digest(phase_of(kRow), false));
  EXPECT_EQ(digest(phase_of(kRow, 1), true), digest(phase_of(kTurned), false));
  EXPECT_EQ(digest(phase_of(kRow), true, Wire::ndsl, kPeer, true),
            digest(phase_of(kTurned), false, Wire::ndsl, kPeer, true));
}

TEST(ExchangeDigest, another_box_wire_or_number_of_messages_differs) {
  const Digest row = digest(phase_of(kRow), true);
  EXPECT_NE(row, digest(phase_of(kColumn), true));
  EXPECT_NE(row, digest(phase_of(kRow), true, Wire::native));
  EXPECT_NE(row, digest(phase_of(kRow), true, Wire::ndsl, kPeer + 1));  // no message
}

}  // namespace
}  // namespace damacy::halo
