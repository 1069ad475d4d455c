// Statistics of the stages while they run. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>

#include "damacy/core/mutex.h"
#include "damacy/fetch/chunk_reuse.h"
#include "damacy/fetch/stats.h"

namespace damacy {

class StatsBoard {
 public:
  using Span = std::chrono::nanoseconds;

  void record(Metric Stats::* metric, Span time, double input_bytes, double output_bytes) {
    const Lock lock(mutex_);
    Metric& m = stats_.*metric;
    const double ms = std::chrono::duration<double, std::milli>(time).count();
    m.ms += ms;
    m.best_ms = ms < m.best_ms ? ms : m.best_ms;
    m.input_bytes += input_bytes;
    m.output_bytes += output_bytes;
    ++m.count;
  }
  void add(std::int64_t Stats::* counter, std::int64_t amount) {
    if (amount == 0) return;
    const Lock lock(mutex_);
    stats_.*counter += amount;
  }
  Stats read() const {
    const Lock lock(mutex_);
    return stats_;
  }
  // `add` gets the ChunkReuse, and adds the chunks that a batch wants.
  template <class Add>
  void add_chunks(Add add) {
    const Lock lock(reuse_mutex_);
    add(reuse_);
  }
  ChunkReuse::Seen chunks_seen() const {
    const Lock lock(reuse_mutex_);
    return reuse_.seen();
  }
  // Since the start, or the last reset.
  Span observed() const {
    const Lock lock(mutex_);
    return std::chrono::steady_clock::now() - since_;
  }
  void reset() {
    add_chunks([](ChunkReuse& reuse) { reuse.reset(); });
    const Lock lock(mutex_);
    stats_ = Stats{};
    since_ = std::chrono::steady_clock::now();
  }

 private:
  mutable Mutex reuse_mutex_;
  ChunkReuse reuse_ DAMACY_GUARDED_BY(reuse_mutex_);
  mutable Mutex mutex_;
  Stats stats_ DAMACY_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point since_ DAMACY_GUARDED_BY(mutex_) = std::chrono::steady_clock::now();
};

class Stopwatch {
 public:
  StatsBoard::Span elapsed() const noexcept { return std::chrono::steady_clock::now() - start_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace damacy
