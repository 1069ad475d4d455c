#include "damacy/cache/disk/disk_tier.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "damacy/cache/chunk_key.h"
#include "damacy/cache/disk/disk_directory.h"
#include "damacy/cache/disk/hint_file.h"
#include "damacy/cache/disk/segment_files.h"
#include "damacy/cache/reuse_policy.h"
#include "damacy/codec/chain.h"
#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/log.h"
#include "damacy/core/mutex.h"

namespace damacy {
namespace {

constexpr std::uint64_t kMostRemembered = std::uint64_t{8} << 20;
constexpr std::uint64_t kLeastRemembered = 64 << 10;
constexpr std::uint64_t kMostQueue = std::uint64_t{256} << 20;
// Other processes see the hits of a segment each time they come to 1/16 of its bytes.
constexpr std::uint64_t kUsesASegment = 16;
constexpr std::uint64_t kTriesAgainAfter = 64;  // when nothing may go: after so many parts of the entries are looked up
constexpr std::uint64_t kLeastTriesAgain = 64;
constexpr std::size_t kRecordsARead = 256;
constexpr std::uint64_t kMostGap = 4096;        // bytes of other records between those that one call reads
constexpr std::uint64_t kRecordOverhead = 256;  // of a queued entry
constexpr auto kPatience = std::chrono::seconds(1);

std::uint64_t hash_of(const DiskKey& key) noexcept {
  return mixed(key.words[0] ^ key.words[1]);
}

}  // namespace

std::uint64_t DiskTierSizes::memory() const noexcept {
  if (bytes == 0) return 0;
  return queue_bytes + ReusePolicy::bytes_of(remembered) + kMostSegments * 64;
}

DiskTierSizes disk_tier_sizes(std::uint64_t bytes, std::uint64_t buffer_bytes) noexcept {
  DiskTierSizes sizes;
  sizes.bytes = bytes;
  sizes.segment_bytes = std::max(DiskTierSizes::kLeastSegment, bytes / DiskTierSizes::kMostSegments / 4096 * 4096);
  sizes.buckets = bytes / DiskTierSizes::kBytesAHint / IndexHeader::kHintsABucket + 1;
  sizes.remembered = std::clamp(bytes / (64 << 10), kLeastRemembered, kMostRemembered);
  sizes.queue_bytes = std::min(buffer_bytes / 8, kMostQueue);
  return sizes;
}

struct DiskTier::Impl {
  using Number = SegmentFiles::Number;
  using Writer = SegmentFiles::Writer;

  explicit Impl(DiskTierSettings with)
      : settings(std::move(with)),
        directory(settings.directory, settings.shared),
        hints(*settings.calls, directory, {settings.sizes.buckets, settings.sizes.segment_bytes}),
        files(*settings.calls, directory, hints.header().segment_bytes),
        segment_count(
            static_cast<Number>(std::max<std::uint64_t>(settings.sizes.bytes / hints.header().segment_bytes, 1))),
        policy(settings.sizes.remembered),
        segments(segment_count) {
    if (const std::string network = directory.network_file_system(); !network.empty())
      log(LogLevel::warn, formatted("disk_cache: {} is on a network file system ({}): a local disk is faster, and "
                                    "processes of other machines must not use the directory",
                                    directory.path(), network));
    files.remove_from(segment_count);
    for (Number number = 0; number < segment_count; ++number) look_at(number);
  }

  // What this process knows of a segment.
  struct Segment {
    std::uint64_t generation = 0;  // 0: there is none
    std::uint64_t records = 0, payload_bytes = 0;
    ReusePolicy::Time last_used = 0;
    std::uint64_t hit_bytes = 0;  // that other processes do not see yet
    std::uint64_t uses = 0;       // of all processes, when it was looked at
  };
  struct Waiting {
    DiskKey key;
    std::vector<std::byte> bytes;
  };

  // Reading.
  struct Located {
    Hint hint;
    Wanted* wanted;
  };
  std::optional<Hint> find(const DiskKey& key, std::uint64_t bytes) const noexcept;
  std::uint64_t most_bytes() const noexcept {
    return std::min<std::uint64_t>(
        {settings.sizes.bytes / DiskTierSizes::kLargestShare,
         hints.header().segment_bytes - SegmentHeader::kFirstRecord - 2 * RecordHeader::kBytes,
         std::numeric_limits<std::uint32_t>::max()});
  }
  void read_together(std::span<Located> located) noexcept;
  bool read_record(const Hint& hint, const DiskKey& key, std::span<std::byte> to) noexcept;
  bool is_current(const Hint& hint) const noexcept {
    if (hint.segment >= segment_count) return false;
    const Lock lock(mutex);
    return segments[hint.segment].generation == hint.generation;
  }
  void count_miss(const DiskKey& key, std::uint64_t bytes) noexcept DAMACY_REQUIRES(mutex);
  std::uint64_t entries() const noexcept DAMACY_REQUIRES(mutex) {
    std::uint64_t entries = 0;
    for (const Segment& segment : segments) entries += segment.records;
    return entries;
  }
  void count(std::span<const Wanted> wanted, std::span<const Located> located) noexcept;
  static bool is_right(const RecordHeaderBytes& head, const Hint& hint, const DiskKey& key,
                       std::span<const std::byte> bytes) noexcept;
  void trouble(const char* what, int error) noexcept;

