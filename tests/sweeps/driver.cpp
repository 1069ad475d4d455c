#include "sweeps/driver.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "damacy/core/formatted.h"
#include "damacy/pipeline/environment.h"
#include "sweeps/failing_new.h"
#include "sweeps/stored_arrays.h"

namespace damacy::testing {
namespace {

constexpr int kPopsAtMost = 400;
constexpr std::byte kPoison{0xa5};

bool equals(const std::vector<std::uint16_t>& values, const Sample& sample) {
  for (std::int64_t i = 0; i < kBoxRows; ++i)
    for (std::int64_t j = 0; j < kBoxColumns; ++j)
      if (values[static_cast<std::size_t>(i * kBoxColumns + j)] !=
          (sample.aabb[0].start + i) * kColumns + sample.aabb[1].start + j)
        return false;
  return true;
}

}  // namespace

Driver::Driver(const World& world, Config config, Outcome& outcome) : outcome_(outcome), config_(std::move(config)) {
  PipelineEnvironment around;
  {
    const Spared spared;
    around.alloc = world.alloc;
    around.device = world.device;
    around.device_from_bytes = 0;
    around.make_store = [store = world.store](const std::string& path) {
      const Spared inner;
      return store_below(store, path);
    };
  }
  try {
    pipeline_.emplace(config_, std::move(around));
  } catch (const Error& error) {
    const Spared spared;
    record(error);
  }
}

Driver::~Driver() {
  const auto start = std::chrono::steady_clock::now();
  if (pipeline_) pipeline_->close();
  const Spared spared;
  if (std::chrono::steady_clock::now() - start > std::chrono::seconds(5)) wrong("close took longer than 5 s");
}

template <class Call>
void Driver::attempt(Call call) {
  try {
    call();
  } catch (const Error& error) {
    const Spared spared;
    record(error);
  } catch (const std::exception& error) {
    const Spared spared;
    wrong(formatted("not one of our errors: {}", std::string_view(error.what())));
  }
}

void Driver::push(std::int64_t count, std::string_view array) {
  if (!alive()) return;
  std::vector<Sample> samples;
  {
    const Spared spared;
    for (std::int64_t i = 0; i < count; ++i) {
      samples.push_back(sample_at(static_cast<std::int64_t>(pushed_.size()), array));
      pushed_.push_back(samples.back());
    }
  }
  attempt([&] { pipeline_->push(std::move(samples)); });
}

void Driver::flush() {
  if (alive()) attempt([&] { pipeline_->flush(); });
}

bool Driver::pop(bool hold) {
  if (!alive()) return false;
  if (++pops_ > kPopsAtMost) {
    wrong("pop never ends");
    return false;
  }
  bool more = true;
  attempt([&] {
    try {
      Batch batch = pipeline_->pop(std::chrono::seconds(20));
      const Spared spared;
      check(batch);
      if (hold) held_.push_back(std::move(batch));
    } catch (const Error& error) {
      const Spared spared;
      if (error.kind() == ErrorKind::pop_timeout) wrong("a pop hangs");
      if (error.status() != Status::again) throw;
      more = false;
    }
  });
  return more;
}

void Driver::drain() {
  while (pop() && outcome_.wrong.empty()) {
  }
}

void Driver::release_held() {
  const Spared spared;
  for (const Batch& batch : held_)  // as check() left it
    if (std::ranges::any_of(batch.bytes(), [](std::byte byte) { return byte != kPoison; }))
      wrong(formatted("batch {} was written while it was held", batch.batch_id()));
  held_.clear();
}

void Driver::expect_complete() {
  if (!alive()) return;
  flush();  // once more: one that failed may be tried again
  flush();
  drain();
  const Spared spared;
  seen_ += pipeline_->stats().samples_skipped;
  if (!outcome_.refused && seen_ != static_cast<std::int64_t>(pushed_.size()))
    wrong(formatted("{} of {} samples came out, and no call failed", seen_, pushed_.size()));
  if (config_.on_error != OnError::skip && seen_ != next_index_)
    wrong(formatted("stream indices go to {}, {}  samples were reported", next_index_, seen_));
}

void Driver::wrong(std::string what) {
  if (outcome_.wrong.empty()) outcome_.wrong = std::move(what);
}

void Driver::record(const Error& error) {
  if (!error.where().lost.empty()) {
    seen_ += static_cast<std::int64_t>(error.where().lost.size());
    for (const auto index : error.where().lost) step_to(index);
  } else {
    outcome_.refused = true;
  }
  if (error.message().starts_with("internal")) wrong(error.what());
}

void Driver::step_to(std::int64_t index) {
  if (index < next_index_) wrong(formatted("stream index {} twice or late", index));
  next_index_ = index + 1;
}

void Driver::check(const Batch& batch) {
  if (batch.batch_id() <= last_id_) wrong("batch ids do not ascend");
  last_id_ = batch.batch_id();
  const auto bytes = batch.bytes();
  for (std::size_t row = 0; row < batch.sample_indices().size(); ++row) {
    step_to(batch.sample_indices()[row]);
    ++seen_;
    check_row(bytes.subspan(row * kBoxRows * kBoxColumns * 2, kBoxRows * kBoxColumns * 2), batch.valid()[row]);
  }
  outcome_.delivered += static_cast<std::int64_t>(batch.sample_indices().size());
  // For the next use of the slot.
  std::memset(const_cast<std::byte*>(bytes.data()), static_cast<int>(kPoison), bytes.size());
}

// Rows come in the order of pushes; some may be left out.
void Driver::check_row(std::span<const std::byte> row, bool valid) {
  std::vector<std::uint16_t> values(kBoxRows * kBoxColumns);
  std::memcpy(values.data(), row.data(), row.size());
  if (!valid) {
    const auto is_all = [&](std::uint16_t wanted) {
      return std::all_of(values.begin(), values.end(), [=](auto value) { return value == wanted; });
    };
    if (!is_all(kFill) && !is_all(0)) wrong("a filled row is not fill");  // zeros of arrays that could not be opened
    return;
  }
  for (; next_pushed_ < pushed_.size(); ++next_pushed_)
    if (equals(values, pushed_[next_pushed_])) {
      ++next_pushed_;
      return;
    }
  wrong(formatted("a row with other bytes than any sample that was to come; its first is {}", values[0]));
}

}  // namespace damacy::testing
