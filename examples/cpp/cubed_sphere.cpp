// Advection of a tracer around a cubed sphere: each tile is a rank, and every step exchanges the tracer's halo. Ranks
// are processes if mpirun starts six of them (and MPI was found when this was compiled), else threads. One thread with
// all tiles gives the same bytes, and the tracer's sum stays the same.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <numeric>
#include <thread>
#include <vector>

#include <damacy/halo.h>
#ifdef WITH_MPI
#include <damacy/halo/mpi.h>
#endif

namespace {

namespace halo = damacy::halo;
using Field = std::vector<double>;
constexpr int kTiles = 6, kCells = 24, kSize = kCells * kCells, kRow = kCells + 2, kSteps = 100;
constexpr double kAngle = 1.57079632679489662 / kCells, kTimeStep = 0.2 / kAngle;

// The directions (normal, i, j) of each tile, consistent with halo::CubedSphere: 1 is +x, -1 is -x, 2 is +y …
constexpr int kDirections[kTiles][3] = {{1, 2, 3}, {2, -1, 3}, {3, -1, -2}, {-1, -3, -2}, {-2, -3, 1}, {-3, 2, 1}};

// How far along an axis the point of the unit sphere is that is `i` and `j` cells from the start of a tile.
double along(const double (&axis)[3], int tile, double i, double j) {
  const double cube[3] = {1, std::tan((i - kCells / 2) * kAngle), std::tan((j - kCells / 2) * kAngle)};
  double sum = 0;
  for (int n = 0; n < 3; ++n)
    sum += axis[std::abs(kDirections[tile][n]) - 1] * std::copysign(1, kDirections[tile][n]) * cube[n];
  return sum / std::hypot(cube[0], cube[1], cube[2]);
}

struct Rank {
  Rank(int tile, halo::Transport& transport)
      : exchanger(halo::compile({halo::dense_field({"j", "i"}, {kCells, kCells}, 1)}, halo::CubedSphere(1), tile, 1),
                  transport) {
    for (int at = 0; at < kRow * kRow; ++at) {
      const int i = at % kRow - 1, j = at / kRow - 1;
      stream[at] = along({0.3, 0.4, 0.866}, tile, i, j);
      tracer[at] = std::exp((along({1, 0, 0}, tile, i + 0.5, j + 0.5) - 1) / 0.05);
    }
  }

  void start() { token = exchanger.start({tracer.data()}); }

  void finish() {
    exchanger.finish(token);
    const Field q = tracer;
    const auto flow = [&](int from, int to, double volume) { return volume * q[volume > 0 ? from : to]; };
    for (int j = 1; j <= kCells; ++j)
      for (int at = j * kRow + 1; at <= j * kRow + kCells; ++at)
        tracer[at] -= kTimeStep * (flow(at, at + 1, stream[at + kRow + 1] - stream[at + 1]) -
                                   flow(at - 1, at, stream[at + kRow] - stream[at]) +
                                   flow(at, at + kRow, stream[at + kRow] - stream[at + kRow + 1]) -
                                   flow(at - kRow, at, stream[at] - stream[at + 1]));
  }

  Field tracer = Field(kRow * kRow);
  Field stream = tracer;  // at the first corner of each cell: what flows over a face is the difference of its ends
  halo::Exchanger exchanger;
  halo::Exchanger::Token token;
};

// Gives the tracers of some ranks after so many steps. One thread may start several exchanges, and then finish them.
void advect(halo::Transport& transport, int first, int last, int steps, double* tracers) {
  std::deque<Rank> ranks;
  for (int tile = first; tile < last; ++tile) ranks.emplace_back(tile, transport);
  for (; steps > 0; --steps) {
    for (Rank& rank : ranks) rank.start();
    for (Rank& rank : ranks) rank.finish();
  }
  for (const Rank& rank : ranks)
    for (int j = 1; j <= kCells; ++j) tracers = std::copy_n(&rank.tracer[j * kRow + 1], kCells, tracers);
}

Field by_threads() {
  halo::Local transport(kTiles);
  Field all(kTiles * kSize);
  std::vector<std::thread> threads;
  for (int tile = 0; tile < kTiles; ++tile)
    threads.emplace_back([&, tile] { advect(transport, tile, tile + 1, kSteps, &all[tile * kSize]); });
  for (std::thread& thread : threads) thread.join();
  return all;
}

int report(const Field& tracers, const char* ranks) {
  halo::Local transport(kTiles);
  Field first(kTiles * kSize), last(kTiles * kSize);
  advect(transport, 0, kTiles, 0, first.data());
  advect(transport, 0, kTiles, kSteps, last.data());
  const double before = std::accumulate(first.begin(), first.end(), 0.0);
  const double after = std::accumulate(tracers.begin(), tracers.end(), 0.0);
  const char* const same = tracers == last ? "equal to one thread" : "NOT equal";
  std::printf("ranks are %s: sum %.9f -> %.9f, %s\n", ranks, before, after, same);
  return tracers == last && std::fabs(after - before) < 1e-9 * before ? 0 : 1;
}

}  // namespace

int main() {
#ifdef WITH_MPI
  MPI_Init(nullptr, nullptr);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Field all(ranks * kSize);
  if (ranks == kTiles) {
    halo::MpiTransport transport(MPI_COMM_WORLD);
    advect(transport, rank, rank + 1, kSteps, &all[rank * kSize]);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), kSize, MPI_DOUBLE, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  if (ranks == kTiles) return rank == 0 ? report(all, "processes of MPI") : 0;
  if (ranks > 1) return std::fprintf(stderr, "started with %d ranks, expected 6\n", ranks) > 0;
#endif
  return report(by_threads(), "threads");
}
