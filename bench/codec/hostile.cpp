#include "hostile.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <span>

#include "batch.h"
#include "damacy/codec/gpu_zstd/reference_decoder.h"
#include "damacy/codec/gpu_zstd/test_frames.h"
#include "stage_times.h"

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

// Frames of one batch and what is known of them.
struct Load {
  std::vector<Bytes> encoded;
  std::vector<Item> items;
  std::vector<const Bytes*> contents;  // of what they were before mutation
};

Load make_load(const HostileOptions& options, std::uint64_t seed, const Pool& pool, Crew& crew) {
  Load load{std::vector<Bytes>(options.frames), std::vector<Item>(options.frames),
            std::vector<const Bytes*>(options.frames)};
  crew.each(
      options.frames,
      [&](std::size_t i, std::size_t) {
        Random random(seed * 0xd1342543de82ef95ull + i);
        const Sample& sample = pool.at(options.mutate ? random() : i);
        load.encoded[i] = sample.encoded;
        if (options.mutate) gpu::testing::mutate(random, load.encoded[i]);
        load.items[i] = {&load.encoded[i], sample.content.size(), sample.codec};
        load.contents[i] = &sample.content;
      },
      64);
  return load;
}

// Enough of the first few frames that went wrong to find out why.
void explain(const Batch& batch, const Load& load, std::size_t i, int reference, std::span<const std::byte> output,
             std::span<const std::byte> expected) {
  static std::atomic<int> told = 0;
  if (++told > 12) return;
  const std::span<const std::byte> got = output.subspan(batch.frames()[i].dst_offset, expected.size());
  std::size_t first = 0, differing = 0;
  for (std::size_t k = expected.size(); k-- > 0;) {
    if (got[k] == expected[k]) continue;
    first = k;
    ++differing;
  }
  std::printf(
      "{\"bad\": %zu, \"codec\": %d, \"stored\": %zu, \"size\": %zu, \"device\": %d, \"reference\": %d, "
      "\"differing\": %zu, \"first\": %zu, \"got\": %d, \"expected\": %d}\n",
      i, static_cast<int>(load.items[i].codec), load.encoded[i].size(), expected.size(),
      batch.scanned(i) ? static_cast<int>(batch.status(i)) : -1, reference, differing, first,
      static_cast<int>(got.empty() ? std::byte{0} : got[first]),
      static_cast<int>(expected.empty() ? std::byte{0} : expected[first]));
}

// Verdicts and bytes of a share of the frames, against the reference decoder's.
void check_by_reference(const Batch& batch, const Load& load, double share, Random& random, Crew& crew,
                        Totals& totals) {
  const Bytes output = batch.all_output();
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < load.items.size(); ++i)
    if (static_cast<double>(random() >> 11) * 0x1p-53 < share) chosen.push_back(i);
  std::atomic<std::uint64_t> wrong = 0, differ = 0;
  std::vector<gpu::ReferenceDecoder> decoders(crew.size());
  crew.each(
      chosen.size(),
      [&](std::size_t k, std::size_t worker) {
        const std::size_t i = chosen[k];
        Bytes expected(load.items[i].size);
        const auto outcome = decoders[worker].decode(load.encoded[i], load.items[i].codec, expected);
        const bool accepted = batch.scanned(i) && batch.status(i) == 0;
        const bool same = !accepted || std::memcmp(output.data() + batch.frames()[i].dst_offset, expected.data(),
                                                   expected.size()) == 0;
        if (accepted == outcome.ok() && same) return;
        ++(accepted != outcome.ok() ? differ : wrong);
        explain(batch, load, i, outcome.scan.ok() ? static_cast<int>(outcome.fault) : -1, output, expected);
      },
      4);
  totals.checked += chosen.size();
  totals.wrong += wrong;
  totals.differ += differ;
}

// All frames are good: their contents are known.
void check_by_contents(Batch& batch, const Load& load, Totals& totals) {
  const std::size_t wrong = batch.count_wrong(load.contents), refused = batch.count() - batch.accepted();
  totals.wrong += wrong;
  totals.differ += refused;
  totals.checked += batch.count();
  if (wrong + refused == 0) return;
  const Bytes output = batch.all_output();
  for (std::size_t i = 0; i < batch.count(); ++i) {
    const Bytes& expected = *load.contents[i];
    const bool accepted = batch.scanned(i) && batch.status(i) == 0;
    if (!accepted || std::memcmp(output.data() + batch.frames()[i].dst_offset, expected.data(), expected.size()) != 0)
      explain(batch, load, i, 0, output, expected);
  }
}

void check_batch(const HostileOptions& options, std::uint64_t seed, Batch& batch, const Load& load, Crew& crew,
                 Totals& totals) {
  batch.fetch_status();
  totals.frames += batch.count();
  totals.escaped += batch.count_escaped();
  for (std::size_t i = 0; i < batch.count(); ++i) {
    if (!batch.scanned(i))
      ++totals.scan_refused;
    else
      ++(batch.status(i) == 0 ? totals.accepted : totals.refused);
  }
  Random random(seed);
  if (options.mutate)
    check_by_reference(batch, load, options.checked_share, random, crew, totals);
  else
    check_by_contents(batch, load, totals);
}

void run_batch(const HostileOptions& options, std::uint64_t seed, const Pool& pool, Crew& crew, Totals& totals) {
  const Load load = make_load(options, seed, pool, crew);
  Batch batch(load.items, 64, crew);
  batch.scan();
  batch.upload_image();
  ++totals.batches;
  if (!options.all_shapes) {
    batch.poison();
    batch.decode();
    batch.wait();
    return check_batch(options, seed, batch, load, crew, totals);
  }
  for (unsigned choice = 0; choice < kShapeChoices; ++choice) {
    const bool clean = totals.clean();
    batch.poison();
    decode_in_shape(batch, choice);
    check_batch(options, seed + choice, batch, load, crew, totals);
    if (clean && !totals.clean()) std::printf("{\"bad_shape\": \"%s\"}\n", shape_choice(choice).c_str());
  }
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
