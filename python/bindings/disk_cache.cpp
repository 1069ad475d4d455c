// The directory of a disk cache, for `damacy cache`. Knows which functions Python calls.
#include "disk_cache.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include <nanobind/stl/string.h>

#include "damacy/cache/disk/disk_report.h"
#include "damacy/store/storage_call.h"
#include "python_gate.h"

namespace damacy::python {
namespace {

// What the thread that works has done, for the one that waits.
struct Progress {
  std::atomic<std::uint64_t> visited{0}, segments{0};
  std::atomic<bool> goes_on{true};
};

// `work` gets what it reports to. The calling thread passes that on to `progress`, which is None or a function of the
// segments that were visited and of all. What this raises, and an interrupt, end the work.
template <class Work>
auto watched(const std::string& directory, const nb::object& progress, Work work) {
  const auto now = std::make_shared<Progress>();
  const auto report = [&progress, now] {
    if (progress.is_none()) return;
    const GilAcquire gil;
    progress(now->visited.load(), now->segments.load());
  };
  const StorageWaiting waiting{[&report, signals = signal_checker()] {
    if (signals) signals();
    report();
  }};
  const GilRelease unlocked;
  try {
    auto result = storage_result(
        [work = std::move(work), now] {
          return work([&now](std::uint64_t visited, std::uint64_t segments) {
            now->segments.store(segments);
            now->visited.store(visited);
            return now->goes_on.load();
          });
        },
        waiting);
    report();
    return result;
  } catch (Error& error) {
    now->goes_on.store(false);
    throw error.at_uri(directory);
  } catch (...) {
    now->goes_on.store(false);
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

nb::dict look_at(const std::string& directory, const std::string& prefix, bool verify, const nb::object& progress) {
  const DiskReport report = watched(directory, progress, [directory, prefix, verify](const DiskProgress& visited) {
    return look_at_disk_cache(directory, prefix, verify, visited);
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

nb::tuple clear(const std::string& directory, const std::string& prefix, const nb::object& progress) {
  const DiskCleared cleared = watched(directory, progress, [directory, prefix](const DiskProgress& visited) {
    return prefix.empty() ? clear_disk_cache(directory, visited) : clear_disk_cache(directory, prefix, visited);
  });
  return nb::make_tuple(cleared.segments, cleared.entries, cleared.bytes);
}

}  // namespace

void bind_disk_cache(nb::module_& m) {
  m.def("look_at_disk_cache", &look_at, nb::arg("directory"), nb::arg("prefix"), nb::arg("verify"),
        nb::arg("progress") = nb::none());
  m.def("clear_disk_cache", &clear, nb::arg("directory"), nb::arg("prefix"), nb::arg("progress") = nb::none(),
        "Returns the segments and the entries that were removed, and their bytes on the disk.");
}

}  // namespace damacy::python
