// The settings of file I/O: an immutable snapshot, swapped whole. Knows names, defaults, the environment and what is
// valid; not what the settings do.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace damacy {

enum class CompatMode : int { off = 0, on = 1, automatic = 2 };
enum class EngineChoice { automatic, pread, io_uring };
enum class DirectIo { automatic, off, on };

struct IoSettings {
  CompatMode compat_mode = CompatMode::automatic;
  std::uint64_t num_threads = 1;
  bool num_threads_set = false;  // by anybody: then it is an exact limit
  std::uint64_t task_size = 4 << 20;
  std::uint64_t gds_threshold = 16 << 10;
  std::uint64_t bounce_buffer_size = 16 << 20;
  DirectIo auto_direct_io_read = DirectIo::automatic;
  DirectIo auto_direct_io_write = DirectIo::automatic;
  std::uint64_t http_max_attempts = 3;
  std::uint64_t http_timeout = 60;
  std::vector<std::int64_t> http_status_codes{429, 500, 502, 503, 504};
  EngineChoice engine = EngineChoice::automatic;
  std::uint64_t auto_threads = 1;  // min(8, CPUs allowed) when made by from_environment
  std::uint64_t queue_depth = 128;
  std::uint64_t pinned_limit = 256 << 20;
  std::uint64_t coalesce_gap = 4096;
  void use_threads(std::uint64_t count) noexcept {  // exactly so many, for requests of any size
    num_threads = count;
    num_threads_set = true;
  }
  friend bool operator==(const IoSettings&, const IoSettings&) = default;
};

// The ones of the process. The environment is read at the first call; a malformed variable throws Error(inval) naming
// it, at that call and every later one. Snapshots live as long as the process; no lock is taken.
const IoSettings& io_settings();
// Applies `change` to a copy and swaps it in.
void change_io_settings(const std::function<void(IoSettings&)>& change);

// Changes settings of the process; its destructor brings all settings back that there were before.
class IoSettingsScope {
 public:
  explicit IoSettingsScope(const std::function<void(IoSettings&)>& change) : before_(io_settings()) {
    change_io_settings(change);
  }
  IoSettingsScope(const IoSettingsScope&) = delete;
  IoSettingsScope& operator=(const IoSettingsScope&) = delete;
  ~IoSettingsScope() {
    change_io_settings([this](IoSettings& settings) { settings = before_; });
  }

 private:
  const IoSettings& before_;  // snapshots live as long as the process
};

// `get` gives the value of a variable, null when unset.
[[nodiscard]] IoSettings settings_from_environment(const std::function<const char*(const char*)>& get);

// on/true/yes, off/false/no, auto, an integer (0 is off); any case. Empty: none of these.
[[nodiscard]] std::optional<CompatMode> parse_compat_mode(std::string_view text);
[[nodiscard]] std::optional<EngineChoice> parse_engine(std::string_view text);
[[nodiscard]] std::string_view name_of(EngineChoice engine) noexcept;

}  // namespace damacy
