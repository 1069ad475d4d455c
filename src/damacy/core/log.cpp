#include "damacy/core/log.h"

#include <atomic>
#include <memory>
#include <mutex>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "damacy/core/error.h"
#include "damacy/core/limits.h"

namespace damacy {
namespace {

using Listener = std::function<void(LogLevel, std::string_view)>;

struct Logger {
  std::atomic<int> threshold{static_cast<int>(LogLevel::fatal)};
  std::atomic<bool> quiet{false};
  std::mutex mutex;
  std::shared_ptr<const Listener> listener;
  spdlog::logger sink{"damacy", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
};

Logger& logger() {
  static Logger* one = [] {  // never destroyed: threads may log while the process exits
    auto* made = new Logger;
    made->sink.set_level(spdlog::level::trace);
    return made;
  }();
  return *one;
}

}  // namespace

void log(LogLevel level, std::string_view line) {
  Logger& to = logger();
  const std::string clean = one_line(line, Limits::error_text_bytes);
  if (!to.quiet && static_cast<int>(level) >= to.threshold)
    to.sink.log(static_cast<spdlog::level::level_enum>(level), "{}", clean);
  std::shared_ptr<const Listener> listener;
  {
    const std::lock_guard lock(to.mutex);
    listener = to.listener;
  }
  if (listener) (*listener)(level, clean);
}

void set_log_level(LogLevel level) {
  logger().threshold = static_cast<int>(level);
}
void set_log_quiet(bool quiet) {
  logger().quiet = quiet;
}

void set_log_listener(std::function<void(LogLevel, std::string_view)> listener) {
  Logger& to = logger();
  const std::lock_guard lock(to.mutex);
  to.listener = listener ? std::make_shared<const Listener>(std::move(listener)) : nullptr;
}

}  // namespace damacy
