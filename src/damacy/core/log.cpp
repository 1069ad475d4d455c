#include "damacy/core/log.h"

#include <atomic>
#include <memory>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/core/log_limit.h"
#include "damacy/core/mutex.h"

namespace damacy {
namespace {

using Listener = std::function<void(LogLevel, std::string_view)>;

struct Logger {
  std::atomic<int> threshold{static_cast<int>(LogLevel::fatal)};
  std::atomic<bool> quiet{false};
  Mutex mutex;
  std::shared_ptr<const Listener> listener DAMACY_GUARDED_BY(mutex);
  LogLimit limit DAMACY_GUARDED_BY(mutex);
  std::atomic<bool> kept_back{false};  // so that asking for summaries costs nothing
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

Clock::Time now() noexcept {
  return SteadyClock().now();
}

void write_record(LogLevel level, std::string_view line) {
  Logger& to = logger();
  const std::string clean = one_line(line, Limits::error_text_bytes);
  if (!to.quiet && static_cast<int>(level) >= to.threshold)
    to.sink.log(static_cast<spdlog::level::level_enum>(level), "{}", clean);
  std::shared_ptr<const Listener> listener;
  {
    const Lock lock(to.mutex);
    listener = to.listener;
  }
  if (listener) (*listener)(level, clean);
}

void write_summaries(bool all) {
  Logger& to = logger();
  if (!to.kept_back.exchange(false)) return;
  std::vector<std::pair<std::string, std::uint64_t>> kinds;
  {
    const Lock lock(to.mutex);
    kinds = to.limit.take_kept_back(now(), all);
  }
  if (kinds.empty()) to.kept_back = true;  // the second is not over
  for (const auto& [kind, count] : kinds)
    write_record(LogLevel::warn, formatted("{}: {} more in the same second", kind, count));
}

bool admits(std::string_view kind) {
  Logger& to = logger();
  const Lock lock(to.mutex);
  if (to.limit.admits(kind, now())) return true;
  to.kept_back = true;
  return false;
}

// Lines are lost where there is no memory, or nowhere to write.
template <class Step>
void attempt(Step step) noexcept {
  try {
    step();
  } catch (...) {
  }
}

}  // namespace

void log(LogLevel level, std::string_view line) noexcept {
  attempt([&] { write_record(level, line); });
}

bool is_logged(LogLevel level) noexcept {
  return static_cast<int>(level) >= logger().threshold;
}

void log_current_error(LogLevel level) noexcept {
  log(level, current_error().what());
}

void log_some(LogLevel level, std::string_view kind, std::string_view line) noexcept {
  attempt([&] {
    write_summaries(false);
    if (admits(kind)) write_record(level, formatted("{}: {}", kind, line));
  });
}

void log_summaries(bool now_or_never) noexcept {
  attempt([&] { write_summaries(now_or_never); });
}

void set_log_level(LogLevel level) {
  logger().threshold = static_cast<int>(level);
}
void set_log_quiet(bool quiet) {
  logger().quiet = quiet;
}

void set_log_listener(std::function<void(LogLevel, std::string_view)> listener) {
  Logger& to = logger();
  const Lock lock(to.mutex);
  to.listener = listener ? std::make_shared<const Listener>(std::move(listener)) : nullptr;
}

}  // namespace damacy
