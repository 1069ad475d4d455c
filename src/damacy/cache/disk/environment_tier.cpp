#include "damacy/cache/disk/environment_tier.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>

#include "damacy/cache/disk/cached_store.h"
#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/core/text.h"

namespace damacy {
namespace {

constexpr const char* kDirectory = "DAMACY_DISK_CACHE";
constexpr const char* kBytes = "DAMACY_DISK_CACHE_BYTES";
constexpr std::uint64_t kBuffers = std::uint64_t{512} << 20;  // an eighth of them holds what is to be written

[[noreturn]] void refuse(std::string message) {
  throw Error(Status::inval, std::move(message), "disk-cache");
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(trimmed(value));
}

std::uint64_t bytes_of_environment(const std::string& directory) {
  const std::string text = variable(kBytes);
  if (text.empty())
    refuse(formatted("{} is {}, and needs {}: how much it may hold, for example 500GiB", std::string_view(kDirectory),
                     directory, std::string_view(kBytes)));
  const auto bytes = bytes_of_text(text);
  if (!bytes)
    refuse(formatted("{} must be a number of bytes, or text such as 2GiB, 512 MiB or 1.5GB (got {})",
                     std::string_view(kBytes), text));
  if (*bytes < DiskTierSizes::kLeastBytes)
    refuse(formatted("{} must be at least {} (got {})", std::string_view(kBytes), DiskTierSizes::kLeastBytes, text));
  return *bytes;
}

class EnvironmentTier {
 public:
  std::shared_ptr<DiskTier> find() {
    const Lock lock(mutex_);
    if (is_read_) return tier_;
    const std::string directory = variable(kDirectory);
    if (directory.empty() && !variable(kBytes).empty())
      refuse(formatted("{} needs a directory in {}", std::string_view(kBytes), std::string_view(kDirectory)));
    if (!directory.empty()) tier_ = make(directory);
    is_read_ = true;
    return tier_;
  }

  void finish() {
    const Lock lock(mutex_);
    if (tier_) tier_->finish();
  }

 private:
  static std::shared_ptr<DiskTier> make(const std::string& directory) {
    static const int registered = std::atexit([] { one_per_process<EnvironmentTier>().finish(); });
    static_cast<void>(registered);
    const std::uint64_t bytes = bytes_of_environment(directory);
    try {
      return std::make_shared<DiskTier>(DiskTierSettings{directory, false, disk_tier_sizes(bytes, kBuffers)});
    } catch (const Error& e) {
      throw Error(e).with_note(formatted("the directory is from {}", std::string_view(kDirectory)));
    }
  }

  Mutex mutex_;
  bool is_read_ DAMACY_GUARDED_BY(mutex_) = false;
  std::shared_ptr<DiskTier> tier_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<DiskTier> environment_disk_tier() {
  return one_per_process<EnvironmentTier>().find();
}

std::shared_ptr<Store> with_environment_tier(std::shared_ptr<Store> store) {
  if (!store || !store->is_remote()) return store;
  return make_cached_store(std::move(store), environment_disk_tier());
}

std::optional<std::uint64_t> bytes_of_text(std::string_view text) {
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (parsed.ec != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
  std::string unit(trimmed(text.substr(static_cast<std::size_t>(parsed.ptr - text.data()))));
  for (char& c : unit)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  double factor = 1;
  if (!unit.empty() && unit != "b") {
    const std::size_t power = std::string_view("kmgt").find(unit[0]);
    const std::string_view rest = std::string_view(unit).substr(1);
    if (power == std::string_view::npos || (rest != "b" && rest != "ib")) return std::nullopt;
    factor = std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  }
  const double bytes = std::floor(number * factor);
  if (bytes >= 0x1p63) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace damacy