  // Writing, on its thread.
  void write_all() noexcept;
  bool next_to_write(Waiting& next);
  void write(const Waiting& waiting);
  bool take_writer(std::uint64_t length);
  bool take_writer(Number number, SegmentFiles::How how);
  bool may_go(Number number);
  void look_at(Number number);
  void find_hints();
  void close_writer();

  const std::uint64_t epoch = fork_epoch();
  const DiskTierSettings settings;
  const DiskDirectory directory;
  HintFile hints;
  SegmentFiles files;
  const Number segment_count;
  std::atomic<bool> off{false};        // nothing is read or written any more
  std::atomic<bool> no_writes{false};  // the disk is full
  std::atomic<bool> warned{false};

  mutable Mutex mutex;
  ReusePolicy policy DAMACY_GUARDED_BY(mutex);
  std::vector<Segment> segments DAMACY_GUARDED_BY(mutex);
  Counts counts DAMACY_GUARDED_BY(mutex);
  std::uint64_t lookups DAMACY_GUARDED_BY(mutex) = 0;
  std::uint64_t closed_until DAMACY_GUARDED_BY(mutex) = 0;  // look-ups; before, no segment may go

  Mutex queue_mutex;
  Condition queue_changed;
  std::deque<Waiting> queue DAMACY_GUARDED_BY(queue_mutex);
  std::uint64_t queued_bytes DAMACY_GUARDED_BY(queue_mutex) = 0;
  bool stopping DAMACY_GUARDED_BY(queue_mutex) = false;
  bool writing DAMACY_GUARDED_BY(queue_mutex) = false;
  bool ended DAMACY_GUARDED_BY(queue_mutex) = false;

