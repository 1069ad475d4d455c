// Keeps chunks in a mapped file: the smallest tier, which shows what one takes. The file is divided into slots of one
// size, and the least recently used one is replaced. Knows keys and sizes; no file of the library knows it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "damacy/cache/chunk_tier.h"
#include "damacy/core/mutex.h"

namespace damacy {

class MappedTier final : public ChunkTier {
 public:
  // The file at `path` is new, and has no name afterwards.
  MappedTier(const std::string& path, std::size_t slots, std::uint64_t slot_bytes)
      : slot_bytes_(slot_bytes), memory_(mapped_file(path, slots * slot_bytes)), entries_(slots) {}
  MappedTier(const MappedTier&) = delete;
  MappedTier& operator=(const MappedTier&) = delete;
  ~MappedTier() override { ::munmap(memory_.data(), memory_.size()); }

  [[nodiscard]] Found find(const ChunkKey& key, std::uint64_t bytes) override {
    const Lock lock(mutex_);
    const auto found = entry_of(key);
    if (found == entries_.end() || !found->is_whole || !is_size_of(found->bytes, bytes)) {
      add(counts_.misses, bytes);
      return {{}, bytes <= slot_bytes_};
    }
    found->last_use = ++uses_;
    add(counts_.hits, found->bytes);
    return {hold_of(*found)};
  }
  // Keeps no notes.
  [[nodiscard]] Filling reserve(const ChunkKey& key, std::uint64_t bytes, std::uint64_t note_bytes = 0) override {
    if (bytes == 0 || bytes > slot_bytes_ || note_bytes > 0) return {};
    const Lock lock(mutex_);
    if (entry_of(key) != entries_.end()) return {};
    const auto oldest = std::ranges::min_element(
        entries_, {}, [](const Entry& entry) { return may_go(entry) ? entry.last_use : ~std::uint64_t{0}; });
    if (!may_go(*oldest)) return {};
    if (oldest->is_used) add(counts_.evicted, oldest->bytes);
    oldest->key = key;
    oldest->bytes = bytes;
    oldest->last_use = ++uses_;
    oldest->is_used = true;
    oldest->is_whole = false;
    return {*this, static_cast<std::uint32_t>(oldest - entries_.begin()), bytes_of(*oldest), {}};
  }
  Counts counts() const override {
    const Lock lock(mutex_);
    return counts_;
  }
  void reset_counts() override {
    const Lock lock(mutex_);
    counts_ = {};
  }

 private:
  struct Entry {
    ChunkKey key;
    std::uint64_t bytes = 0, last_use = 0;
    std::atomic<std::uint32_t> holds{0};
    bool is_used = false, is_whole = false;
  };

  static std::span<std::byte> mapped_file(const std::string& path, std::size_t bytes) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int error = fd < 0 ? errno : ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
    void* const memory = error == 0 ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (error == 0 && memory == MAP_FAILED) error = errno;
    if (fd >= 0) {
      ::close(fd);
      ::unlink(path.c_str());
    }
    if (error != 0) throw std::system_error(error, std::generic_category(), path);
    return {static_cast<std::byte*>(memory), bytes};
  }
  static void add(Count& count, std::uint64_t bytes) noexcept {
    ++count.chunks;
    count.bytes += static_cast<std::int64_t>(bytes);
  }
  // The last release of a hold comes before what is written next.
  static bool may_go(const Entry& entry) noexcept {
    return !entry.is_used || (entry.is_whole && entry.holds.load(std::memory_order_acquire) == 0);
  }
  std::vector<Entry>::iterator entry_of(const ChunkKey& key) DAMACY_REQUIRES(mutex_) {
    return std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.is_used && entry.key == key; });
  }
  std::span<std::byte> bytes_of(const Entry& entry) const noexcept DAMACY_REQUIRES(mutex_) {
    return memory_.subspan(static_cast<std::size_t>(&entry - entries_.data()) * slot_bytes_, entry.bytes);
  }
  Hold hold_of(Entry& entry) noexcept DAMACY_REQUIRES(mutex_) {
    entry.holds.fetch_add(1, std::memory_order_relaxed);
    return {entry.holds, bytes_of(entry), {}};
  }
  Hold publish(std::uint32_t number) noexcept override {
    const Lock lock(mutex_);
    Entry& entry = entries_[number];
    entry.is_whole = true;
    add(counts_.kept, entry.bytes);
    return hold_of(entry);
  }
  void discard(std::uint32_t number) noexcept override {
    const Lock lock(mutex_);
    entries_[number].is_used = false;
    entries_[number].last_use = 0;
  }

  const std::uint64_t slot_bytes_;
  const std::span<std::byte> memory_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_ DAMACY_GUARDED_BY(mutex_);  // by slot; holds are released without it
  std::uint64_t uses_ DAMACY_GUARDED_BY(mutex_) = 0;
  Counts counts_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy
