// The bounded queue of native log records for Python's logging. Native threads never wait for it.
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/log.h"
#include "damacy/core/mutex.h"
#include "damacy/pipeline/packed_arrays.h"

namespace damacy::python {
namespace {

constexpr std::size_t kCapacity = 1024;

struct Queue {
  Mutex mutex;
  std::vector<std::pair<LogLevel, std::string>> records DAMACY_GUARDED_BY(mutex);
  std::size_t dropped DAMACY_GUARDED_BY(mutex) = 0;
};

Queue& queue() {
  static Queue* one = new Queue;  // never destroyed: threads may log while the process exits
  return *one;
}

const std::uint64_t made_in = fork_epoch();

void keep(LogLevel level, std::string_view line) {
  if (fork_epoch() != made_in) return;
  Queue& to = queue();
  const Lock lock(to.mutex);
  if (to.records.size() >= kCapacity)
    ++to.dropped;
  else
    to.records.emplace_back(level, line);
}

nb::list drain() {
  if (fork_epoch() != made_in) return {};  // a copy of the parent's queue, whose lock may stay locked forever
  log_summaries();
  Queue& from = queue();
  std::vector<std::pair<LogLevel, std::string>> taken;
  std::size_t dropped = 0;
  {
    const Lock lock(from.mutex);
    taken.swap(from.records);
    std::swap(dropped, from.dropped);
  }
  nb::list out;
  for (const auto& [level, line] : taken) out.append(nb::make_tuple(static_cast<int>(level), line));
  if (dropped > 0)
    out.append(nb::make_tuple(static_cast<int>(LogLevel::warn),
                              formatted("{} log records were dropped: the queue was full", dropped)));
  return out;
}

}  // namespace

void bind_log(nb::module_& m) {
  set_log_listener(keep);
  m.def("drain_log_records", &drain, "The records since the last call, as a list of (level, text).");
  m.def(
      "note_packed", [](const std::string& uri, const std::string& packed_by) { note_packed(uri, packed_by); },
      nb::arg("uri"), nb::arg("packed_by"), "Of a v2 array, by attributes that batches do not read.");
  m.def("take_packed_warnings", &take_packed_warnings, "The warnings of packed arrays since the last call.");
  m.def("set_log_level", [](int level) { set_log_level(static_cast<LogLevel>(level)); }, nb::arg("level"));
  m.def("set_log_quiet", &set_log_quiet, nb::arg("quiet"));
}

}  // namespace damacy::python
