// Exchanges of all ranks in one process, on the host and on the lazy host device. Python's tests compare the cells with
// a cube that is folded without tables.
#include "damacy/halo/exchanger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <thread>

#include "damacy/device/host_device.h"
#include "support/error_of.h"

namespace damacy::halo {
namespace {

using Values = std::vector<std::int64_t>;

Cartesian ring(std::int64_t ranks, std::int64_t cells) {
  return Cartesian({{Integers(static_cast<std::size_t>(ranks), cells)}, {true}, Corners::direct});
}

QuantityHaloSpec line(std::int64_t cells, std::int64_t halo, Dtype dtype = Dtype::i64) {
  return dense_field({"i"}, {cells}, halo, dtype);
}

ExchangePlanPtr ring_plan(std::int64_t rank, std::int64_t ranks = 2, Wire wire = Wire::native) {
  return compile({line(3, 1)}, ring(ranks, 3), {"i"}, rank, std::int64_t{1}, {.wire = wire});
}

// Cells 10 rank + 1 … of a line with one halo cell at each end.
Values cells_of_rank(std::int64_t rank) {
  return {-1, 10 * rank + 1, 10 * rank + 2, 10 * rank + 3, -1};
}

TEST(Exchanger, one_thread_starts_all_ranks_and_then_finishes_them) {
  Local local(3);
  std::vector<std::unique_ptr<Exchanger>> exchangers;
  std::vector<Values> lines;
  for (int rank = 0; rank < 3; ++rank) {
    exchangers.push_back(std::make_unique<Exchanger>(ring_plan(rank, 3), local));
    lines.push_back(cells_of_rank(rank));
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<Exchanger::Token> tokens;
    for (std::size_t rank = 0; rank < 3; ++rank) tokens.push_back(exchangers[rank]->start({lines[rank].data()}));
    for (std::size_t rank = 0; rank < 3; ++rank) exchangers[rank]->finish(tokens[rank]);
    EXPECT_EQ(lines[0], (Values{23 + round, 1, 2, 3 + round, 11}));
    EXPECT_EQ(lines[1], (Values{3 + round, 11, 12, 13 + round, 21}));
    for (auto& cells : lines) ++cells[3];
  }
}

TEST(Exchanger, two_messages_of_one_peer_are_one_and_halos_may_come_from_oneself) {
  Local local(2);
  Exchanger first(ring_plan(0), local), second(ring_plan(1), local);
  EXPECT_EQ(peers_of(*ring_plan(0)), (std::vector<std::int64_t>{1}));
  Values a = cells_of_rank(0), b = cells_of_rank(1);
  auto token = first.start({a.data()});
  second.exchange({b.data()});
  first.finish(token);
  EXPECT_EQ(a, (Values{13, 1, 2, 3, 11}));
  EXPECT_EQ(b, (Values{3, 11, 12, 13, 1}));

  Local alone(1);
  Exchanger own(ring_plan(0, 1), alone);
  Values c = cells_of_rank(0);
  own.exchange({c.data()});
  EXPECT_EQ(c, (Values{3, 1, 2, 3, 1}));
}

TEST(Exchanger, the_row_that_two_ranks_hold_is_not_sent) {
  const QuantityHaloSpec faces{{"i_interface"}, {6}, {8}, {1}, {4}, Dtype::i64};  // of three cells
  Local local(2);
  Exchanger first(compile({faces}, ring(2, 3), {"i"}, 0, std::int64_t{1}), local);
  Exchanger second(compile({faces}, ring(2, 3), {"i"}, 1, std::int64_t{1}), local);
  Values a{-1, 0, 1, 2, 3, -1}, b{-1, 10, 11, 12, 13, -1};
  auto token = first.start({a.data()});
  second.exchange({b.data()});
  first.finish(token);
  EXPECT_EQ(a, (Values{12, 0, 1, 2, 3, 11}));
  EXPECT_EQ(b, (Values{2, 10, 11, 12, 13, 1}));
}

TEST(Exchanger, exchanges_in_flight_are_finished_in_any_order_and_once) {
  Local local(2);
  Exchanger first(ring_plan(0), local), second(ring_plan(1), local);
  Values a = cells_of_rank(0), b = cells_of_rank(5), c = cells_of_rank(1), d = cells_of_rank(6);
  auto early = first.start({a.data()}), late = first.start({b.data()});
  auto early_there = second.start({c.data()}), late_there = second.start({d.data()});
  EXPECT_NE(error_of([&] { (void)first.start({a.data()}); }).message().find("in flight"), std::string::npos);
  first.finish(late);
  second.finish(early_there);
  second.finish(late_there);
  first.finish(early);
  EXPECT_EQ(a[0], 13);
  EXPECT_EQ(b[0], 63);
  EXPECT_EQ(c[0], 3);
  EXPECT_EQ(d[0], 53);
  EXPECT_NE(error_of([&] { first.finish(early); }).message().find("finished already"), std::string::npos);
  EXPECT_NE(error_of([&] { first.finish(early_there); }).message().find("another"), std::string::npos);
}

TEST(Exchanger, ranks_that_expect_other_messages_are_told) {
  for (const bool other_wire : {true, false}) {
    Local local(2);
    const auto shorter = compile({line(3, 1, Dtype::i32)}, ring(2, 3), {"i"}, 1, std::int64_t{1});
    Exchanger first(ring_plan(0), local);
    const Error error = error_of([&] { Exchanger(other_wire ? ring_plan(1, 2, Wire::ndsl) : shorter, local); });
    EXPECT_EQ(error.message(), "rank 1 and rank 0 do not agree on fields, types, wire or links");
    EXPECT_EQ(error.where().reason, kMisuse);
    Values a = cells_of_rank(0);
    EXPECT_THROW((void)first.start({a.data()}), Error);  // the other rank sees it too
  }
}

TEST(Exchanger, a_rank_that_never_sends_is_a_timeout_and_the_exchanger_refuses_then) {
  Local local(2, std::chrono::milliseconds(5));
  Exchanger first(ring_plan(0), local), second(ring_plan(1), local);
  Values a = cells_of_rank(0);
  EXPECT_EQ(error_of([&] { first.exchange({a.data()}); }).message(),
            "rank 0 timed out after 0.005 s: no message from rank 1");
  EXPECT_NE(error_of([&] { (void)first.start({a.data()}); }).message().find("failed half way"), std::string::npos);
  first.close();
  first.close();
  EXPECT_EQ(error_of([&] { (void)first.start({a.data()}); }).message(), "this exchanger is closed");
}

// Messages of a device's memory, within the process.
class LocalOnDevice final : public Transport {
 public:
  explicit LocalOnDevice(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  bool sends_in_stream_order() const noexcept override { return true; }
  std::unique_ptr<Channels> open(std::int64_t rank, Rounds rounds) override {
    return local.open(device_, rank, std::move(rounds));
  }
  Local local{2};

 private:
  const std::shared_ptr<Device> device_;
};

// Rank 0 sends and receives nothing. Rank 1 packs nothing, so that no packing orders its receives.
ExchangePlanPtr one_way_plan(std::int64_t rank) {
  RankLinks own;
  own.dims = {"i"};
  if (rank == 0)
    own.links.push_back({1, Integers{1}, Integers{-1}, 0, CellBox{{2, 3}}, std::nullopt, 0});
  else
    own.links.push_back({0, Integers{-1}, Integers{1}, 0, std::nullopt, CellBox{{-1, 0}}, 0});
  return compile({line(3, 1)}, own, rank, std::int64_t{1});
}

class LocalOnStreams : public ::testing::TestWithParam<HostOrder> {};

std::vector<HostOrder> orders() {
  std::vector<HostOrder> all{{HostOrder::Kind::eager}, {HostOrder::Kind::lazy}};
  for (std::uint64_t seed = 0; seed < 30; ++seed) all.push_back({HostOrder::Kind::random, seed});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Local, LocalOnStreams, ::testing::ValuesIn(orders()));

// Rank 1 uses another stream in each round, and finishes an exchange on another stream than it started on.
void expect_halos_on_streams(const HostOrder& order, bool one_way, int depth) {
  constexpr int kRounds = 6;
  const auto device = make_host_device(order);
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(device->make_stream());
  const auto stream_of = [&](int rank, int round, int ends) -> Stream& {
    return *streams[static_cast<std::size_t>(rank == 0 ? 3 : (round + 2 * ends) % 3)];
  };
  LocalOnDevice transport(device);
  std::vector<std::unique_ptr<Exchanger>> exchangers;
  for (int rank = 0; rank < 2; ++rank)
    exchangers.push_back(std::make_unique<Exchanger>(one_way ? one_way_plan(rank) : ring_plan(rank), transport,
                                                     ExchangerOptions{.depth = depth, .device = device}));
  std::vector<Values> lines(static_cast<std::size_t>(2 * depth * kRounds)), seen(lines.size());
  const auto at = [&](int rank, int n) { return static_cast<std::size_t>(2 * n + rank); };
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::pair<int, Exchanger::Token>> tokens;
    for (int n = round * depth; n < (round + 1) * depth; ++n)
      for (int rank = 0; rank < 2; ++rank) {
        Values& line = lines[at(rank, n)];
        line.assign(5, -1);
        Stream& stream = stream_of(rank, round, 0);
        stream.enqueue({[&line, value = 100 * rank + n] { std::fill(line.begin(), line.end(), value); }, {}});
        tokens.emplace_back(n, exchangers[static_cast<std::size_t>(rank)]->start(stream, {line.data()}));
      }
    int rank = 0;
    for (auto& [n, token] : tokens) {
      Stream& stream = stream_of(rank, round, 1);
      exchangers[static_cast<std::size_t>(rank)]->finish(stream, token);
      stream.enqueue({[&line = lines[at(rank, n)], &copy = seen[at(rank, n)]] { copy = line; }, {}});
      rank = 1 - rank;
    }
  }
  for (const auto& stream : streams) stream->record().wait();
  for (int n = 0; n < kRounds * depth; ++n) {
    EXPECT_EQ(seen[at(1, n)][0], n);
    EXPECT_EQ(seen[at(1, n)][4], one_way ? 100 + n : n);
    EXPECT_EQ(seen[at(0, n)][0], one_way ? n : 100 + n);
  }
  EXPECT_EQ(transport.local.waiting(), 0U);
}

TEST_P(LocalOnStreams, messages_are_ordered_between_the_streams_of_ranks) {
  for (const bool one_way : {false, true})
    for (const int depth : {1, 2}) expect_halos_on_streams(GetParam(), one_way, depth);
}

TEST(Local, ranks_have_arrays_in_memory_of_one_kind) {
  std::array<std::byte, 8> sent{}, received{};
  const auto device = make_host_device();
  const auto stream = device->make_stream();
  Local local(2);
  const auto there = local.open(device, 0, {{{{{1, sent}}, {}}}});
  const auto here = local.open(1, {{{{}, {{0, received}}}}});
  there->before_pack(*stream, 0, 0);
  there->exchange(*stream, 0, 0);
  here->post_receives(0, 0);
  EXPECT_EQ(
      error_of([&] { here->wait_received(0, 0); }).message(),
      "rank 1 and rank 0 have arrays in memory of different kinds: expected both on the host, or both on a device");
}

TEST(Exchanger, arrays_and_plans_are_checked) {
  Local local(1);
  Exchanger own(ring_plan(0, 1), local);
  EXPECT_EQ(error_of([&] { own.exchange({}); }).message(), "Quantities count: 0 for 1 fields");
  EXPECT_THROW(own.exchange({nullptr}), Error);
  EXPECT_EQ(error_of([] { (void)compile({}, ring(2, 3), {"i"}, 0, std::int64_t{1}); }).message(),
            "Attempting to init an empty halo exchange");
  EXPECT_EQ(error_of([] { (void)compile({line(4, 1)}, ring(2, 3), {"i"}, 0, std::int64_t{1}); }).message(),
            "field 0 has [4] cells along ('i',), expected [3] for rank 0");
  EXPECT_EQ(error_of([] { (void)compile({line(3, 1)}, ring(2, 3), {"i"}, 0, std::int64_t{2}); }).where().reason,
            kOutsideAllocation);
  EXPECT_THROW((void)compile({line(3, 1), line(3, 1)}, ring(2, 3), {"i"}, 0, std::int64_t{1}, {.vectors = {{0, 0}}}),
               Error);
  EXPECT_THROW(Exchanger(ring_plan(0), local, {.depth = 0}), Error);
  RankLinks of_rows;
  of_rows.dims = {"j"};
  EXPECT_EQ(error_of([&] { (void)compile({line(3, 1)}, of_rows, 0, std::int64_t{1}); }).message(),
            "dimension j is decomposed, but a field has only ('i',)");
}

constexpr std::int64_t kSide = 4, kRow = kSide + 2;

// A tile's cells with one halo cell on each side; inner cells are 100 tile + 10 j + i.
Values tile_of(std::int64_t tile) {
  Values out(kRow * kRow, -1);
  for (std::int64_t j = 0; j < kSide; ++j)
    for (std::int64_t i = 0; i < kSide; ++i)
      out[static_cast<std::size_t>((j + 1) * kRow + i + 1)] = 100 * tile + 10 * j + i;
  return out;
}

std::int64_t at(const Values& tile, std::int64_t j, std::int64_t i) {
  return tile[static_cast<std::size_t>((j + 1) * kRow + i + 1)];
}

std::vector<Values> exchanged_cube(CornerFill fill) {
  Local local(6);
  std::vector<Values> tiles;
  for (int rank = 0; rank < 6; ++rank) tiles.push_back(tile_of(rank));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 6; ++rank)
    threads.emplace_back([&, rank] {
      const auto field = dense_field({"j", "i"}, {kSide, kSide}, 1, Dtype::i64);
      Exchanger exchanger(compile({field}, CubedSphere(1), rank, 1, {.fill = fill}), local);
      exchanger.exchange({tiles[static_cast<std::size_t>(rank)].data()});
    });
  for (auto& thread : threads) thread.join();
  return tiles;
}

TEST(Exchanger, the_tiles_of_a_cube_get_the_cells_beyond_their_edges) {
  const auto tiles = exchanged_cube(CornerFill::none);
  for (std::int64_t n = 0; n < kSide; ++n) {
    EXPECT_EQ(at(tiles[0], n, kSide), 100 + 10 * n) << "east of tile 0 is tile 1, not turned";
    EXPECT_EQ(at(tiles[0], kSide, n), 200 + 10 * (kSide - 1 - n)) << "north of tile 0 is the west of tile 2, turned";
    EXPECT_EQ(at(tiles[0], -1, n), 500 + 10 * (kSide - 1) + n) << "south of tile 0 is the north of tile 5";
    EXPECT_EQ(at(tiles[0], n, -1), 400 + 10 * (kSide - 1) + kSide - 1 - n) << "west of tile 0 is the north of tile 4";
  }
  for (const auto& tile : tiles)
    for (const auto end : {std::int64_t{-1}, kSide}) EXPECT_EQ(at(tile, end, end), -1) << "no rank owns corners";
}

TEST(Exchanger, cells_beyond_cube_corners_are_filled_from_the_chosen_side) {
  const auto from_x = exchanged_cube(CornerFill::x), from_y = exchanged_cube(CornerFill::y);
  for (std::size_t tile = 0; tile < 6; ++tile) {
    EXPECT_EQ(at(from_x[tile], -1, -1), at(from_x[tile], 0, -1));
    EXPECT_EQ(at(from_x[tile], kSide, kSide), at(from_x[tile], kSide - 1, kSide));
    EXPECT_EQ(at(from_y[tile], -1, -1), at(from_y[tile], -1, 0));
    EXPECT_EQ(at(from_y[tile], kSide, -1), at(from_y[tile], kSide, 0));
  }
}

TEST(Exchanger, shared_edges_of_a_c_grid_become_equal) {
  Local local(6);
  const auto x = dense_field({"j_interface", "i"}, {kSide + 1, kSide}, 0);
  const auto y = dense_field({"j", "i_interface"}, {kSide, kSide + 1}, 0);
  std::vector<std::unique_ptr<Exchanger>> exchangers;
  std::vector<std::vector<double>> xs, ys;
  std::vector<Exchanger::Token> tokens;
  for (int rank = 0; rank < 6; ++rank) {
    exchangers.push_back(std::make_unique<Exchanger>(compile_interfaces(x, y, CubedSphere(1), rank), local));
    xs.emplace_back((kSide + 1) * kSide), ys.emplace_back((kSide + 1) * kSide);
    std::iota(xs.back().begin(), xs.back().end(), 1 + 100 * rank);
    std::iota(ys.back().begin(), ys.back().end(), 51 + 100 * rank);
  }
  for (std::size_t rank = 0; rank < 6; ++rank)
    tokens.push_back(exchangers[rank]->start({xs[rank].data(), ys[rank].data()}));
  for (std::size_t rank = 0; rank < 6; ++rank) exchangers[rank]->finish(tokens[rank]);
  for (std::size_t j = 0; j < kSide; ++j)  // the last column of y of tile 0 is the first one of tile 1
    EXPECT_EQ(ys[0][j * (kSide + 1) + kSide], ys[1][j * (kSide + 1)]);
}

TEST(Exchanger, arrays_of_a_device_are_exchanged_in_the_order_of_their_stream) {
  const auto device = make_host_device({HostOrder::Kind::lazy});
  const auto stream = device->make_stream(), other = device->make_stream();
  Local local(2);
  Exchanger first(ring_plan(0), local, {.device = device}), second(ring_plan(1), local, {.device = device});
  Values a(5, 0), b(5, 0);
  for (std::int64_t round = 0; round < 4; ++round) {  // each slot is used twice
    const Values produced_a = cells_of_rank(2 * round), produced_b = cells_of_rank(2 * round + 1);
    stream->enqueue({[&] { std::copy(produced_a.begin(), produced_a.end(), a.begin()); }, {}});
    other->enqueue({[&] { std::copy(produced_b.begin(), produced_b.end(), b.begin()); }, {}});
    auto token = first.start(*stream, {a.data()}), there = second.start(*other, {b.data()});
    first.finish(*stream, token);
    second.finish(*other, there);
    Values seen_a, seen_b;
    stream->enqueue({[&] { seen_a = a; }, {}});
    other->enqueue({[&] { seen_b = b; }, {}});
    stream->record().wait();
    other->record().wait();
    EXPECT_EQ(seen_a[0], 10 * (2 * round + 1) + 3);
    EXPECT_EQ(seen_a[4], 10 * (2 * round + 1) + 1);
    EXPECT_EQ(seen_b[0], 10 * (2 * round) + 3);
    EXPECT_EQ(seen_b[4], 10 * (2 * round) + 1);
  }
  EXPECT_THROW(first.exchange({a.data()}), Error);
}

// A peer whose messages arrive as soon as their receives are posted: all numbers of the n-th message are n.
class PromptTransport final : public Transport {
 public:
  std::unique_ptr<Channels> open(std::int64_t, Rounds rounds) override {
    return std::make_unique<PromptChannels>(std::move(rounds));
  }

