// File I/O settings, workers, counters, engines and page cache of the process.
#include <chrono>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/types.h>
#include <unistd.h>

#include "cufile.h"
#include "damacy/core/formatted.h"
#include "damacy/fileio/cufile_api.h"
#include "damacy/fileio/engine_choice.h"
#include "damacy/fileio/io_pool.h"
#include "damacy/fileio/io_settings.h"
#include "damacy/fileio/page_cache.h"
#include "damacy/fileio/staging.h"

namespace damacy::python {
namespace {

nb::dict settings_dict() {
  const IoSettings& s = io_settings();
  nb::dict out;
  out["compat_mode"] = static_cast<int>(s.compat_mode);
  out["num_threads"] = s.num_threads;
  out["task_size"] = s.task_size;
  out["gds_threshold"] = s.gds_threshold;
  out["bounce_buffer_size"] = s.bounce_buffer_size;
  out["auto_direct_io_read"] = direct_object(s.auto_direct_io_read);
  out["auto_direct_io_write"] = direct_object(s.auto_direct_io_write);
  out["http_max_attempts"] = s.http_max_attempts;
  out["http_timeout"] = s.http_timeout;
  nb::list codes;
  for (const auto code : s.http_status_codes) codes.append(code);
  out["http_status_codes"] = codes;
  out["engine"] = std::string(name_of(s.engine));
  out["auto_threads"] = s.auto_threads;
  out["queue_depth"] = s.queue_depth;
  out["pinned_limit"] = s.pinned_limit;
  out["coalesce_gap"] = s.coalesce_gap;
  out["num_threads_set"] = s.num_threads_set;
  return out;
}

DirectIo direct_of(nb::handle value) {
  if (PyBool_Check(value.ptr())) return value.ptr() == Py_True ? DirectIo::on : DirectIo::off;
  return DirectIo::automatic;
}

// Applies values that damacy.defaults has checked.
void change_settings(const nb::dict& values) {
  change_io_settings([&](IoSettings& s) {
    const auto number = [&](const char* name, std::uint64_t& into) {
      if (values.contains(name)) into = nb::cast<std::uint64_t>(values[name]);
    };
    if (values.contains("compat_mode")) s.compat_mode = static_cast<CompatMode>(nb::cast<int>(values["compat_mode"]));
    number("num_threads", s.num_threads);
    if (values.contains("num_threads")) s.num_threads_set = true;
    if (values.contains("num_threads_set")) s.num_threads_set = nb::cast<bool>(values["num_threads_set"]);
    number("task_size", s.task_size);
    number("gds_threshold", s.gds_threshold);
    number("bounce_buffer_size", s.bounce_buffer_size);
    if (values.contains("auto_direct_io_read")) s.auto_direct_io_read = direct_of(values["auto_direct_io_read"]);
    if (values.contains("auto_direct_io_write")) s.auto_direct_io_write = direct_of(values["auto_direct_io_write"]);
    number("http_max_attempts", s.http_max_attempts);
    number("http_timeout", s.http_timeout);
    if (values.contains("http_status_codes"))
      s.http_status_codes = nb::cast<std::vector<std::int64_t>>(values["http_status_codes"]);
    if (values.contains("engine"))
      s.engine = parse_engine(nb::cast<std::string>(values["engine"])).value_or(EngineChoice::automatic);
    number("auto_threads", s.auto_threads);
    number("queue_depth", s.queue_depth);
    number("pinned_limit", s.pinned_limit);
    number("coalesce_gap", s.coalesce_gap);
  });
}

void end_with_python() {
  const GilRelease unlocked;
  IoPool::process().shut_down(std::chrono::milliseconds(4500));
  PythonAccess::end(std::chrono::milliseconds(500));  // a user's callback that takes longer is not waited for
}

nb::dict cufile_probe_dict() {
  const auto& library = *without_gil([] { return &cufile::process_library(); });
  nb::list tried;
  for (const auto& [name, outcome] : library.tried) tried.append(nb::make_tuple(name, outcome));
  nb::dict out;
  out["usable"] = library.loaded;
  out["library"] = library.name;
  out["version"] = library.version;
  out["reason"] = library.why;
  out["tried"] = tried;
  return out;
}

ssize_t plain_pread(int fd, nb::handle buf, nb::handle size, nb::handle file_offset) {
  const BufferView view(buf, PyBUF_WRITABLE);
  const std::uint64_t bytes = size_within(size, view.bytes().size());
  const std::uint64_t offset = natural(file_offset, "file_offset", 0);
  const GilRelease unlocked;
  return ::pread(fd, view.bytes().data(), bytes, static_cast<off_t>(offset));
}

void register_memory(nb::handle buf, bool registers) {
  HeldBuffer held;
  held.take(buf, nb::none());
  const GilRelease unlocked;
  if (registers)
    register_with_cufile(held.memory());
  else
    deregister_from_cufile(held.memory());
}

nb::tuple cached_pages_tuple(int fd, nb::handle offset, nb::handle length) {
  const std::uint64_t from = natural(offset, "offset", 0), size = natural(length, "length", 0);
  const CachedPages found = without_gil([&] { return cached_pages(fd, from, size); });
  return nb::make_tuple(found.resident, found.total);
}

void drop_pages(int fd, nb::handle offset, nb::handle length, bool sync_first) {
  const std::uint64_t from = natural(offset, "offset", 0), size = natural(length, "length", 0);
  const GilRelease unlocked;
  drop_cached_pages(fd, from, size, sync_first);
}

}  // namespace

nb::object direct_object(DirectIo value) {
  if (value == DirectIo::automatic) return nb::str("auto");
  return nb::bool_(value == DirectIo::on);
}

nb::dict counters_dict(const IoCounters& c) {
  nb::dict out;
  for (std::size_t way = 0; way < kIoWays; ++way) {
    for (std::size_t d = 0; d < 2; ++d) {
      const std::string name = formatted("{}{}", kIoWayNames[way], d == 0 ? "_read" : "_write");
      out[nb::str(formatted("{}_bytes", name).c_str())] = c.traffic[way][d].bytes.load();
      out[nb::str(formatted("{}_calls", name).c_str())] = c.traffic[way][d].calls.load();
    }
  }
  out["parts"] = c.parts.load();
  out["short_reads"] = c.short_reads.load();
  out["retries"] = c.retries.load();
  out["resident_bytes"] = c.resident_bytes.load();
  out["cold_bytes"] = c.cold_bytes.load();
  out["copies"] = c.copies.load();
  out["copy_batches"] = c.copy_batches.load();
  out["host_waits"] = c.host_waits.load();
  out["pinned_bytes"] = c.pinned_bytes.load();
  nb::list histogram;
  for (const auto& count : c.part_us_log2) histogram.append(count.load());
  out["part_us_log2"] = histogram;
  out["workers"] = IoPool::process().workers();
  return out;
}

void bind_io_process(nb::module_& m) {
  m.def(
      "cufile_look_in", [](std::vector<std::string> packages) { cufile::set_packages(std::move(packages)); },
      nb::arg("packages"), "Folders of Python packages that may contain libcufile.");
  m.def("cufile_preference", [] {
    const auto& found = *without_gil([] { return &cufile::compat_preference(); });
    return nb::make_tuple(found.compat, found.why);
  });
  m.def("cufile_probe", &cufile_probe_dict);
  m.def("io_uring_probe", [] {
    const auto& probe = *without_gil([] { return &probe_uring(); });
    nb::dict out;
    out["usable"] = probe.usable;
    out["reason"] = probe.why;
    return out;
  });
  m.def("io_settings", &settings_dict, "The current settings of file I/O.");
  m.def("io_change_settings", &change_settings, nb::arg("values"));
  m.def("io_pause", [](bool paused) { IoPool::process().pause(paused); }, nb::arg("paused"));
  m.def("io_paused", [] { return IoPool::process().paused(); });
  m.def("io_replace_workers", [] {
    const GilRelease unlocked;
    IoPool::process().replace_workers();
  });
  m.def("plain_pread", &plain_pread, nb::arg("fd"), nb::arg("buf"), nb::arg("size").none() = nb::none(),
        nb::arg("file_offset") = 0, "Only a pread: the minimum cost of a bound function, for the benchmark.");
  m.def("dlpack_memory", &dlpack_memory, nb::arg("capsule"));
  m.def("io_register_memory", &register_memory, nb::arg("buf"), nb::arg("registers"));
  m.def("free_staging", [] { return StagingPool::process().free_idle(); }, nb::call_guard<GilRelease>());
  m.def("cached_pages", &cached_pages_tuple, nb::arg("fd"), nb::arg("offset"), nb::arg("length"));
  m.def("drop_cached_pages", &drop_pages, nb::arg("fd"), nb::arg("offset"), nb::arg("length"), nb::arg("sync_first"));
  m.def("io_counters", [] { return counters_dict(process_counters()); });
  m.def("io_end_with_python", &end_with_python);
}

}  // namespace damacy::python
