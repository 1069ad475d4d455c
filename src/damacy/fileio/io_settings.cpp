// Reading the environment, and the one snapshot of the process.
#include "damacy/fileio/io_settings.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <deque>
#include <memory>
#include <system_error>

#include <sched.h>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/core/text.h"

namespace damacy {
namespace {

using Getter = std::function<const char*(const char*)>;

struct Found {
  std::string name;
  std::string value;
};

[[noreturn]] void malformed(const Found& found, std::string_view expected) {
  throw Error(Status::inval,
              formatted("environment variable {}: expected {} (got \"{}\")", found.name, expected, found.value),
              "environment");
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Our variable, else KvikIO's; two spellings of KvikIO's must agree.
std::optional<Found> find(const Getter& get, std::initializer_list<const char*> keys, bool ours_only = false) {
  for (const char* key : keys) {
    const std::string name = formatted("DAMACY_{}", key);
    if (const char* value = get(name.c_str())) return Found{name, value};
  }
  if (ours_only) return std::nullopt;
  std::optional<Found> first;
  for (const char* key : keys) {
    const std::string name = formatted("KVIKIO_{}", key);
    const char* value = get(name.c_str());
    if (value == nullptr) continue;
    if (first && first->value != value)
      malformed({name, value}, formatted("the value of {}, \"{}\"", first->name, first->value));
    if (!first) first = Found{name, value};
  }
  return first;
}

void read_number(const std::optional<Found>& found, std::uint64_t least, std::uint64_t& into) {
  if (!found) return;
  const auto value = integer(trimmed(found->value));
  if (!value || *value < static_cast<std::int64_t>(least))
    malformed(*found, least > 0 ? "a positive integer" : "an integer, 0 or more");
  into = static_cast<std::uint64_t>(*value);
}

std::optional<bool> boolean(std::string_view text) {
  const std::string word = lower(trimmed(text));
  if (word == "on" || word == "true" || word == "yes") return true;
  if (word == "off" || word == "false" || word == "no") return false;
  if (const auto number = integer(word)) return *number != 0;
  return std::nullopt;
}

void read_direct(const std::optional<Found>& found, DirectIo& into) {
  if (!found) return;
  if (lower(trimmed(found->value)) == "auto") {
    into = DirectIo::automatic;
    return;
  }
  const auto value = boolean(found->value);
  if (!value) malformed(*found, "true, false or auto");
  into = *value ? DirectIo::on : DirectIo::off;
}

void read_codes(const std::optional<Found>& found, std::vector<std::int64_t>& into) {
  if (!found) return;
  std::vector<std::int64_t> codes;
  std::string_view rest = found->value;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    const auto code = integer(trimmed(rest.substr(0, comma)));
    if (!code) malformed(*found, "integers separated by commas");
    codes.push_back(*code);
    if (more) rest.remove_prefix(comma + 1);
  }
  into = std::move(codes);
}

std::uint64_t cpus_allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::uint64_t>(std::max(CPU_COUNT(&set), 1));
}

std::atomic<const IoSettings*> current{nullptr};

// Who changes the settings, one at a time; a forked child has its own lock.
struct Changes {
  Mutex mutex;
  std::deque<std::unique_ptr<const IoSettings>> snapshots
      DAMACY_GUARDED_BY(mutex);  // kept: readers hold on to them without a count

  // A snapshot with that content. Reuses earlier snapshots, so that switching back and forth makes no new ones.
  const IoSettings* snapshot(const IoSettings& content) DAMACY_REQUIRES(mutex) {
    for (const auto& kept : snapshots)
      if (*kept == content) return kept.get();
    return snapshots.emplace_back(std::make_unique<const IoSettings>(content)).get();
  }
};

const char* environment(const char* name) {
  return std::getenv(name);
}

}  // namespace

std::optional<CompatMode> parse_compat_mode(std::string_view text) {
  const std::string word = lower(trimmed(text));
  if (word == "auto") return CompatMode::automatic;
  const auto value = boolean(word);
  if (!value) return std::nullopt;
  return *value ? CompatMode::on : CompatMode::off;
}

std::optional<EngineChoice> parse_engine(std::string_view text) {
  const std::string word = lower(trimmed(text));
  if (word == "auto") return EngineChoice::automatic;
  if (word == "pread") return EngineChoice::pread;
  if (word == "io_uring") return EngineChoice::io_uring;
  return std::nullopt;
}

std::string_view name_of(EngineChoice engine) noexcept {
  return engine == EngineChoice::pread ? "pread" : engine == EngineChoice::io_uring ? "io_uring" : "auto";
}

IoSettings settings_from_environment(const Getter& get) {
  IoSettings s;
  s.auto_threads = std::min<std::uint64_t>(8, cpus_allowed());
  if (const auto found = find(get, {"COMPAT_MODE"})) {
    const auto mode = parse_compat_mode(found->value);
    if (!mode) malformed(*found, "on, off, auto or an integer");
    s.compat_mode = *mode;
  }
  if (const auto found = find(get, {"NTHREADS", "NUM_THREADS"})) {
    read_number(found, 1, s.num_threads);
    s.num_threads_set = true;
  }
  read_number(find(get, {"TASK_SIZE"}), 1, s.task_size);
  read_number(find(get, {"GDS_THRESHOLD"}), 0, s.gds_threshold);
  read_number(find(get, {"BOUNCE_BUFFER_SIZE"}), 1, s.bounce_buffer_size);
  read_direct(find(get, {"AUTO_DIRECT_IO_READ"}), s.auto_direct_io_read);
  read_direct(find(get, {"AUTO_DIRECT_IO_WRITE"}), s.auto_direct_io_write);
  read_number(find(get, {"HTTP_MAX_ATTEMPTS"}), 1, s.http_max_attempts);
  read_number(find(get, {"HTTP_TIMEOUT"}), 1, s.http_timeout);
  read_codes(find(get, {"HTTP_STATUS_CODES"}), s.http_status_codes);
  if (const auto found = find(get, {"IO_ENGINE"}, /*ours_only=*/true)) {
    const auto engine = parse_engine(found->value);
    if (!engine) malformed(*found, "auto, pread or io_uring");
    s.engine = *engine;
  }
  read_number(find(get, {"AUTO_THREADS"}, true), 1, s.auto_threads);
  read_number(find(get, {"QUEUE_DEPTH"}, true), 1, s.queue_depth);
  read_number(find(get, {"PINNED_LIMIT"}, true), 1, s.pinned_limit);
  read_number(find(get, {"COALESCE_GAP"}, true), 0, s.coalesce_gap);
  return s;
}

const IoSettings& io_settings() {
  if (const IoSettings* now = current.load(std::memory_order_acquire)) return *now;
  change_io_settings([](IoSettings&) {});
  return *current.load(std::memory_order_acquire);
}

void change_io_settings(const std::function<void(IoSettings&)>& change) {
  auto& changes = one_per_process<Changes>();
  const Lock lock(changes.mutex);
  const IoSettings* now = current.load(std::memory_order_acquire);
  IoSettings next = now != nullptr ? *now : settings_from_environment(environment);
  change(next);
  current.store(changes.snapshot(next), std::memory_order_release);
}

}  // namespace damacy