 private:
  class PromptChannels final : public Channels {
   public:
    explicit PromptChannels(Rounds rounds) : rounds_(std::move(rounds)) {}
    std::map<std::int64_t, Digests> exchange_digests(const std::map<std::int64_t, Digests>& mine) override {
      std::map<std::int64_t, Digests> theirs;
      for (const auto& [peer, digests] : mine) theirs[peer] = {digests.second, digests.first};
      return theirs;
    }
    void post_receives(int slot, int phase) override {
      ++count_;
      for (const auto& [peer, buffer] :
           rounds_[static_cast<std::size_t>(slot)][static_cast<std::size_t>(phase)].receive)
        for (std::size_t at = 0; at + sizeof count_ <= buffer.size(); at += sizeof count_)
          std::memcpy(buffer.data() + at, &count_, sizeof count_);
    }
    void send(int, int) override {}
    void wait_received(int, int) override {}
    void wait_sent(int, int) override {}
    bool close() noexcept override { return true; }

   private:
    Rounds rounds_;
    std::int64_t count_ = 0;
  };
};

TEST(Exchanger, a_message_that_is_not_on_the_device_yet_is_not_overwritten) {
  const auto device = make_host_device({HostOrder::Kind::lazy});
  const auto stream = device->make_stream();
  PromptTransport transport;
  Exchanger exchanger(ring_plan(0), transport, {.depth = 1, .device = device});
  Values first = cells_of_rank(0), second = cells_of_rank(0);
  exchanger.exchange(*stream, {first.data()});
  exchanger.exchange(*stream, {second.data()});
  stream->record().wait();
  EXPECT_EQ(first[0], 1);
  EXPECT_EQ(second[0], 2);
}

}  // namespace
}  // namespace damacy::halo
