// Whether a disk tier may still use its disk, after errors. Knows errno and what to log; not what was done.
// Thread-safe.
#pragma once

#include <atomic>
#include <string>
#include <utility>

namespace damacy {

class DiskHealth {
 public:
  explicit DiskHealth(std::string path) : path_(std::move(path)) {}

  bool is_off() const noexcept { return off_; }                      // nothing is read or written any more
  bool is_read_only() const noexcept { return read_only_ || off_; }  // nothing is written any more
  void turn_off() noexcept { off_ = true; }
  // After an error of a call, `what` of which did not work: a full disk is only read. Logs the first one of each kind.
  void failed(const char* what, int error) noexcept;

 private:
  const std::string path_;
  std::atomic<bool> off_{false}, read_only_{false};
};

}  // namespace damacy
