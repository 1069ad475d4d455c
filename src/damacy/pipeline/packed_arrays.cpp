#include "damacy/pipeline/packed_arrays.h"

#include <atomic>
#include <map>
#include <set>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/core/log.h"
#include "damacy/core/mutex.h"
#include "damacy/store/store.h"

namespace damacy {
namespace {

constexpr std::size_t kMostUris = 4096;  // with a warning; and that are noted

struct Packed {
  std::atomic<bool> any_noted = false;
  Mutex mutex;
  std::map<std::string, std::string> noted DAMACY_GUARDED_BY(mutex);  // by place
  std::set<std::string> warned DAMACY_GUARDED_BY(mutex);              // places
  std::vector<std::string> untold DAMACY_GUARDED_BY(mutex);

  // By what it is packed, the first time; else empty.
  std::string first_time(const Array& array) {
    const std::string place = place_of(array.uri());
    const Lock lock(mutex);
    std::string by = array.metadata().packed_by;
    if (by.empty())
      if (const auto found = noted.find(place); found != noted.end()) by = found->second;
    if (by.empty() || warned.size() >= kMostUris || !warned.insert(place).second) return {};
    return by;
  }
  // The same for all spellings of a uri that differ in the working directory or in slashes at the end.
  static std::string place_of(const std::string& uri) {
    std::string place = is_relative_path(uri) ? absolute_path(uri) : uri;
    while (place.size() > 1 && place.ends_with('/')) place.pop_back();
    return place;
  }
};

Packed& packed() {
  return one_per_process<Packed>();
}

}  // namespace

void warn_if_packed(const Array& array) {
  Packed& all = packed();
  const bool may_be_noted = array.metadata().zarr_format == 2 && all.any_noted;
  if (array.metadata().packed_by.empty() && !may_be_noted) return;
  const std::string by = all.first_time(array);
  if (by.empty()) return;
  const std::string warning = one_line(
      formatted("{}: stored values are delivered, packed by {}: ArraySpec(cf=True) unpacks, cf=False is silent",
                array.uri(), by),
      Limits::error_text_bytes);
  {
    const Lock lock(all.mutex);
    all.untold.push_back(warning);
  }
  log(LogLevel::warn, warning);  // after it was queued: its record makes Python look for warnings
}

void note_packed(const std::string& uri, std::string_view packed_by) {
  Packed& all = packed();
  const Lock lock(all.mutex);
  if (all.noted.size() >= kMostUris) return;
  all.noted.insert_or_assign(Packed::place_of(uri), packed_by);
  all.any_noted = true;
}

std::vector<std::string> take_packed_warnings() {
  Packed& all = packed();
  const Lock lock(all.mutex);
  return std::exchange(all.untold, {});
}

}  // namespace damacy