  std::optional<Writer> writer;  // the thread's
  Number hand = 0;               // the thread's: the segment whose turn it is
};

// Errors of the disk are no errors of a read.
void DiskTier::Impl::trouble(const char* what, int error) noexcept {
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EROFS || error == EFBIG;
  (is_full ? no_writes : off) = true;
  if (warned.exchange(true)) return;
  static_cast<void>(failure_of([&] {
    log(LogLevel::warn,
        formatted("disk_cache: cannot {} in {}: {}; {}", what, directory.path(), std::string_view(std::strerror(error)),
                  is_full ? "nothing more is kept there" : "it is not used any more"));
  }));
}

std::optional<Hint> DiskTier::Impl::find(const DiskKey& key, std::uint64_t bytes) const noexcept {
  if (off.load(std::memory_order_relaxed)) return std::nullopt;
  auto hint = hints.find(key);
  if (!hint || hint->length != bytes || hint->segment >= segment_count) return std::nullopt;
  return hint;
}

bool DiskTier::Impl::is_right(const RecordHeaderBytes& head, const Hint& hint, const DiskKey& key,
                              std::span<const std::byte> bytes) noexcept {
  const auto header = parse_record_header(head);
  return header && header->key == key && header->generation == hint.generation && header->length == bytes.size() &&
         header->checksum == crc32c(bytes);
}

bool DiskTier::Impl::read_record(const Hint& hint, const DiskKey& key, std::span<std::byte> to) noexcept {
  try {
    const auto file = files.open(hint.segment);
    if (!file) return false;
    RecordHeaderBytes head{};
    const std::array<iovec, 2> vectors{iovec{head.data(), head.size()}, iovec{to.data(), to.size()}};
    bool whole = false;
    if (const int error = read_vectors(*settings.calls, *file, vectors, hint.offset, whole); error != 0) {
      trouble("read", error);
      return false;
    }
    if (whole && is_right(head, hint, key, to)) return true;
    files.forget(hint.segment);
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Records of one segment that are neighbours, in order: one call reads them to their places.
void DiskTier::Impl::read_together(std::span<Located> located) noexcept {
  if (located.size() == 1) {
    located[0].wanted->found = read_record(located[0].hint, located[0].wanted->key, located[0].wanted->to);
    return;
  }
  try {
    const auto file = files.open(located[0].hint.segment);
    if (!file) return;
    std::vector<RecordHeaderBytes> heads(located.size());
    std::vector<std::byte> gap(kMostGap);
    std::vector<iovec> vectors;
    std::uint64_t at = located[0].hint.offset;
    for (std::size_t i = 0; i < located.size(); ++i) {
      const Hint& hint = located[i].hint;
      if (hint.offset > at) vectors.push_back({gap.data(), hint.offset - at});
      vectors.push_back({heads[i].data(), heads[i].size()});
      vectors.push_back({located[i].wanted->to.data(), located[i].wanted->to.size()});
      at = hint.offset + RecordHeader::kBytes + hint.length;
    }
    bool whole = false;
    if (const int error = read_vectors(*settings.calls, *file, vectors, located[0].hint.offset, whole); error != 0)
      return trouble("read", error);
    for (std::size_t i = 0; i < located.size(); ++i)
      located[i].wanted->found =
          whole && is_right(heads[i], located[i].hint, located[i].wanted->key, located[i].wanted->to);
    if (!std::ranges::all_of(located, [](const Located& one) { return one.wanted->found; }))
      files.forget(located[0].hint.segment);
  } catch (const std::bad_alloc&) {
  }
}

void DiskTier::Impl::count_miss(const DiskKey& key, std::uint64_t bytes) noexcept {
  ++lookups;
  ++counts.misses.entries;
  counts.misses.bytes += static_cast<std::int64_t>(bytes);
  policy.miss(hash_of(key), static_cast<std::size_t>(entries()));
}

void DiskTier::Impl::count(std::span<const Wanted> wanted, std::span<const Located> located) noexcept {
  std::vector<Number> much_used;
  {
    const Lock lock(mutex);
    for (const Wanted& one : wanted)
      if (!one.found) count_miss(one.key, one.to.size());
    for (const Located& one : located) {
      if (!one.wanted->found) {
        ++counts.damaged;
        continue;
      }
      ++lookups;
      ++counts.hits.entries;
      counts.hits.bytes += static_cast<std::int64_t>(one.wanted->to.size());
      Segment& segment = segments[one.hint.segment];
      segment.last_used = policy.hit(segment.last_used);
      segment.hit_bytes += one.wanted->to.size();
      if (segment.hit_bytes < hints.header().segment_bytes / kUsesASegment) continue;
      segment.hit_bytes = 0;
      ++segment.uses;
      much_used.push_back(one.hint.segment);
    }
  }
  for (const Number number : much_used)
    if (const auto file = files.open(number)) files.add_use(*file);
}

// Looks at a segment as it is on the disk.
void DiskTier::Impl::look_at(Number number) {
  const auto file = files.open(number);
  std::optional<SegmentHeader> header;
  if (file) header = files.header_of(*file);
  if (!header) {
    const Lock lock(mutex);
    segments[number] = {};
    return;
  }
  const std::uint64_t uses = files.uses_of(*file);
  const Lock lock(mutex);
  Segment& segment = segments[number];
  if (header->generation != segment.generation || uses != segment.uses) segment.last_used = policy.now();
  segment.uses = uses;
  if (header->generation == segment.generation && !header->is_full) return;  // its writer knows better
  segment.generation = header->generation;
  segment.records = header->records;
  segment.payload_bytes = header->payload_bytes;
}

// Other processes may have used it since, or replaced it.
bool DiskTier::Impl::may_go(Number number) {
  const auto may = [&] {
    const Lock lock(mutex);
    return policy.may_go(segments[number].last_used);
  };
  if (!may()) return false;
  look_at(number);
  return may();
}

bool DiskTier::Impl::take_writer(Number number, SegmentFiles::How how) {
  SegmentHeader evicted;
  errno = 0;
  auto taken = files.claim(number, how, &evicted);
  if (!taken) {
    if (errno != 0 && errno != ENOENT) trouble("write a segment", errno);
    return false;
  }
  const Lock lock(mutex);
  segments[number] = {taken->generation(), taken->records(), taken->payload_bytes(), policy.now(), 0, 0};
  counts.evicted.entries += static_cast<std::int64_t>(evicted.records);
  counts.evicted.bytes += static_cast<std::int64_t>(evicted.payload_bytes);
  writer.emplace(std::move(*taken));
  return true;
}

// First segments that dead writers left, then new ones, then those that are not used any more.
bool DiskTier::Impl::take_writer(std::uint64_t length) {
  using How = SegmentFiles::How;
  const auto fits = [&] {
    if (writer->has_room_for(length)) return true;
    close_writer();
    return false;
  };
  for (const How how : {How::go_on, How::make})
    for (Number number = 0; number < segment_count && !no_writes && !off; ++number) {
      const bool exists = [&] {
        const Lock lock(mutex);
        return segments[number].generation != 0;
      }();
      if (how == How::make && exists) continue;
      if (exists) {
        const auto file = files.open(number);
        const auto header = file ? files.header_of(*file) : std::nullopt;
        if (header && header->is_full) continue;
      }
      if (take_writer(number, how) && fits()) return true;
      if (how == How::make) look_at(number);
    }
  for (Number steps = 0; steps < segment_count && !no_writes && !off; ++steps) {
    hand = (hand + 1) % segment_count;
    if (may_go(hand) && take_writer(hand, How::use_again)) return true;
  }
  return false;
}

void DiskTier::Impl::close_writer() {
  writer->close();
  writer.reset();
}

void DiskTier::Impl::write(const Waiting& waiting) {
  const std::uint64_t length = waiting.bytes.size();
  if (const auto hint = find(waiting.key, length)) {  // another process or batch was quicker, unless it is damaged
    std::vector<std::byte> there(waiting.bytes.size());
    if (read_record(*hint, waiting.key, there)) return;
  }
  if (writer && !writer->has_room_for(length)) close_writer();
  if (!writer && !take_writer(length)) {
    const Lock lock(mutex);
    closed_until = lookups + std::max(entries() / kTriesAgainAfter, kLeastTriesAgain);
    return;
  }
  const auto hint = writer->append(waiting.key, waiting.bytes);
  if (!hint) {
    trouble("write", errno);
    writer.reset();
    return;
  }
  if (!hints.put(waiting.key, *hint, [this](const Hint& there) { return is_current(there); }))
    trouble("write the index", errno);
  const Lock lock(mutex);
  segments[hint->segment].records = writer->records();
  segments[hint->segment].payload_bytes = writer->payload_bytes();
  segments[hint->segment].last_used = policy.now();
  ++counts.kept.entries;
  counts.kept.bytes += static_cast<std::int64_t>(length);
}

// The index was lost: the records are still there.
void DiskTier::Impl::find_hints() {
  for (Number number = 0; number < segment_count && !off; ++number) {
    const auto file = files.open(number);
    const auto header = file ? files.header_of(*file) : std::nullopt;
    if (!header) continue;
    files.scan(*file, header->generation, [&](const RecordHeader& record, std::uint64_t offset) {
      const Hint hint{record.key.words[1], header->generation, offset, number, record.length};
      if (!hints.find(record.key)) hints.put(record.key, hint, [](const Hint&) { return true; });
    });
  }
}

// False: it is stopping, and nothing waits.
bool DiskTier::Impl::next_to_write(Waiting& next) {
  Lock lock(queue_mutex);
  writing = false;
  queue_changed.notify_all();
  queue_changed.wait(lock, [this]() DAMACY_REQUIRES(queue_mutex) { return stopping || !queue.empty(); });
  if (queue.empty()) return false;
  next = std::move(queue.front());
  queue.pop_front();
  writing = true;
  return true;
}

void DiskTier::Impl::write_all() noexcept {
  const auto failure = failure_of([this] {
    if (hints.is_new()) find_hints();
    for (Waiting next; next_to_write(next);) {
      if (!off && !no_writes) write(next);
      const Lock lock(queue_mutex);
      queued_bytes -= next.bytes.size() + kRecordOverhead;
    }
  });
  if (failure) {
    off = true;
    log(LogLevel::warn, failure->what());
  }
  writer.reset();
  const Lock lock(queue_mutex);
  ended = true;
  writing = false;
  queue_changed.notify_all();
}

DiskTier::DiskTier(DiskTierSettings settings)
    : impl_(std::make_shared<Impl>(std::move(settings))),
      writer_(Thread("damacy-disk", [impl = impl_] { impl->write_all(); })) {}

// The disk may not answer: then the thread is left alone with all that it uses.
DiskTier::~DiskTier() {
  if (fork_epoch() != impl_->epoch) {  // the thread is the parent's, and the locks may be held
    writer_.leave_alone();             // it keeps all that it uses
    return;
  }
  Lock lock(impl_->queue_mutex);
  impl_->stopping = true;
  impl_->queue_changed.notify_all();
  const auto ended = [this]() DAMACY_REQUIRES(impl_->queue_mutex) { return impl_->ended; };
  if (!impl_->queue_changed.wait_for(lock, kPatience, ended)) impl_->queue.clear();
  if (!impl_->queue_changed.wait_for(lock, kPatience, ended)) writer_.leave_alone();
}

bool DiskTier::find(const DiskKey& key, std::uint64_t bytes) noexcept {
  const auto is_there = [&] {
    const auto hint = impl_->find(key, bytes);
    if (!hint) return false;
    if (impl_->is_current(*hint)) return true;
    try {
      impl_->look_at(hint->segment);  // another process may have used it again
    } catch (const std::bad_alloc&) {
      return false;
    }
    return impl_->is_current(*hint);
  };
  if (is_there()) return true;
  const Lock lock(impl_->mutex);
  impl_->count_miss(key, bytes);
  return false;
}

bool DiskTier::has_room_for(std::uint64_t bytes) const noexcept {
  if (impl_->off || impl_->no_writes || bytes == 0 || bytes > impl_->most_bytes()) return false;
  const Lock lock(impl_->mutex);
  return impl_->lookups >= impl_->closed_until;
}

void DiskTier::read(std::span<Wanted> wanted) noexcept {
  if (impl_->off) return;
  try {
    std::vector<Impl::Located> located;
    located.reserve(wanted.size());
    for (Wanted& one : wanted) {
      one.found = false;
      if (const auto hint = impl_->find(one.key, one.to.size())) located.push_back({*hint, &one});
    }
    std::ranges::sort(located, {},
                      [](const Impl::Located& one) { return std::pair(one.hint.segment, one.hint.offset); });
    for (std::size_t first = 0; first < located.size();) {
      std::size_t last = first + 1;
      const auto is_neighbour = [&](const Hint& before, const Hint& after) {
        const std::uint64_t end = before.offset + RecordHeader::kBytes + before.length;
        return before.segment == after.segment && after.offset >= end && after.offset - end <= kMostGap;
      };
      while (last < located.size() && last - first < kRecordsARead &&
             is_neighbour(located[last - 1].hint, located[last].hint))
        ++last;
      impl_->read_together(std::span(located).subspan(first, last - first));
      first = last;
    }
    impl_->count(wanted, located);
  } catch (const std::bad_alloc&) {
  }
}

bool DiskTier::read_any(const DiskKey& key, std::size_t most, std::string& to) noexcept {
  if (impl_->off) return false;
  const auto hint = impl_->hints.find(key);
  if (!hint || hint->length > most || hint->segment >= impl_->segment_count) return false;
  try {
    to.resize(hint->length);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return impl_->read_record(*hint, key, std::as_writable_bytes(std::span(to)));
}

void DiskTier::keep(const DiskKey& key, std::span<const std::byte> bytes) noexcept {
  if (!has_room_for(bytes.size())) return;
  const std::uint64_t charge = bytes.size() + kRecordOverhead;
  bool is_dropped = false;
  try {
    {
      const Lock lock(impl_->queue_mutex);
      is_dropped = impl_->stopping || impl_->queued_bytes + charge > impl_->settings.sizes.queue_bytes;
      if (!is_dropped) impl_->queued_bytes += charge;
    }
    if (!is_dropped) {
      Impl::Waiting waiting{key, {bytes.begin(), bytes.end()}};
      const Lock lock(impl_->queue_mutex);
      impl_->queue.push_back(std::move(waiting));
      impl_->queue_changed.notify_all();
      return;
    }
  } catch (const std::bad_alloc&) {
    is_dropped = true;
    const Lock lock(impl_->queue_mutex);
    impl_->queued_bytes -= charge;
  }
  const Lock lock(impl_->mutex);
  ++impl_->counts.dropped.entries;
  impl_->counts.dropped.bytes += static_cast<std::int64_t>(bytes.size());
}

DiskTier::Counts DiskTier::counts() const {
  const Lock lock(impl_->mutex);
  return impl_->counts;
}

void DiskTier::reset_counts() {
  const Lock lock(impl_->mutex);
  impl_->counts = {};
}

DiskTier::Size DiskTier::size() const {
  const Lock lock(impl_->mutex);
  const auto segments = std::ranges::count_if(impl_->segments, [](const auto& one) { return one.generation != 0; });
  return {static_cast<std::uint64_t>(segments), impl_->hints.header().segment_bytes};
}

bool DiskTier::is_off() const noexcept {
  return impl_->off;
}

bool DiskTier::wait_written(std::chrono::milliseconds most) {
  Lock lock(impl_->queue_mutex);
  return impl_->queue_changed.wait_for(lock, most, [this]() DAMACY_REQUIRES(impl_->queue_mutex) {
    return impl_->ended || (impl_->queue.empty() && !impl_->writing);
  });
}

}  // namespace damacy
