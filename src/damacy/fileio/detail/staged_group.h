// Small reads of several operations into a device's memory, as one thread makes them: they share a pinned block, a
// batch of copies and an event. Knows no queue.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "damacy/fileio/detail/slices.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/file_requests.h"
#include "damacy/fileio/operation.h"

namespace damacy::detail {

class Staged;

// While one lives, it takes part in the small staged reads of its thread. Its destructor enqueues the copies that are
// left, and tells the operations of them: leave their parts afterwards.
class StagedGroup {
 public:
  static constexpr std::uint64_t kMostBytes = 256 << 10;  // of one read

  // `expected`: what is read, in that order; stays until the group ends. Reads whose bytes follow each other in a file
  // are made by one system call.
  explicit StagedGroup(std::span<const IoJob::Stretch> expected) noexcept;
  ~StagedGroup();
  StagedGroup(const StagedGroup&) = delete;
  StagedGroup& operator=(const StagedGroup&) = delete;
  static StagedGroup*& current() noexcept;  // of the thread; null: none

  // Empty: too large for a group.
  std::optional<RunResult> read(File& file, const DeviceRun& run, const OnDevice& device, Operation& operation);

 private:
  void finish() noexcept;
  void pass(const IoJob::Stretch& read) noexcept;
  // How many bytes behind those of this read are wanted next.
  std::uint64_t bytes_behind(const IoJob::Stretch& read) const noexcept;

  std::span<const IoJob::Stretch> expected_;  // behind those that were read
  StagedGroup* const before_;
  std::unique_ptr<Staged> staged_;
};

}  // namespace damacy::detail
