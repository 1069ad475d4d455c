#include "damacy/cache/disk/disk_tier.h"

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "damacy/cache/disk/disk_directory.h"
#include "damacy/cache/disk/disk_health.h"
#include "damacy/cache/disk/disk_writer.h"
#include "damacy/cache/disk/hint_file.h"
#include "damacy/cache/disk/record_reads.h"
#include "damacy/cache/disk/segment_files.h"
#include "damacy/cache/reuse_policy.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/log.h"

namespace damacy {
namespace {

constexpr std::uint64_t kMostRemembered = std::uint64_t{8} << 20;
constexpr std::uint64_t kLeastRemembered = 64 << 10;
constexpr std::uint64_t kMostQueue = std::uint64_t{256} << 20;
constexpr auto kPatience = std::chrono::seconds(1);

SegmentFiles::Number segments_of(const DiskTierSizes& sizes, std::uint64_t segment_bytes) {
  return static_cast<SegmentFiles::Number>(std::max<std::uint64_t>(sizes.bytes / segment_bytes, 1));
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

// What the thread keeps, also after the tier is gone.
struct DiskTier::Impl {
  explicit Impl(DiskTierSettings with)
      : settings(std::move(with)),
        directory(settings.directory, settings.shared),
        hints(*settings.calls, directory, {settings.sizes.buckets, settings.sizes.segment_bytes}),
        files(*settings.calls, directory, hints.header().segment_bytes),
        health(directory.path()),
        table(files, segments_of(settings.sizes, hints.header().segment_bytes), hints.header().segment_bytes,
              settings.sizes.remembered),
        reads(*settings.calls, hints, files, table, health),
        writer(hints, files, table, reads, health, settings.sizes.queue_bytes) {
    if (!hints.is_there()) {
      health.turn_off();
      log(LogLevel::warn, formatted("disk_cache: another process holds {}/{} and does not go on: the cache is not used",
                                    directory.path(), std::string_view(HintFile::kLockName)));
      return;
    }
    if (const std::string network = directory.network_file_system(); !network.empty())
      log(LogLevel::warn, formatted("disk_cache: {} is on a network file system ({}): a local disk is faster, and "
                                    "processes of other machines must not use the directory",
                                    directory.path(), network));
    files.remove_from(table.count());
  }

  std::uint64_t most_bytes() const noexcept {
    return std::min<std::uint64_t>({settings.sizes.bytes / DiskTierSizes::kLargestShare,
                                    hints.header().segment_bytes - SegmentHeader::kFirstRecord -
                                        2 * RecordHeader::kBytes - RecordHeader::kMostName,
                                    std::numeric_limits<std::uint32_t>::max()});
  }

  const std::uint64_t epoch = fork_epoch();
  const DiskTierSettings settings;
  const DiskDirectory directory;
  HintFile hints;
  SegmentFiles files;
  DiskHealth health;
  SegmentTable table;
  RecordReads reads;
  DiskWriter writer;
};

DiskTier::DiskTier(DiskTierSettings settings)
    : impl_(std::make_shared<Impl>(std::move(settings))),
      writer_(Thread("damacy-disk", [impl = impl_] { impl->writer.run(); })) {}

// The disk may not answer: then the thread is left alone with all that it uses.
DiskTier::~DiskTier() {
  finish();
}

void DiskTier::finish() noexcept {
  const bool is_forked = fork_epoch() != impl_->epoch;  // the thread is the parent's, and the locks may be held
  if (is_forked || !impl_->writer.stop(kPatience)) writer_.leave_alone();
  writer_.join();
}

bool DiskTier::find(const ChunkKey& key, std::uint64_t bytes) noexcept {
  const auto is_there = [&] {
    const auto hint = impl_->reads.find(key, bytes);
    if (!hint) return false;
    if (impl_->table.is_current(*hint)) return true;
    try {
      impl_->table.look_at(hint->segment);  // another process may have used it again
    } catch (const std::bad_alloc&) {
      return false;
    }
    return impl_->table.is_current(*hint);
  };
  if (is_there()) return true;
  impl_->table.count_miss(key, bytes);
  return false;
}

bool DiskTier::has_room_for(std::uint64_t bytes) const noexcept {
  if (impl_->health.is_read_only() || bytes == 0 || bytes > impl_->most_bytes()) return false;
  return impl_->table.is_open();
}

void DiskTier::read(std::span<Wanted> wanted) noexcept {
  impl_->reads.read(wanted);
}

bool DiskTier::read_any(const ChunkKey& key, std::size_t most, std::string& to) noexcept {
  return impl_->reads.read_any(key, most, to);
}

void DiskTier::keep(const ChunkKey& key, std::span<const std::byte> bytes, std::string_view name) noexcept {
  name = name.substr(0, RecordHeader::kMostName);
  if (has_room_for(bytes.size()) && !impl_->writer.push(key, bytes, name)) impl_->table.dropped(bytes.size());
}

bool DiskTier::forget(const ChunkKey& key) noexcept {
  if (impl_->health.is_off()) return false;
  const bool waited = impl_->writer.forget(key);
  return impl_->hints.remove(key) || waited;
}

DiskTier::Counts DiskTier::counts() const {
  return impl_->table.counts();
}

void DiskTier::reset_counts() {
  impl_->table.reset_counts();
}

DiskTier::Size DiskTier::size() const {
  return {impl_->table.existing(), impl_->hints.header().segment_bytes};
}

bool DiskTier::is_off() const noexcept {
  return impl_->health.is_off();
}

bool DiskTier::wait_written(std::chrono::milliseconds most) {
  return impl_->writer.wait_written(most);
}

}  // namespace damacy
