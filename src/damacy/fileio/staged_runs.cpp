// Runs of files through a block: a slot is filled while the one before it is copied.
#include <algorithm>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/fileio/detail/slices.h"
#include "damacy/fileio/detail/staged_group.h"
#include "damacy/fileio/operation.h"
#include "damacy/fileio/staging.h"

namespace damacy {
namespace detail {
namespace {

void count_copies(File& file, std::uint64_t copies, std::uint64_t waits) {
  for (IoCounters* counters : {&file.counters(), &process_counters()}) {
    IoCounters::add(counters->copies, copies);
    IoCounters::add(counters->copy_batches, copies > 0 ? 1 : 0);
    IoCounters::add(counters->host_waits, waits);
  }
}

// Copies between a slot and the memory that wants its bytes.
struct Copy {
  std::byte* device;
  std::byte* host;
  std::size_t size;
};

// One copy with the last one, if they touch on both sides.
void add_copy(std::vector<Copy>& copies, const Copy& copy) {
  if (!copies.empty()) {
    Copy& last = copies.back();
    if (last.device + last.size == copy.device && last.host + last.size == copy.host) {
      last.size += copy.size;
      return;
    }
  }
  copies.push_back(copy);
}

// Bytes [begin, begin + size) of a run, which lie at `host`: the parts of them that have a place on the device.
void add_copies(std::vector<Copy>& copies, const DeviceRun& run, std::uint64_t begin, std::uint64_t size,
                std::byte* host) {
  std::uint64_t at = 0;
  for (const Slice& slice : run.slices) {
    const std::uint64_t from = std::max(at, begin);
    const std::uint64_t to = std::min(at + slice.size, begin + size);
    if (slice.data != nullptr && from < to)
      add_copy(copies, {slice.data + (from - at), host + (from - begin), static_cast<std::size_t>(to - from)});
    at += slice.size;
    if (at >= begin + size) return;
  }
}

std::uint64_t size_of(const DeviceRun& run) {
  std::uint64_t size = 0;
  for (const Slice& slice : run.slices) size += slice.size;
  return size;
}

}  // namespace

// One thread's use of a block: fill a slot, enqueue its copies, continue with the next slot.
class Staged {
 public:
  Staged(File& file, Way way, const std::shared_ptr<Device>& device)
      : file_(file), way_(way), block_(StagingPool::process().take(device)) {}
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;
  ~Staged() {
    if (copying_) tell_after_failure();
    if (has_copied_) report();
  }

  bool serves(const File& file, const Device& device) const noexcept {
    return &file == &file_ && &device == block_->device().get();
  }
  // The runs that follow are of this operation; their copies come after `on.before`.
  void begin(const OnDevice& on, Operation& operation) {
    operations_.push_back(&operation);
    if (on.before.state() == nullptr || on.before.state() == before_.state()) return;
    const bool is_after_last = on.on_legacy_by != std::thread::id() && on.on_legacy_by == before_by_;
    if (is_after_last && !awaited_.empty()) awaited_.pop_back();
    awaited_.push_back(on.before);
    before_ = on.before;
    before_by_ = on.on_legacy_by;
  }
  void fail(const std::exception_ptr& error) noexcept {
    for (Operation* operation : operations_) operation->failed(0, error);
  }

