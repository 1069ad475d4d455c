#include "hostile.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <random>
#include <span>
#include <thread>

#include "hostile_frames.h"
#include "ledger.h"
#include "stage_times.h"
#include "support/reference_decoder.h"

namespace damacy::bench {
namespace {

using Random = std::mt19937_64;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const char* name_of(Subject subject) {
  switch (subject) {
    case Subject::zstd:
      return "zstd";
    case Subject::lz4:
      return "lz4";
    case Subject::blosc:
      return "blosc";
    case Subject::mixed:
      break;
  }
  return "mixed";
}

struct Totals {
  std::uint64_t batches = 0, frames = 0, scan_refused = 0, accepted = 0, refused = 0, checked = 0;
  std::uint64_t wrong = 0, differ = 0, escaped = 0;
  [[nodiscard]] std::uint64_t findings() const { return wrong + differ + escaped; }

  void add(const Totals& more) {
    batches += more.batches;
    frames += more.frames;
    scan_refused += more.scan_refused;
    accepted += more.accepted;
    refused += more.refused;
    checked += more.checked;
    wrong += more.wrong;
    differ += more.differ;
    escaped += more.escaped;
  }
};

void report(const Totals& totals, const HostileOptions& options, double seconds, const Ledger::Entry& all) {
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "{\"hostile\": \"%s\", \"subject\": \"%s\", \"largest\": %zu, \"seed\": %llu, \"seconds\": %.1f, "
      "\"batches\": %llu, \"frames\": %llu, \"frames_per_s\": %.0f, \"refused_by_scan\": %llu, \"accepted\": %llu, "
      "\"refused\": %llu, \"checked\": %llu, \"wrong_bytes\": %llu, \"verdicts_differ\": %llu, \"escaped_bytes\": "
      "%llu, "
      "\"frames_of_all_runs\": %llu, \"on_device_of_all_runs\": %llu, \"good\": %s}\n",
      options.mutate ? "mutated" : "generated", name_of(options.subject), options.largest, number(options.seed),
      seconds, number(totals.batches), number(totals.frames), static_cast<double>(totals.frames) / seconds,
      number(totals.scan_refused), number(totals.accepted), number(totals.refused), number(totals.checked),
      number(totals.wrong), number(totals.differ), number(totals.escaped), number(all.frames), number(all.on_device),
      totals.findings() == 0 ? "true" : "false");
  std::fflush(stdout);
}

// Prints details of the first few wrong frames.
void explain(const Batch& batch, const Load& load, std::size_t i, int reference, std::span<const std::byte> output,
             std::span<const std::byte> expected) {
  static std::atomic<int> reported = 0;
  if (++reported > 12) return;
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
      i, static_cast<int>(load.items()[i].codec), load.items()[i].encoded.size(), expected.size(),
      batch.scanned(i) ? static_cast<int>(batch.status(i)) : -1, reference, differing, first,
      static_cast<int>(got.empty() ? std::byte{0} : got[first]),
      static_cast<int>(expected.empty() ? std::byte{0} : expected[first]));
}

