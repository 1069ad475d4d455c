#include "damacy/pipeline/packed_arrays.h"

#include <atomic>
#include <map>
#include <set>
#include <utility>

#include "damacy/core/formatted.h"
#include "damacy/core/log.h"
#include "damacy/core/mutex.h"
#include "damacy/store/store.h"

namespace damacy {
namespace {

constexpr std::size_t kMostUris = 4096;  // with a warning; and that are noted

struct Packed {
  std::atomic<bool> any_noted = false;
  Mutex mutex;
  std::map<std::string, std::string> noted DAMACY_GUARDED_BY(mutex);  // by absolute uri
  std::set<std::string> warned DAMACY_GUARDED_BY(mutex);
  std::vector<std::string> untold DAMACY_GUARDED_BY(mutex);

  // By what it is packed, the first time; else empty.
  std::string first_time(const Array& array) {
    const Lock lock(mutex);
    std::string by = array.metadata().packed_by;
    if (by.empty())
      if (const auto found = noted.find(absolute(array.uri())); found != noted.end()) by = found->second;
    if (by.empty() || warned.size() >= kMostUris || !warned.insert(array.uri()).second) return {};
    return by;
  }
  static std::string absolute(const std::string& uri) { return is_relative_path(uri) ? absolute_path(uri) : uri; }
};

Packed& packed() {
  static Packed& all = *new Packed;  // never destroyed: threads may push while the process exits
  return all;
}

}  // namespace

void warn_if_packed(const Array& array) {
  Packed& all = packed();
  const bool may_be_noted = array.metadata().zarr_format == 2 && all.any_noted;
  if (array.metadata().packed_by.empty() && !may_be_noted) return;
  const std::string by = all.first_time(array);
  if (by.empty()) return;
  std::string warning = formatted(
      "{}: stored values are delivered, packed by {}: ArraySpec(cf=True) unpacks, cf=False is silent", array.uri(), by);
  log(LogLevel::warn, warning);
  const Lock lock(all.mutex);
  all.untold.push_back(std::move(warning));
}

void note_packed(const std::string& uri, std::string_view packed_by) {
  Packed& all = packed();
  const Lock lock(all.mutex);
  if (all.noted.size() >= kMostUris) return;
  all.noted.insert_or_assign(Packed::absolute(uri), packed_by);
  all.any_noted = true;
}

std::vector<std::string> take_packed_warnings() {
  Packed& all = packed();
  const Lock lock(all.mutex);
  return std::exchange(all.untold, {});
}

}  // namespace damacy