  // Whether the slot has all bytes of the run, which were read with those before it.
  bool has_read(const DeviceRun& run) const noexcept {
    return run.offset == ahead_.offset && size_of(run) <= ahead_.bytes.size();
  }
  RunResult take_read(const DeviceRun& run) {
    const std::uint64_t size = size_of(run);
    add_copies(copies_, run, 0, size, ahead_.bytes.data());
    ahead_ = {ahead_.offset + size, ahead_.bytes.subspan(size)};
    return {.bytes = size, .error = 0, .way = IoWay::staging};
  }
  // `behind`: so many bytes behind the run are read with it, as far as there is room and they can be read.
  RunResult read(const DeviceRun& run, std::uint64_t behind = 0) {
    const std::uint64_t size = size_of(run);
    RunResult all{.bytes = 0, .error = 0, .way = IoWay::staging};
    while (all.bytes < size && all.error == 0) {
      make_room();
      const std::uint64_t room = slot_->bytes().size() - used_;
      const std::uint64_t some = std::min(size - all.bytes, room);
      std::byte* host = slot_->bytes().data() + used_;
      const Slice slice{host, std::min(size - all.bytes + behind, room), nullptr};
      const RunResult moved = move_host(file_, way_, run.offset + all.bytes, {&slice, 1}, IoWay::staging);
      const std::uint64_t own = std::min(moved.bytes, some);
      add_copies(copies_, run, all.bytes, own, host);
      used_ += static_cast<std::size_t>(moved.bytes);
      all.bytes += own;
      ahead_ = {run.offset + all.bytes, {host + own, moved.bytes - own}};
      if (own < some) {  // an error behind the run is that of the read it belongs to
        all.error = moved.error;
        break;
      }
    }
    return all;
  }

  // The bytes of the slot after this one are on their way while this one's are written.
  RunResult write(const DeviceRun& run) {
    const std::uint64_t size = size_of(run);
    RunResult all{.bytes = 0, .error = 0, .way = IoWay::staging};
    struct Filled {
      FencedMemory* slot = nullptr;
      std::uint64_t size = 0;
    };
    std::uint64_t fetched = 0;
    const auto fetch = [&]() -> Filled {
      if (fetched == size) return {};
      take_slot();
      const std::uint64_t some = std::min<std::uint64_t>(size - fetched, slot_->bytes().size());
      add_copies(copies_, run, fetched, some, slot_->bytes().data());
      const Filled filled{slot_, some};
      flush();
      fetched += some;
      return filled;
    };
    for (Filled now = fetch(); now.slot != nullptr;) {
      const Filled next = block_->slots() > 1 ? fetch() : Filled{};
      now.slot->ready().wait();
      count_copies(file_, 0, 1);
      const Slice slice{now.slot->bytes().data(), now.size, nullptr};
      const RunResult moved = move_host(file_, way_, run.offset + all.bytes, {&slice, 1}, IoWay::staging);
      all.bytes += moved.bytes;
      all.error = moved.error;
      if (moved.error != 0 || moved.bytes < now.size) break;
      now = next.slot != nullptr ? next : fetch();
    }
    return all;
  }

  void flush() {
    if (copies_.empty()) return;
    Stream& stream = block_->stream();
    stream.together([&] {
      for (const Event& before : awaited_) stream.wait(before);
      awaited_.clear();
      copying_ = true;
      enqueue(stream);
      count_copies(file_, copies_.size(), 0);
      copies_.clear();
      last_ = stream.record();
    });
    slot_->reusable_after(last_);
    copying_ = false;
    has_copied_ = true;
    slot_ = nullptr;
  }

 private:
  void enqueue(Stream& stream) {
    std::vector<MemoryCopy> all;
    for (const Copy& copy : copies_) {
      const std::span device(copy.device, copy.size);
      const std::span host(copy.host, copy.size);
      all.push_back(way_ == Way::read ? MemoryCopy{device, host} : MemoryCopy{host, device});
    }
    if (all.size() > 1 && stream.copy_many(all)) return;
    for (const MemoryCopy& copy : all) stream.copy(copy.to, copy.from);
  }

  void report() {
    for (Operation* operation : operations_) operation->copies_until(last_);
  }

  // Some copies of a batch were enqueued: waits for the operation include them.
  void tell_after_failure() noexcept {
    block_->spoil();
    try {
      last_ = block_->stream().record();
      has_copied_ = true;
    } catch (const Error&) {  // their end is unknown; freeing the block waits for them
    }
  }

  void make_room() {
    if (slot_ != nullptr && used_ < slot_->bytes().size()) return;
    flush();
    take_slot();
  }

