#include "damacy/device/arena.h"

#include <atomic>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "support/eventually.h"

namespace damacy {
namespace {

constexpr std::size_t kPiece = Arena::kPieceAlignment;

TEST(Arena, lends_the_lowest_address_that_fits) {
  Arena arena(std::make_shared<PageAlloc>(), 10 * kPiece);
  auto a = arena.take(100, {});
  const auto b = arena.take(kPiece + 1, {});
  EXPECT_EQ(b.bytes().data(), a.bytes().data() + kPiece);
  const std::byte* first = a.bytes().data();
  a = {};
  EXPECT_EQ(arena.take(kPiece, {}).bytes().data(), first);
  EXPECT_EQ(arena.peak(), 3 * kPiece);
}

TEST(Arena, gives_its_last_byte_and_refuses_one_more) {
  Arena arena(std::make_shared<PageAlloc>(), 2 * kPiece + 7);
  EXPECT_EQ(arena.take(2 * kPiece + 7, {}).bytes().size(), 2 * kPiece + 7);
  EXPECT_THROW(static_cast<void>(arena.take(2 * kPiece + 8, {})), Error);
}

TEST(Arena, lends_no_more_than_its_user_wants_lent_but_one_piece_always) {
  Arena arena(std::make_shared<PageAlloc>(), 10 * kPiece);
  std::stop_source stopped;
  stopped.request_stop();
  {
    const auto large = arena.take(3 * kPiece, {}, 2 * kPiece);
    EXPECT_EQ(large.bytes().size(), 3 * kPiece);
    const auto within = arena.take(kPiece, {}, 4 * kPiece);
    EXPECT_EQ(within.bytes().size(), kPiece);
    EXPECT_THROW(static_cast<void>(arena.take(1, stopped.get_token(), 4 * kPiece)), Error);
  }
}

TEST(Arena, lends_without_a_wait_what_is_there) {
  Arena arena(std::make_shared<PageAlloc>(), 2 * kPiece);
  EXPECT_TRUE(arena.try_take(0).bytes().empty());
  EXPECT_TRUE(arena.try_take(2 * kPiece + 1).bytes().empty());
  auto first = arena.try_take(kPiece + 1);
  EXPECT_EQ(first.bytes().size(), kPiece + 1);
  EXPECT_TRUE(arena.try_take(1).bytes().empty());
  first = {};
  EXPECT_EQ(arena.take(2 * kPiece, {}).bytes().size(), 2 * kPiece);
}

// A piece that is lent before its turn could starve a larger one.
TEST(Arena, lends_nothing_without_a_wait_while_others_wait) {
  Arena arena(std::make_shared<PageAlloc>(), 3 * kPiece);
  auto first = arena.take(2 * kPiece, {});
  std::atomic<bool> is_served{false};
  std::thread waiting([&] {
    const auto large = arena.take(3 * kPiece, {});
    is_served = true;
  });
  EXPECT_TRUE(testing::eventually([&] { return arena.try_take(1).bytes().empty(); }));
  EXPECT_FALSE(is_served);
  first = {};
  waiting.join();
}

TEST(Arena, a_stop_ends_the_wait) {
  Arena arena(std::make_shared<PageAlloc>(), kPiece);
  const auto all = arena.take(1, {});
  std::stop_source stop;
  std::thread stopper([&] { stop.request_stop(); });
  EXPECT_THROW(static_cast<void>(arena.take(1, stop.get_token())), Error);
  stopper.join();
}

Error error_of_take(Arena& arena, std::size_t bytes, std::size_t most = ~std::size_t{0}) {
  try {
    static_cast<void>(arena.take(bytes, {}, most));
  } catch (const Error& error) {
    return error;
  }
  return Error(Status::ok, "lent");
}

TEST(Arena, a_wait_that_only_stranded_pieces_could_end_fails) {
  Arena arena(std::make_shared<PageAlloc>(), 10 * kPiece);
  auto low = arena.take(4 * kPiece, {});
  auto held = arena.take(2 * kPiece, {});
  held.strand("c.0.7", "a store");
  held.strand("c.0.7", "a store");
  EXPECT_EQ(arena.stranded(), 2 * kPiece);
  EXPECT_EQ(arena.lendable(), 4 * kPiece);
  const Error error = error_of_take(arena, 5 * kPiece);
  EXPECT_EQ(error.where().reason, "deadline");
  EXPECT_EQ(error.status(), Status::io);
  EXPECT_STREQ(error.message().c_str(),
               "timed out waiting for 20480 bytes of buffer memory: operations that are not responding hold 8192 of "
               "40960 bytes in 1 pieces, the last for c.0.7 of a store");
  low = {};
  EXPECT_EQ(arena.take(4 * kPiece, {}).bytes().size(), 4 * kPiece);
  held = {};
  EXPECT_EQ(arena.stranded(), 0u);
  EXPECT_EQ(arena.take(10 * kPiece, {}).bytes().size(), 10 * kPiece);
}

TEST(Arena, stranding_a_piece_ends_waits_for_it) {
  Arena arena(std::make_shared<PageAlloc>(), 4 * kPiece);
  const auto held = arena.take(2 * kPiece, {});
  std::thread stranding([&] { held.strand("an object", "a store"); });
  EXPECT_EQ(error_of_take(arena, 3 * kPiece).where().reason, "deadline");
  stranding.join();
  EXPECT_EQ(arena.take(kPiece, {}).bytes().size(), kPiece) << "a waiter that stopped blocks no other";
}

TEST(Arena, stranded_pieces_do_not_count_among_what_may_be_lent) {
  Arena arena(std::make_shared<PageAlloc>(), 10 * kPiece);
  const auto held = arena.take(4 * kPiece, {});
  held.strand("an object", "a store");
  const auto first = arena.take(2 * kPiece, {}, 4 * kPiece);
  EXPECT_EQ(arena.take(2 * kPiece, {}, 4 * kPiece).bytes().size(), 2 * kPiece);
}

TEST(Arena, a_waiter_that_stops_blocks_no_other) {
  Arena arena(std::make_shared<PageAlloc>(), 2 * kPiece);
  auto all = arena.take(2 * kPiece, {});
  std::stop_source stop;
  std::thread stopper([&] { stop.request_stop(); });
  EXPECT_THROW(static_cast<void>(arena.take(1, stop.get_token())), Error);
  stopper.join();
  all = {};
  EXPECT_EQ(arena.take(2 * kPiece, {}).bytes().size(), 2 * kPiece);
}

TEST(Arena, pieces_in_use_never_overlap) {
  Arena arena(std::make_shared<PageAlloc>(), 64 * kPiece);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 2000; ++i) {
        const auto piece = arena.take(1 + random() % (20 * kPiece), {});
        const auto mark = static_cast<std::byte>(random());
        std::fill(piece.bytes().begin(), piece.bytes().begin() + 64 % piece.bytes().size(), mark);
        piece.bytes().back() = mark;
        if (piece.bytes().back() != mark) ++wrong;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(arena.take(64 * kPiece, {}).bytes().size(), 64 * kPiece);
}

}  // namespace
}  // namespace damacy
