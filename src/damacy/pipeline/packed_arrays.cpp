#include "damacy/pipeline/packed_arrays.h"

#include <set>
#include <string>

#include "damacy/core/formatted.h"
#include "damacy/core/log.h"
#include "damacy/core/mutex.h"

namespace damacy {
namespace {

constexpr std::size_t kMostUris = 4096;  // with a warning

bool is_first(const std::string& uri) {
  struct Warned {
    Mutex mutex;
    std::set<std::string> uris DAMACY_GUARDED_BY(mutex);
  };
  static Warned& warned = *new Warned;  // never destroyed: threads may push while the process exits
  const Lock lock(warned.mutex);
  return warned.uris.size() < kMostUris && warned.uris.insert(uri).second;
}

}  // namespace

void warn_if_packed(const Array& array) {
  const std::string& packed_by = array.metadata().packed_by;
  if (packed_by.empty() || !is_first(array.uri())) return;
  log(LogLevel::warn,
      formatted("{}: stored values are delivered, packed by {}: ArraySpec(cf=True) unpacks, cf=False is silent",
                array.uri(), packed_by));
}

}  // namespace damacy
