#include "check.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "support/random_placements.h"

namespace damacy::bench {
namespace {

using copy_cuda::testing::Bytes;
using copy_cuda::testing::RandomPlacement;
using copy_cuda::testing::Wishes;
using Randoms = std::vector<std::unique_ptr<RandomPlacement>>;

constexpr std::size_t kAligned = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAligned - 1) / kAligned * kAligned;
}

// Calls body(i) for all i, on all cores.
template <class Body>
void spread(std::size_t count, const Body& body) {
  const std::size_t threads = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 32);
  std::vector<std::jthread> crew;
  for (std::size_t t = 0; t < threads; ++t)
    crew.emplace_back([&, t] {
      for (std::size_t i = t; i < count; i += threads) body(i);
    });
}

// All sources and destinations of some placements in device memory: in one allocation, or each in its own.
class OnDevice {
 public:
  OnDevice(const Randoms& randoms, bool exact) : randoms_(randoms) {
    std::vector<std::size_t> sources, destinations;
    for (const auto& random : randoms) {
      sources.push_back(random->chunk_skew() + random->chunk().size());
      destinations.push_back(random->destination().size());
    }
    allocate(sources, exact, sources_);
    allocate(destinations, exact, destinations_);
    for (std::size_t i = 0; i < randoms.size(); ++i) {
      const Bytes& guards = randoms[i]->destination();
      write(destinations_[i], guards);
      write({sources_[i].buffer, sources_[i].at + randoms[i]->chunk_skew()}, randoms[i]->chunk());
    }
  }

  void list(PlacementList& list) const {
    for (std::size_t i = 0; i < randoms_.size(); ++i) {
      Placement placement = randoms_[i]->placement;
      placement.src = address(sources_[i]) + randoms_[i]->chunk_skew();
      placement.dst = address(destinations_[i]) + randoms_[i]->dst_begin();
      list.add(placement);
    }
  }

  Bytes destination(std::size_t i) const {
    Bytes bytes(randoms_[i]->destination().size());
    buffers_[destinations_[i].buffer]->read(bytes, destinations_[i].at);
    return bytes;
  }

 private:
  struct Place {
    std::size_t buffer;
    std::size_t at;
  };

  void allocate(const std::vector<std::size_t>& sizes, bool exact, std::vector<Place>& places) {
    std::size_t total = 0;
    for (const std::size_t size : sizes) {
      if (exact) {
        places.push_back({buffers_.size(), 0});
        buffers_.push_back(std::make_unique<DeviceBuffer>(size));
      } else {
        places.push_back({buffers_.size(), total});
        total += aligned(size);
      }
    }
    if (!exact) buffers_.push_back(std::make_unique<DeviceBuffer>(total));
  }

  std::uint64_t address(const Place& place) const { return buffers_[place.buffer]->address() + place.at; }
  void write(const Place& place, std::span<const std::byte> bytes) const {
    if (!bytes.empty()) buffers_[place.buffer]->write(bytes, place.at);
  }

  const Randoms& randoms_;
  std::vector<Place> sources_, destinations_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
};

// The number of placements whose result differs from the host's.
std::size_t wrong(Runner& runner, const Randoms& randoms, bool exact) {
  const OnDevice device(randoms, exact);
  PlacementList list;
  device.list(list);
  runner.run(list);
  spread(randoms.size(), [&](std::size_t i) { copy_cuda::testing::place_on_host(randoms[i]->placement); });
  std::size_t count = 0;
  for (std::size_t i = 0; i < randoms.size(); ++i) {
    if (device.destination(i) == randoms[i]->destination()) continue;
    if (++count <= 3) std::printf("{\"wrong\": \"%s\"}\n", randoms[i]->text().c_str());
  }
  return count;
}

bool report(const char* name, std::size_t placements, std::size_t failed) {
  std::printf("{\"check\": \"%s\", \"placements\": %zu, \"wrong\": %zu}\n", name, placements, failed);
  std::fflush(stdout);
  return failed == 0;
}

Dtype dtype(int number) {
  return static_cast<Dtype>(number);
}

}  // namespace

bool check_random(Runner& runner, const CheckOptions& options) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.seconds);
  std::uint64_t done = 0, failed = 0;
  while (done < options.most && std::chrono::steady_clock::now() < end) {
    Randoms randoms(std::min<std::uint64_t>(options.most - done, 1000));
    spread(randoms.size(),
           [&](std::size_t i) { randoms[i] = std::make_unique<RandomPlacement>(options.seed * 1'000'000 + done + i); });
    failed += wrong(runner, randoms, options.exact);
    done += randoms.size();
  }
  return report("random", done, failed);
}

bool check_every_pair(Runner& runner) {
  Randoms randoms;
  const auto add = [&](const CopyOp& op, int shuffle, bool plain_rows) {
    Wishes wishes;
    wishes.op = op;
    wishes.shuffle = static_cast<ChunkLayout::Shuffle>(shuffle);
    wishes.plain_rows = plain_rows;
    randoms.push_back(std::make_unique<RandomPlacement>(randoms.size(), wishes));
  };
  for (int from = 0; from < kBatchDtypes; ++from)
    for (int to = 0; to < kBatchDtypes; ++to)
      for (int kind = 0; kind < 12; ++kind) add({dtype(from), dtype(to), kind / 6 == 1}, kind % 3, kind % 6 < 3);
  for (int stored = kBatchDtypes; stored < 17; ++stored)
    for (int kind = 0; kind < 12; ++kind) add({dtype(stored), dtype(stored), kind / 6 == 1}, kind % 3, kind % 6 < 3);
  return report("every pair", randoms.size(), wrong(runner, randoms, false));
}

bool check_every_value(Runner& runner) {
  constexpr std::size_t kValues = 65536;
  Bytes values(2 * kValues);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::byte>(i % 2 == 0 ? i / 2 : i / 512);
  const DeviceBuffer source(values.size()), destination(8 * kValues);
  source.write(values);
  std::size_t count = 0, failed = 0;
  for (const Dtype from : {Dtype::u16, Dtype::i16, Dtype::f16, Dtype::bf16})
    for (int to = 0; to < kBatchDtypes; ++to) {
      Placement placement;
      placement.rank = 1;
      placement.axes[0] = {kValues, 2, static_cast<std::int64_t>(size_of(dtype(to)))};
      placement.op = {from, dtype(to), false};
      placement.layout.chunk_bytes = values.size();
      Bytes expected(kValues * size_of(dtype(to))), got(expected.size());
      placement.src = reinterpret_cast<std::uint64_t>(values.data());
      placement.dst = reinterpret_cast<std::uint64_t>(expected.data());
      copy_cuda::testing::place_on_host(placement);
      placement.src = source.address();
      placement.dst = destination.address();
      PlacementList list;
      list.add(placement);
      runner.run(list);
      destination.read(got);
      ++count;
      failed += got != expected;
    }
  return report("every value of two bytes", count, failed);
}

}  // namespace damacy::bench