// Compares statuses and bytes of a share of the frames with the reference decoder.
void check_by_reference(Batch& batch, const Load& load, double share, Random& random, Crew& crew, Totals& totals) {
  const std::span<const std::byte> output = batch.all_output();
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < load.items().size(); ++i)
    if (static_cast<double>(random() >> 11) * 0x1p-53 < share) chosen.push_back(i);
  std::atomic<std::uint64_t> wrong = 0, differ = 0;
  std::vector<gpu::ReferenceDecoder> decoders(crew.size());
  crew.each(
      chosen.size(),
      [&](std::size_t k, std::size_t worker) {
        const std::size_t i = chosen[k];
        const Item& item = load.items()[i];
        Bytes expected(item.size);
        const auto outcome = decoders[worker].decode(item.encoded, item.codec, expected);
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

// All frames are valid, and their contents are known.
void check_by_contents(Batch& batch, const Load& load, Totals& totals) {
  const std::size_t wrong = batch.count_wrong(load.contents()), refused = batch.count() - batch.accepted();
  totals.wrong += wrong;
  totals.differ += refused;
  totals.checked += batch.count();
  if (wrong + refused == 0) return;
  const std::span<const std::byte> output = batch.all_output();
  for (std::size_t i = 0; i < batch.count(); ++i) {
    const Bytes& expected = *load.contents()[i];
    const bool accepted = batch.scanned(i) && batch.status(i) == 0;
    if (!accepted || std::memcmp(output.data() + batch.frames()[i].dst_offset, expected.data(), expected.size()) != 0)
      explain(batch, load, i, 0, output, expected);
  }
}

// Runs one batch after the other, in memory of its own.
class Lane {
 public:
  Lane(const HostileOptions& options, const Pool& pool, std::size_t threads)
      : options_(options), pool_(pool), crew_(threads), batch_(64, crew_) {}

  Totals run(std::uint64_t seed) {
    Totals totals;
    load_.make(options_, seed, pool_, crew_);
    batch_.load(load_.items());
    batch_.scan();
    batch_.upload_image();
    totals.batches = 1;
    totals.frames = options_.frames;
    totals.scan_refused = load_.refused();
    for (unsigned choice = 0; choice < (options_.all_shapes ? kShapeChoices : 1); ++choice) {
      const std::uint64_t before = totals.findings();
      batch_.poison();
      if (options_.all_shapes) {
        decode_in_shape(batch_, choice);
      } else {
        batch_.decode();
        batch_.wait();
      }
      check(seed + choice, totals);
      if (before == 0 && totals.findings() != 0 && options_.all_shapes)
        std::printf("{\"bad_shape\": \"%s\"}\n", shape_choice(choice).c_str());
    }
    if (options_.all_shapes) totals.frames *= kShapeChoices;
    return totals;
  }

 private:
  void check(std::uint64_t seed, Totals& totals) {
    batch_.fetch_status();
    totals.escaped += batch_.count_escaped();
    for (std::size_t i = 0; i < batch_.count(); ++i) {
      if (!batch_.scanned(i))
        ++totals.scan_refused;
      else
        ++(batch_.status(i) == 0 ? totals.accepted : totals.refused);
    }
    Random random(seed);
    if (options_.mutate)
      check_by_reference(batch_, load_, options_.checked_share, random, crew_, totals);
    else
      check_by_contents(batch_, load_, totals);
  }

  const HostileOptions& options_;
  const Pool& pool_;
  Crew crew_;
  Load load_;
  Batch batch_;
};

// Runs several lanes until the time is over, and sums up their totals.
class Run {
 public:
  static constexpr std::uint64_t kBatchesOfPool = 100;  // then lanes allocate new memory, which takes a second

  explicit Run(const HostileOptions& options)
      : options_(options), ledger_(options.ledger), before_(ledger_.of(name())), next_batch_(before_.batches) {}

  bool go() {
    do {
      const std::uint64_t seed = options_.seed + next_batch_;  // other samples each time
      Crew crew(options_.threads);
      const std::size_t samples = options_.mutate ? std::min<std::size_t>(options_.frames, 20000) : options_.frames;
      const Pool pool(samples, options_, seed, crew);
      end_of_pool_ = next_batch_ + kBatchesOfPool;
      run_lanes(pool);
    } while (!over());
    print_progress();
    return totals_.findings() == 0;
  }

 private:
  std::string name() const {
    return std::string(options_.mutate ? "mutated-" : "generated-") + name_of(options_.subject);
  }
  bool over() const {
    const std::uint64_t on_device = before_.on_device + totals_.accepted + totals_.refused;
    return now() - begin_ >= options_.seconds || totals_.findings() != 0 ||
           (options_.until != 0 && on_device >= options_.until);
  }

  // Generated frames are the pool: one batch of each.
  void run_lanes(const Pool& pool) {
    const std::size_t count = options_.mutate && options_.seconds > 0 ? std::max<std::size_t>(options_.lanes, 1) : 1;
    const std::size_t threads = std::max<std::size_t>(1, options_.threads / count);
    std::vector<std::jthread> lanes;
    for (std::size_t i = 0; i < count; ++i) lanes.emplace_back([&] { run_lane(pool, threads); });
  }

  void run_lane(const Pool& pool, std::size_t threads) {
    bench::check(cudaSetDevice(0), "device");
    bench::check(cudaFree(nullptr), "context");  // current on this thread too
    Lane lane(options_, pool, threads);
    for (;;) {
      const Totals more = lane.run(options_.seed * 1000003 + next_batch_++);
      const std::lock_guard lock(mutex_);
      totals_.add(more);
      if (now() - reported_ > 20) print_progress();
      if (!options_.mutate || over() || next_batch_ >= end_of_pool_) return;
    }
  }

  void print_progress() {
    reported_ = now();
    Ledger::Entry& all = ledger_.of(name());
    all.frames = before_.frames + totals_.frames;
    all.on_device = before_.on_device + totals_.accepted + totals_.refused;
    all.checked = before_.checked + totals_.checked;
    all.batches = before_.batches + totals_.batches;
    all.findings = before_.findings + totals_.findings();
    ledger_.save();
    report(totals_, options_, reported_ - begin_, all);
  }

  const HostileOptions& options_;
  Ledger ledger_;
  const Ledger::Entry before_;
  const double begin_ = now();
  std::atomic<std::uint64_t> next_batch_;
  std::uint64_t end_of_pool_ = 0;
  std::mutex mutex_;  // guards the members below
  double reported_ = now();
  Totals totals_;
};

}  // namespace

bool run_hostile(const HostileOptions& options) {
  return Run(options).go();
}

}  // namespace damacy::bench
