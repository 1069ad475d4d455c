// Keeps bytes of chunks in a region of memory that processes share. Knows what one pipeline looks up, holds and fills
// there. A region that another process does not let go of is a miss.
#pragma once

#include <cstdint>
#include <memory>

#include "damacy/cache/chunk_tier.h"
#include "damacy/cache/shared/shared_region.h"
#include "damacy/core/mutex.h"

namespace damacy {

class SharedCache final : public ChunkTier {
 public:
  explicit SharedCache(std::shared_ptr<SharedRegion> region) : region_(std::move(region)) {}

  [[nodiscard]] Found find(const ChunkKey& key, std::uint64_t bytes) override;
  [[nodiscard]] Filling reserve(const ChunkKey& key, std::uint64_t bytes, std::uint64_t note_bytes = 0) override;
  Counts counts() const override;  // of this object
  void reset_counts() override;
  SharedRegion& region() const noexcept { return *region_; }

 private:
  Hold publish(std::uint32_t entry) noexcept override;
  void discard(std::uint32_t entry) noexcept override;
  void release(std::uint32_t entry) noexcept override { region_->release(entry); }
  bool is_intact(std::uint32_t entry, std::uint64_t version) const noexcept override;
  void count(Count Counts::* which, std::uint64_t bytes) noexcept;

  const std::shared_ptr<SharedRegion> region_;
  mutable Mutex mutex_;
  Counts counts_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy
