// Adds counts that are not zero: of one file, until another one's follow.
#include "damacy/fileio/detail/count_batch.h"

#include <utility>

namespace damacy::detail {

CountBatch::CountBatch() noexcept : before_(std::exchange(current(), this)) {}

CountBatch::~CountBatch() {
  add();
  current() = before_;
}

CountBatch*& CountBatch::current() noexcept {
  thread_local CountBatch* batch = nullptr;
  return batch;
}

void CountBatch::read(File& file, IoWay way, const Moved& moved) noexcept {
  of(file);
  Moved& all = counts_.reads[static_cast<std::size_t>(way)];
  all.bytes += moved.bytes;
  all.calls += moved.calls;
  all.retries += moved.retries;
}

void CountBatch::part_took(File& file, std::uint64_t microseconds) noexcept {
  of(file);
  ++counts_.parts;
  ++counts_.part_us_log2[IoCounters::place_of_time(microseconds)];
}

void CountBatch::of(File& file) noexcept {
  if (file_ == &file) return;
  add();
  file_ = &file;
}

void CountBatch::add() noexcept {
  if (file_ == nullptr) return;
  for (IoCounters* counters : {&file_->counters(), &process_counters()}) {
    const auto add = [](IoCounters::Count& count, std::uint64_t n) {
      if (n > 0) IoCounters::add(count, n);
    };
    for (std::size_t way = 0; way < kIoWays; ++way) {
      add(counters->traffic[way][0].bytes, counts_.reads[way].bytes);
      add(counters->traffic[way][0].calls, counts_.reads[way].calls);
      add(counters->retries, counts_.reads[way].retries);
    }
    add(counters->parts, counts_.parts);
    for (std::size_t i = 0; i < counts_.part_us_log2.size(); ++i)
      add(counters->part_us_log2[i], counts_.part_us_log2[i]);
  }
  counts_ = {};
}

}  // namespace damacy::detail
