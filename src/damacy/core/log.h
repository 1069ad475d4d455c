// Log records: one line each, without secrets. Knows two receivers, the stderr sink with its threshold and at most one
// listener; does not know Python.
#pragma once

#include <functional>
#include <string_view>

namespace damacy {

enum class LogLevel : int { trace = 0, debug = 1, info = 2, warn = 3, error = 4, fatal = 5 };

// Never throws: a record that cannot be made is lost.
void log(LogLevel level, std::string_view line) noexcept;
// Whether a record of this level is wanted: what is logged for each request of many asks first.
[[nodiscard]] bool is_logged(LogLevel level) noexcept;
// Logs the current exception; call it inside a catch block.
void log_current_error(LogLevel level) noexcept;

// The same with a rate limit: ten records of one kind per second, then a summary with the next record or the next
// log_summaries(). `now_or_never`: also summarizes records that were dropped in the current second.
void log_some(LogLevel level, std::string_view kind, std::string_view line) noexcept;
void log_summaries(bool now_or_never = false) noexcept;

// Threshold of the stderr sink, and of is_logged(); fatal at first.
void set_log_level(LogLevel level);
void set_log_quiet(bool quiet);

// Called with every record, on the thread that logs, without a lock held by the caller. Must be fast and must not
// throw. Replaces the previous listener; an empty function removes it.
void set_log_listener(std::function<void(LogLevel, std::string_view)> listener);

}  // namespace damacy