  void take_slot() {
    slot_ = &block_->next();
    used_ = 0;
    if (slot_->ready().ready()) return;
    slot_->ready().wait();
    count_copies(file_, 0, 1);
  }

  File& file_;
  const Way way_;
  StagingPool::Lease block_;
  Event before_;
  std::thread::id before_by_;
  std::vector<Event> awaited_;  // the next copies come after them
  std::vector<Operation*> operations_;
  FencedMemory* slot_ = nullptr;
  std::size_t used_ = 0;
  struct Ahead {
    std::uint64_t offset = 0;  // of the file
    std::span<std::byte> bytes;
  };
  Ahead ahead_;  // in the slot; of no run yet
  std::vector<Copy> copies_;
  Event last_;
  bool copying_ = false;  // a batch is begun, and has no event yet
  bool has_copied_ = false;
};

namespace {

OnDevice* device_of(std::span<const DeviceRun> runs) {
  for (const DeviceRun& run : runs)
    for (const Slice& slice : run.slices)
      if (slice.device != nullptr) return slice.device;
  return nullptr;
}

}  // namespace

StagedGroup::StagedGroup(std::span<const IoJob::Stretch> expected) noexcept
    : expected_(expected), before_(std::exchange(current(), this)) {}

StagedGroup::~StagedGroup() {
  finish();
  current() = before_;
}

StagedGroup*& StagedGroup::current() noexcept {
  thread_local StagedGroup* group = nullptr;
  return group;
}

void StagedGroup::pass(const IoJob::Stretch& read) noexcept {
  const auto is_read = [&](const IoJob::Stretch& one) { return one.file == read.file && one.offset == read.offset; };
  const auto at = std::ranges::find_if(expected_, is_read);
  if (at != expected_.end()) expected_ = {at + 1, expected_.end()};
}

std::uint64_t StagedGroup::bytes_behind(const IoJob::Stretch& read) const noexcept {
  std::uint64_t bytes = 0;
  for (const IoJob::Stretch& next : expected_) {
    const bool follows = next.file == read.file && next.offset == read.offset + read.size + bytes;
    // A larger one may go by cuFile.
    if (!follows || next.device != read.device || next.size > read.size) break;
    bytes += next.size;
  }
  return bytes;
}

std::optional<RunResult> StagedGroup::read(File& file, const DeviceRun& run, const OnDevice& device,
                                           Operation& operation) {
  if (size_of(run) > kMostBytes) return std::nullopt;
  if (staged_ != nullptr && !staged_->serves(file, *device.device)) finish();
  if (staged_ == nullptr) staged_ = std::make_unique<Staged>(file, Way::read, device.device);
  try {
    staged_->begin(device, operation);
    const IoJob::Stretch wanted{&file, device.device.get(), run.offset, size_of(run)};
    pass(wanted);
    return staged_->has_read(run) ? staged_->take_read(run) : staged_->read(run, bytes_behind(wanted));
  } catch (...) {  // copies of the others may not have been enqueued
    staged_->fail(std::current_exception());
    staged_.reset();
    throw;
  }
}

void StagedGroup::finish() noexcept {
  if (staged_ == nullptr) return;
  try {
    staged_->flush();
  } catch (...) {
    staged_->fail(std::current_exception());
  }
  staged_.reset();
}

void move_staged(File& file, Way way, std::span<DeviceRun> runs, Operation& operation) {
  OnDevice* device = device_of(runs);
  if (device == nullptr) return;
  if (StagedGroup* const group = StagedGroup::current(); group != nullptr && way == Way::read && runs.size() == 1) {
    if (const auto moved = group->read(file, runs[0], *device, operation)) {
      runs[0].result = *moved;
      return;
    }
  }
  Staged staged(file, way, device->device);
  staged.begin(*device, operation);
  for (DeviceRun& run : runs) {
    run.result = way == Way::read ? staged.read(run) : staged.write(run);
    if (run.result.error != 0) break;
  }
  if (way == Way::read) staged.flush();
}

}  // namespace detail
}  // namespace damacy
