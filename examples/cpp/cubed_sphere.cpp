// Advection of a tracer around a cubed sphere: each tile is a rank, here a thread, and every step exchanges the
// tracer's halo. One thread with all tiles gives the same bytes, and the tracer's sum stays the same.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include <damacy/halo.h>

namespace {

namespace halo = damacy::halo;
constexpr double kPi = 3.14159265358979323846;
using Vector = std::array<double, 3>;
using Tiles = std::vector<std::vector<double>>;

// The directions (normal, i, j) of each tile, consistent with halo::CubedSphere: 1 is +x, -1 is -x, 2 is +y …
constexpr int kTiles[6][3] = {{1, 2, 3}, {2, -1, 3}, {3, -1, -2}, {-1, -3, -2}, {-2, -3, 1}, {-3, 2, 1}};

// The point of the unit sphere at angles `a` along i and `b` along j.
Vector point(std::size_t tile, double a, double b) {
  Vector p{};
  const double along[3] = {1, std::tan(a), std::tan(b)};
  for (std::size_t k = 0; k < 3; ++k)
    p[static_cast<std::size_t>(std::abs(kTiles[tile][k])) - 1] = kTiles[tile][k] > 0 ? along[k] : -along[k];
  const double length = std::hypot(p[0], p[1], p[2]);
  return {p[0] / length, p[1] / length, p[2] / length};
}

// A tile with one cell of halo. Flow is the difference of a stream function between the corners of a face.
struct Tile {
  Tile(std::size_t number, std::size_t cells) : n(cells), row(n + 2), tracer(row * row), stream((n + 1) * (n + 1)) {
    const auto angle = [this](double at) { return (at / static_cast<double>(n) - 0.5) * kPi / 2; };
    for (std::size_t j = 0; j <= n; ++j)
      for (std::size_t i = 0; i <= n; ++i) {
        const Vector corner = point(number, angle(static_cast<double>(i)), angle(static_cast<double>(j)));
        stream[j * (n + 1) + i] = 0.3 * corner[0] + 0.4 * corner[1] + 0.866 * corner[2];
        if (i == n || j == n) continue;
        const Vector centre = point(number, angle(static_cast<double>(i) + 0.5), angle(static_cast<double>(j) + 0.5));
        tracer[(j + 1) * row + i + 1] = std::exp(-(1 - centre[0]) / 0.05);
      }
  }

  // One upwind step; the halo must be filled.
  void step(double dt) {
    const std::vector<double> q = tracer;
    const auto through = [](double flow, double from, double to) { return flow * (flow > 0 ? from : to); };
    const auto height = [this](std::size_t j, std::size_t i) { return stream[j * (n + 1) + i]; };
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t at = (j + 1) * row + i + 1;
        tracer[at] -= dt * (through(height(j + 1, i + 1) - height(j, i + 1), q[at], q[at + 1]) -
                            through(height(j + 1, i) - height(j, i), q[at - 1], q[at]) +
                            through(height(j + 1, i) - height(j + 1, i + 1), q[at], q[at + row]) -
                            through(height(j, i) - height(j, i + 1), q[at - row], q[at]));
      }
  }

  std::size_t n, row;
  std::vector<double> tracer, stream;
};

double sum_of(const Tiles& tiles, std::size_t n) {
  double sum = 0;
  for (const auto& tile : tiles)
    for (std::size_t at = 0; at < n * n; ++at) sum += tile[(at / n + 1) * (n + 2) + at % n + 1];
  return sum;
}

// What a rank needs: its tile, and the exchange of the tile's halo.
struct Rank {
  Rank(int number, std::int64_t n, halo::Transport& transport)
      : tile(static_cast<std::size_t>(number), static_cast<std::size_t>(n)),
        exchanger(halo::compile({halo::dense_field({"j", "i"}, {n, n}, 1)}, halo::CubedSphere(1), number, 1),
                  transport) {}
  Tile tile;
  halo::Exchanger exchanger;
};

// `in_step`: one thread starts the exchanges of all tiles, then finishes them. Else each tile has a thread; with MPI it
// would be a process, and the transport halo::MpiTransport.
Tiles advected(int n, int steps, bool in_step) {
  const double dt = 0.2 * static_cast<double>(n) / (kPi / 2);
  halo::Local transport(6);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int number = 0; number < 6; ++number) ranks.push_back(std::make_unique<Rank>(number, n, transport));
  std::vector<std::thread> threads;
  for (std::size_t number = 0; number < 6 && !in_step; ++number)
    threads.emplace_back([&rank = *ranks[number], steps, dt] {
      for (int step = 0; step < steps; rank.tile.step(dt), ++step) rank.exchanger.exchange({rank.tile.tracer.data()});
    });
  for (auto& thread : threads) thread.join();
  for (int step = 0; step < steps && in_step; ++step) {
    std::vector<halo::Exchanger::Token> tokens;
    for (auto& rank : ranks) tokens.push_back(rank->exchanger.start({rank->tile.tracer.data()}));
    for (std::size_t number = 0; number < 6; ++number) {
      ranks[number]->exchanger.finish(tokens[number]);
      ranks[number]->tile.step(dt);
    }
  }
  Tiles tiles;
  for (auto& rank : ranks) tiles.push_back(rank->tile.tracer);
  return tiles;
}

}  // namespace

int main() {
  constexpr int n = 24, steps = 100;
  const double before = sum_of(advected(n, 0, true), n);
  const Tiles tiles = advected(n, steps, false);
  const bool equal = tiles == advected(n, steps, true);
  std::printf("sum %.9f -> %.9f, %s\n", before, sum_of(tiles, n), equal ? "equal to one thread" : "NOT equal");
  return equal && std::fabs(sum_of(tiles, n) - before) < 1e-9 * before ? 0 : 1;
}
