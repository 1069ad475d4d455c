// The directory of a disk cache, for `damacy cache`. Knows which functions Python calls.
#include "disk_cache.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include <nanobind/stl/string.h>

#include "damacy/cache/disk/disk_report.h"
#include "python_gate.h"

namespace damacy::python {
namespace {

// `work` gets what it asks whether to go on; an interrupt ends it.
template <class Work>
auto interruptible(const std::string& directory, Work work) {
  const auto goes_on = std::make_shared<std::atomic<bool>>(true);
  try {
    return call_without_gil(directory,
                            [work = std::move(work), goes_on] { return work([&goes_on] { return goes_on->load(); }); });
  } catch (...) {
    goes_on->store(false);
    throw;
  }
}

nb::list stores_of(const DiskReport& report) {
  nb::list out;
  for (const auto& [uri, share] : report.stores) {
    nb::dict store;
    store["uri"] = str_of(uri);
    store["entries"] = share.entries;
    store["entry_bytes"] = share.entry_bytes;
    store["uses"] = share.uses;
    out.append(store);
  }
  return out;
}

nb::dict look_at(const std::string& directory, const std::string& prefix, bool verify) {
  const DiskReport report = interruptible(directory, [directory, prefix, verify](const auto& goes_on) {
    return look_at_disk_cache(directory, prefix, verify, goes_on);
  });
  nb::dict out;
  out["path"] = str_of(report.path);
  out["segments"] = report.segments;
  out["segment_bytes"] = report.segment_bytes;
  out["file_bytes"] = report.file_bytes;
  out["entries"] = report.entries;
  out["entry_bytes"] = report.entry_bytes;
  out["stores"] = stores_of(report);
  out["unnamed"] = report.unnamed;
  out["uses"] = report.uses;
  out["hints"] = report.hints;
  out["checked"] = report.checked;
  out["damaged"] = report.damaged;
  return out;
}

nb::tuple clear(const std::string& directory, const std::string& prefix) {
  const DiskCleared cleared = interruptible(directory, [directory, prefix](const auto& goes_on) {
    return prefix.empty() ? clear_disk_cache(directory) : clear_disk_cache(directory, prefix, goes_on);
  });
  return nb::make_tuple(cleared.segments, cleared.entries, cleared.bytes);
}

}  // namespace

void bind_disk_cache(nb::module_& m) {
  m.def("look_at_disk_cache", &look_at, nb::arg("directory"), nb::arg("prefix"), nb::arg("verify"));
  m.def("clear_disk_cache", &clear, nb::arg("directory"), nb::arg("prefix"),
        "Returns the segments and the entries that were removed, and their bytes on the disk.");
}

}  // namespace damacy::python
