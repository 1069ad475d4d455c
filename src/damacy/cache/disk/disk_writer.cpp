#include "damacy/cache/disk/disk_writer.h"

#include <cerrno>
#include <new>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/log.h"

namespace damacy {
namespace {

constexpr std::uint64_t kRecordOverhead = 256;  // of a queued entry

}  // namespace

std::uint64_t DiskWriter::Waiting::charge() const noexcept {
  return bytes.size() + name.size() + kRecordOverhead;
}

bool DiskWriter::push(const ChunkKey& key, std::span<const std::byte> bytes, std::string_view name) noexcept {
  const std::uint64_t charge = bytes.size() + name.size() + kRecordOverhead;
  {
    const Lock lock(mutex_);
    if (stopping_ || queued_bytes_ + charge > queue_bytes_) return false;
    queued_bytes_ += charge;
  }
  try {
    Waiting waiting{key, {bytes.begin(), bytes.end()}, std::string(name)};
    const Lock lock(mutex_);
    queue_.push_back(std::move(waiting));
    changed_.notify_all();
    return true;
  } catch (const std::bad_alloc&) {
    const Lock lock(mutex_);
    queued_bytes_ -= charge;
    return false;
  }
}

bool DiskWriter::forget(const ChunkKey& key) noexcept {
  const Lock lock(mutex_);
  const bool was_written = written_ == key;
  if (was_written) written_.reset();
  const auto is_it = [&](const Waiting& waiting) { return waiting.key == key; };
  for (const Waiting& waiting : queue_)
    if (is_it(waiting)) queued_bytes_ -= waiting.charge();
  return std::erase_if(queue_, is_it) > 0 || was_written;
}

void DiskWriter::run() noexcept {
  const auto failure = failure_of([this] {
    if (hints_.is_new()) find_hints();
    for (Waiting next; next_to_write(next);) {
      if (!health_.is_read_only()) write(next);
      if (!end_write(next)) hints_.remove(next.key);
    }
  });
  if (failure) {
    health_.turn_off();
    log(LogLevel::warn, failure->what());
  }
  segment_.reset();
  const Lock lock(mutex_);
  ended_ = true;
  writing_ = false;
  changed_.notify_all();
}

bool DiskWriter::stop(std::chrono::milliseconds patience) {
  Lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  const auto ended = [this]() DAMACY_REQUIRES(mutex_) { return ended_; };
  if (!changed_.wait_for(lock, patience, ended)) queue_.clear();
  return changed_.wait_for(lock, patience, ended);
}

bool DiskWriter::wait_written(std::chrono::milliseconds most) {
  Lock lock(mutex_);
  return changed_.wait_for(lock, most,
                           [this]() DAMACY_REQUIRES(mutex_) { return ended_ || (queue_.empty() && !writing_); });
}

// False: it is stopping, and nothing waits.
bool DiskWriter::next_to_write(Waiting& next) {
  Lock lock(mutex_);
  writing_ = false;
  changed_.notify_all();
  changed_.wait(lock, [this]() DAMACY_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
  if (queue_.empty()) return false;
  next = std::move(queue_.front());
  queue_.pop_front();
  written_ = next.key;
  writing_ = true;
  return true;
}

// False: it was forgotten meanwhile.
bool DiskWriter::end_write(const Waiting& waiting) {
  const Lock lock(mutex_);
  queued_bytes_ -= waiting.charge();
  return std::exchange(written_, std::nullopt).has_value();
}

void DiskWriter::write(const Waiting& waiting) {
  const std::uint64_t length = waiting.bytes.size();
  if (const auto hint = reads_.find(waiting.key, length)) {  // another process or batch was quicker; may be damaged
    std::vector<std::byte> there(waiting.bytes.size());
    if (reads_.read(*hint, waiting.key, there)) return;
  }
  const std::uint64_t bytes = record_bytes(length, waiting.name.size());
  if (segment_ && !segment_->has_room_for(bytes)) close_segment();
  if (!segment_ && !take_segment(bytes)) return table_.close_for_a_while();
  const auto hint = segment_->append(waiting.key, waiting.bytes, waiting.name);
  if (!hint) {
    health_.failed("write", errno);
    segment_.reset();
    return;
  }
  if (!hints_.put(waiting.key, *hint, [this](const Hint& there) { return table_.is_current(there); }))
    health_.failed("write the index", errno);
  table_.kept(*segment_, length);
}

// First segments that dead writers left, then new ones, then those that are not used any more.
bool DiskWriter::take_segment(std::uint64_t bytes) {
  using How = SegmentFiles::How;
  const auto fits = [&] {
    if (segment_->has_room_for(bytes)) return true;
    close_segment();
    return false;
  };
  for (const How how : {How::go_on, How::make})
    for (Number number = 0; number < table_.count() && !health_.is_read_only(); ++number) {
      const bool exists = table_.exists(number);
      if (how == How::make && exists) continue;
      if (exists) {
        const auto file = files_.open(number);
        const auto header = file ? files_.header_of(*file) : std::nullopt;
        if (header && header->is_full) continue;
      }
      if (take_segment(number, how) && fits()) return true;
      if (how == How::make) table_.look_at(number);
    }
  for (Number steps = 0; steps < table_.count() && !health_.is_read_only(); ++steps) {
    hand_ = (hand_ + 1) % table_.count();
    if (table_.may_go(hand_) && take_segment(hand_, How::use_again)) return true;
  }
  return false;
}

bool DiskWriter::take_segment(Number number, SegmentFiles::How how) {
  SegmentHeader evicted;
  errno = 0;
  auto taken = files_.claim(number, how, &evicted);
  if (!taken) {
    if (errno != 0 && errno != ENOENT) health_.failed("write a segment", errno);
    return false;
  }
  table_.claimed(*taken, evicted);
  segment_.emplace(std::move(*taken));
  return true;
}

void DiskWriter::close_segment() {
  segment_->close();
  segment_.reset();
}

// The index was lost: the records are still there.
void DiskWriter::find_hints() {
  for (Number number = 0; number < table_.count() && !health_.is_off(); ++number) {
    const auto file = files_.open(number);
    const auto header = file ? files_.header_of(*file) : std::nullopt;
    if (!header) continue;
    files_.scan(*file, header->generation, [&](const RecordHeader& record, std::uint64_t offset) {
      const Hint hint{record.key.words[1], header->generation, offset, number, record.length};
      if (!hints_.find(record.key)) hints_.put(record.key, hint, [](const Hint&) { return true; });
    });
  }
}

}  // namespace damacy
