// Blocks come and go; bytes go through their slots while the slots before are still being copied.
#include "damacy/fileio/staging.h"

#include <algorithm>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/mutex.h"
#include "damacy/fileio/detail/slices.h"
#include "damacy/fileio/io_settings.h"
#include "damacy/fileio/operation.h"

namespace damacy {
namespace {

constexpr std::size_t kFirstBlock = 1 << 20;

std::size_t slots_in(std::size_t bytes) noexcept {
  return std::clamp<std::size_t>(bytes / StagingBlock::kLeastSlot, 1, StagingBlock::kSlots);
}

}  // namespace

StagingBlock::StagingBlock(std::shared_ptr<Device> device, std::size_t bytes)
    : device_(std::move(device)), memory_(device_->pinned_memory(), bytes), stream_(device_->make_stream()) {
  const std::size_t count = slots_in(bytes);
  const std::size_t each = count == 1 ? bytes : bytes / count / Alloc::kAlignment * Alloc::kAlignment;
  for (std::size_t i = 0; i < count; ++i) slots_.emplace_back(memory_.bytes().subspan(i * each, each));
  process_counters().pinned_bytes += bytes;
}

StagingBlock::~StagingBlock() {
  process_counters().pinned_bytes -= size();
}

StagingPool& StagingPool::process() {
  return one_per_process<StagingPool>();
}

std::unique_ptr<StagingBlock> StagingPool::take_idle(const Device& device, std::size_t bytes) {
  for (auto at = idle_.begin(); at != idle_.end(); ++at) {
    if ((*at)->device().get() != &device || (*at)->size() != bytes) continue;
    auto block = std::move(*at);
    idle_.erase(at);
    return block;
  }
  return nullptr;
}

void StagingPool::retire(std::list<std::unique_ptr<StagingBlock>>& into, std::size_t other_than) {
  for (auto at = idle_.begin(); at != idle_.end();) {
    const auto next = std::next(at);
    if ((*at)->size() != other_than) {
      pinned_ -= (*at)->size();
      into.splice(into.end(), idle_, at);
    }
    at = next;
  }
}

StagingPool::Lease StagingPool::take(const std::shared_ptr<Device>& device) {
  device->check_usable();
  std::list<std::unique_ptr<StagingBlock>> retired;  // freed outside the lock
  Lock lock(mutex_);
  std::size_t bytes = io_settings().bounce_buffer_size;
  // The process's first block is small, so that its first byte comes soon.
  if (!std::exchange(had_first_, true)) bytes = std::min(bytes, kFirstBlock);
  const std::uint64_t limit = io_settings().pinned_limit;
  for (;;) {
    if (auto block = take_idle(*device, bytes)) return {this, std::move(block)};
    if (pinned_ > 0) retire(retired, pinned_ + bytes > limit ? 0 : bytes);
    if (pinned_ == 0 || pinned_ + bytes <= limit) break;
    changed_.wait(lock);
  }
  pinned_ += bytes;
  lock.unlock();
  retired.clear();
  try {
    return {this, std::make_unique<StagingBlock>(device, bytes)};
  } catch (...) {
    lock.lock();
    pinned_ -= bytes;
    changed_.notify_all();
    throw;
  }
}

void StagingPool::give(std::unique_ptr<StagingBlock> block) noexcept {
  const Lock lock(mutex_);
  if (block->spoilt())
    pinned_ -= block->size();
  else
    idle_.push_front(std::move(block));
  changed_.notify_all();
}

std::uint64_t StagingPool::free_idle() {
  std::list<std::unique_ptr<StagingBlock>> freed;
  std::uint64_t bytes = 0;
  {
    const Lock lock(mutex_);
    const std::uint64_t before = pinned_;
    retire(freed, 0);
    bytes = before - pinned_;
    changed_.notify_all();
  }
  return bytes;
}

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

// One thread's use of a block: fill a slot, enqueue its copy, continue with the next slot.
class Staged {
 public:
  Staged(File& file, Way way, OnDevice& device, Operation& operation)
      : file_(file), way_(way), operation_(operation), block_(StagingPool::process().take(device.device)) {
    block_->stream().wait(device.before);
  }
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;
  ~Staged() {
    if (copying_) tell_after_failure();
    if (has_copied_) operation_.copies_until(last_);
  }

  RunResult read(const DeviceRun& run) {
    const std::uint64_t size = size_of(run);
    RunResult all{.bytes = 0, .error = 0, .way = IoWay::staging};
    while (all.bytes < size && all.error == 0) {
      make_room();
      const std::uint64_t some = std::min<std::uint64_t>(size - all.bytes, slot_->bytes().size() - used_);
      std::byte* host = slot_->bytes().data() + used_;
      const Slice slice{host, some, nullptr};
      const RunResult moved = move_host(file_, way_, run.offset + all.bytes, {&slice, 1}, IoWay::staging);
      add_copies(copies_, run, all.bytes, moved.bytes, host);
      used_ += static_cast<std::size_t>(moved.bytes);
      all.bytes += moved.bytes;
      all.error = moved.error;
      if (moved.bytes < some) break;
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
    copying_ = true;
    for (const Copy& copy : copies_) {
      const std::span device(copy.device, copy.size);
      const std::span host(copy.host, copy.size);
      if (way_ == Way::read)
        stream.copy(device, host);
      else
        stream.copy(host, device);
    }
    count_copies(file_, copies_.size(), 0);
    copies_.clear();
    last_ = stream.record();
    slot_->reusable_after(last_);
    copying_ = false;
    has_copied_ = true;
    slot_ = nullptr;
  }

 private:
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
  Operation& operation_;
  StagingPool::Lease block_;
  FencedMemory* slot_ = nullptr;
  std::size_t used_ = 0;
  std::vector<Copy> copies_;
  Event last_;
  bool copying_ = false;  // a batch is begun, and has no event yet
  bool has_copied_ = false;
};

OnDevice* device_of(std::span<const DeviceRun> runs) {
  for (const DeviceRun& run : runs)
    for (const Slice& slice : run.slices)
      if (slice.device != nullptr) return slice.device;
  return nullptr;
}

}  // namespace

std::vector<RunResult> move_staged(File& file, Way way, std::span<const DeviceRun> runs, Operation& operation) {
  std::vector<RunResult> results(runs.size());
  OnDevice* device = device_of(runs);
  if (device == nullptr) return results;
  Staged staged(file, way, *device, operation);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    results[i] = way == Way::read ? staged.read(runs[i]) : staged.write(runs[i]);
    if (results[i].error != 0) break;
  }
  if (way == Way::read) staged.flush();
  return results;
}

}  // namespace detail
}  // namespace damacy
