#include "hostile.h"

#include <chrono>
#include <cstdio>
#include <cstring>

#include "batch.h"
#include "damacy/codec/gpu_zstd/reference_decoder.h"
#include "damacy/codec/gpu_zstd/test_frames.h"

namespace damacy::bench {
namespace {

using gpu::Fault;
using gpu::testing::Random;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Sample {
  Bytes content, encoded;
  GpuCodec codec = GpuCodec::zstd;
  bool mutated = false;
};

Sample make_sample(Random& random, const HostileOptions& options) {
  Sample sample;
  const std::size_t limit = random() % 4 == 0 ? std::min<std::size_t>(options.largest, 64) : options.largest;
  sample.content = gpu::testing::random_content(random, 1 + random() % limit);
  if (random() % 3 == 0) {
    sample.codec = GpuCodec::lz4;
    sample.encoded = gpu::testing::random_lz4(random, sample.content);
  } else {
    sample.encoded = gpu::testing::random_zstd(random, sample.content);
  }
  return sample;
}

struct Totals {
  std::uint64_t batches = 0, frames = 0, scan_refused = 0, accepted = 0, refused = 0, checked = 0;
  std::uint64_t wrong = 0, differ = 0, escaped = 0;
  [[nodiscard]] bool clean() const { return wrong == 0 && differ == 0 && escaped == 0; }
};

// Frames to start from: making them costs more than mutating and decoding them.
class Pool {
 public:
  Pool(std::size_t count, const HostileOptions& options, Crew& crew) : samples_(count) {
    crew.each(
        count,
        [&](std::size_t i, std::size_t) {
          Random random(options.seed * 0x9e3779b97f4a7c15ull + i);
          samples_[i] = make_sample(random, options);
        },
        8);
  }
  [[nodiscard]] const Sample& at(std::size_t i) const { return samples_[i % samples_.size()]; }

 private:
  std::vector<Sample> samples_;
};

void report(const Totals& totals, const HostileOptions& options, double seconds) {
  std::printf(
      "{\"hostile\": \"%s\", \"largest\": %zu, \"seed\": %llu, \"seconds\": %.1f, \"batches\": %llu, \"frames\": %llu, "
      "\"refused_by_scan\": %llu, \"accepted\": %llu, \"refused\": %llu, \"checked\": %llu, \"wrong_bytes\": %llu, "
      "\"verdicts_differ\": %llu, \"escaped_bytes\": %llu, \"good\": %s}\n",
      options.mutate ? "mutated" : "generated", options.largest, static_cast<unsigned long long>(options.seed), seconds,
      static_cast<unsigned long long>(totals.batches), static_cast<unsigned long long>(totals.frames),
      static_cast<unsigned long long>(totals.scan_refused), static_cast<unsigned long long>(totals.accepted),
      static_cast<unsigned long long>(totals.refused), static_cast<unsigned long long>(totals.checked),
      static_cast<unsigned long long>(totals.wrong), static_cast<unsigned long long>(totals.differ),
      static_cast<unsigned long long>(totals.escaped), totals.clean() ? "true" : "false");
  std::fflush(stdout);
}

// What the reference decoder says of every k-th frame, against what the device said.
void check_sample(const Batch& batch, const std::vector<Bytes>& encoded, const std::vector<Item>& items,
                  const Bytes& output, double share, Random& random, Crew& crew, Totals& totals) {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (static_cast<double>(random() >> 11) * 0x1p-53 < share) chosen.push_back(i);
  std::atomic<std::uint64_t> wrong = 0, differ = 0;
  std::vector<gpu::ReferenceDecoder> decoders(crew.size());
  crew.each(
      chosen.size(),
      [&](std::size_t k, std::size_t worker) {
        const std::size_t i = chosen[k];
        Bytes expected(items[i].size);
        const auto outcome = decoders[worker].decode(encoded[i], items[i].codec, expected);
        const bool accepted = batch.scanned(i) && batch.status(i) == 0;
        if (accepted != outcome.ok()) {
          if (++differ < 4)
            std::printf("{\"differs\": %zu, \"device\": %d, \"reference\": %d, \"bytes\": %zu}\n", i,
                        batch.scanned(i) ? static_cast<int>(batch.status(i)) : -1, static_cast<int>(outcome.fault),
                        items[i].size);
        } else if (accepted &&
                   std::memcmp(output.data() + batch.frames()[i].dst_offset, expected.data(), expected.size()) != 0) {
          ++wrong;
        }
      },
      4);
  totals.checked += chosen.size();
  totals.wrong += wrong;
  totals.differ += differ;
}

void run_batch(const HostileOptions& options, std::uint64_t seed, const Pool& pool, Crew& crew, Totals& totals) {
  const std::size_t count = options.frames;
  std::vector<Bytes> encoded(count);
  std::vector<Item> items(count);
  std::vector<const Bytes*> expected(count);
  crew.each(
      count,
      [&](std::size_t i, std::size_t) {
        Random random(seed * 0xd1342543de82ef95ull + i);
        const Sample& sample = pool.at(options.mutate ? random() : i);
        encoded[i] = sample.encoded;
        if (options.mutate) gpu::testing::mutate(random, encoded[i]);
        items[i] = {&encoded[i], sample.content.size(), sample.codec};
        expected[i] = &sample.content;
      },
      64);
  Batch batch(items, 64, crew);
  batch.scan();
  batch.upload_image();
  batch.poison();
  batch.decode();
  batch.wait();
  batch.fetch_status();
  ++totals.batches;
  totals.frames += count;
  totals.escaped += batch.count_escaped();
  for (std::size_t i = 0; i < count; ++i) {
    if (!batch.scanned(i))
      ++totals.scan_refused;
    else
      ++(batch.status(i) == 0 ? totals.accepted : totals.refused);
  }
  if (!options.mutate) {
    totals.wrong += batch.count_wrong(expected);
    totals.differ += count - batch.accepted();
    totals.checked += count;
    return;
  }
  Random random(seed);
  const Bytes output = batch.all_output();
  check_sample(batch, encoded, items, output, options.checked_share, random, crew, totals);
}

}  // namespace

bool run_hostile(const HostileOptions& options, Crew& crew) {
  const double begin = now();
  Totals totals;
  Pool pool(options.mutate ? std::min<std::size_t>(options.frames, 20000) : options.frames, options, crew);
  double told = begin;
  do {
    if (totals.batches != 0 && !options.mutate) {
      HostileOptions next = options;
      next.seed = options.seed + totals.batches;
      pool = Pool(options.frames, next, crew);
    }
    run_batch(options, options.seed * 1000003 + totals.batches, pool, crew, totals);
    if (now() - told > 20) {
      told = now();
      report(totals, options, told - begin);
    }
  } while (now() - begin < options.seconds && totals.clean());
  report(totals, options, now() - begin);
  return totals.clean();
}

}  // namespace damacy::bench
