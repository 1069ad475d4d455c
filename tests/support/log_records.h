// The records of the library's log while one of these lives. One at a time: the log has one listener.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "damacy/core/log.h"

namespace damacy::testing {

class LogRecords {
 public:
  using Record = std::pair<LogLevel, std::string>;

  LogRecords() {
    set_log_listener([this](LogLevel level, std::string_view line) {
      const std::lock_guard lock(mutex_);
      records_.emplace_back(level, line);
    });
  }
  ~LogRecords() { set_log_listener({}); }
  LogRecords(const LogRecords&) = delete;
  LogRecords& operator=(const LogRecords&) = delete;

  std::vector<Record> all() {
    const std::lock_guard lock(mutex_);
    return records_;
  }

 private:
  std::mutex mutex_;
  std::vector<Record> records_;
};

}  // namespace damacy::testing
