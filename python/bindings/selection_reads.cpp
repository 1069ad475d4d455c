// Single reads of stored objects for damacy.zarr: array documents, stores, and jobs that signal an eventfd when they
// end. The caller's event loop watches it, so that native threads never take the GIL.
#include <algorithm>
#include <map>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bindings.h"
#include "buffer_view.h"
#include "damacy/cache/disk/environment_tier.h"
#include "damacy/copy/device_queue.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/core/mutex.h"
#include "damacy/single/array_read.h"
#include "damacy/single/process_readers.h"
#include "damacy/single/selection_plan.h"
#include "damacy/single/selection_read.h"
#include "damacy/store/mounts.h"
#include "python_gate.h"
#include "remote_options.h"
#include "selections.h"

namespace damacy::python {
namespace {

constexpr std::size_t kOpenFiles = 256;

class EventFd {
 public:
  EventFd() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (fd_ < 0) throw Error(Status::io, formatted("eventfd failed: errno {}", errno), "io").with_errno(errno);
  }
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;
  ~EventFd() { ::close(fd_); }
  int fd() const { return fd_; }
  void signal(std::uint64_t who) noexcept {
    {
      const Lock lock(mutex_);
      ended_.push_back(who);
    }
    const std::uint64_t one = 1;
    static_cast<void>(!::write(fd_, &one, sizeof one));
  }
  std::vector<std::uint64_t> take() {
    std::uint64_t count = 0;
    static_cast<void>(!::read(fd_, &count, sizeof count));
    const Lock lock(mutex_);
    return std::exchange(ended_, {});
  }

 private:
  int fd_;
  Mutex mutex_;
  std::vector<std::uint64_t> ended_ DAMACY_GUARDED_BY(mutex_);
};

// Bytes that another store delivered: whole objects, or parts of them. Their owner keeps them until release().
class GivenObject final : public Object {
 public:
  explicit GivenObject(std::string key) : key_(std::move(key)) {}
  const Stamp& stamp() const noexcept override { return stamp_; }
  void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
    auto at = pieces_.upper_bound(offset);
    if (at != pieces_.begin()) --at;
    if (at == pieces_.end() || at->first > offset || offset - at->first + dst.size() > at->second.size()) {
      const std::uint64_t got = at == pieces_.end() || at->first > offset || offset - at->first > at->second.size()
                                    ? 0
                                    : at->second.size() - (offset - at->first);
      throw Error(Status::io, formatted("short read: {} of {} bytes", got, dst.size()), "short-read")
          .at_key(key_)
          .at_bytes(offset, offset + dst.size());
    }
    std::ranges::copy(at->second.subspan(offset - at->first, dst.size()), dst.begin());
  }
  void put(std::uint64_t offset, std::span<const std::byte> bytes, std::uint64_t size) {
    pieces_[offset] = bytes;
    stamp_.size = size;
  }

 private:
  std::string key_;
  Stamp stamp_;
  std::map<std::uint64_t, std::span<const std::byte>> pieces_;
};

class PrefetchedStore final : public Store {
 public:
  explicit PrefetchedStore(std::string name) : name_(std::move(name)) {}
  PrefetchedStore(const PrefetchedStore&) = delete;
  PrefetchedStore& operator=(const PrefetchedStore&) = delete;
  std::string name() const override { return name_; }
  std::shared_ptr<Object> open(std::string_view key) override {
    const auto at = objects_.find(key);
    return at == objects_.end() ? nullptr : at->second;
  }
  std::optional<Stamp> stamp(std::string_view) override { return std::nullopt; }
  std::vector<Entry> list(std::string_view) override { return {}; }

  void put(const std::string& key, std::uint64_t offset, nb::object bytes, std::uint64_t size) {
    const BufferView& view = views_.emplace_back(bytes, PyBUF_SIMPLE);
    auto& object = objects_[key];
    if (!object) object = std::make_shared<GivenObject>(key);
    object->put(offset, view.bytes(), size);
  }
  void release() { views_.clear(); }

 private:
  std::string name_;
  std::map<std::string, std::shared_ptr<GivenObject>, std::less<>> objects_;
  std::vector<BufferView> views_;
};

std::span<const std::byte> bytes_of(const nb::bytes& bytes) {
  return std::as_bytes(std::span(bytes.c_str(), bytes.size()));
}

void construct(SelectionPlan* at, std::shared_ptr<const Array> array, std::uint64_t address,
               std::vector<std::int64_t> shape, std::vector<std::int64_t> strides, bool swap, const nb::bytes& fill,
               std::vector<std::int64_t> drop_axes) {
  new (at) SelectionPlan(std::move(array), {address, std::move(shape), std::move(strides), swap}, bytes_of(fill),
                         std::move(drop_axes));
}

// False if this form of selection is not supported.
bool add(SelectionPlan& plan, const std::string& key, nb::handle chunk_selection, nb::handle out_selection) {
  const auto from = index_of(chunk_selection);
  const auto to = index_of(out_selection);
  return from && to && plan.add(key, from->entries, to->entries);
}

nb::bytes of_items(const SelectionPlan& plan, const nb::bytes& by_selection) {
  const std::string found = plan.of_items({by_selection.c_str(), by_selection.size()});
  return nb::bytes(found.data(), found.size());
}

nb::list ranges(const SelectionPlan& plan, const std::string& key, const nb::bytes& index, std::uint64_t gap,
                std::uint64_t cap) {
  nb::list out;
  for (const MergedRead& read : plan.ranges(key, bytes_of(index), gap, cap))
    out.append(nb::make_tuple(read.offset, read.size));
  return out;
}

std::shared_ptr<ChunkTier> cache_of(std::uint64_t bytes) {
  const GilRelease unlocked;
  return process_readers().cache_of(bytes);
}

std::shared_ptr<SelectionRead> start(SelectionPlan& plan, std::shared_ptr<Store> store, bool keeps_indices,
                                     std::size_t threads, std::shared_ptr<EventFd> event_fd, std::uint64_t number,
                                     DeviceWaves* reads, DeviceQueue* queue, std::uint64_t cache_bytes) {
  std::shared_ptr<ChunkTier> cache = reads == nullptr && keeps_indices ? cache_of(cache_bytes) : nullptr;
  SelectionRequest request = plan.take();
  request.store = std::move(store);
  request.keeps_indices = keeps_indices;
  request.cache = std::move(cache);
  request.device = reads;  // it lives as long as the process
  if (queue != nullptr) {
    const GilRelease unlocked;
    request.after.push_back(queue->record());
  }
  auto read = std::make_shared<SelectionRead>(*process_readers().with_threads(threads), std::move(request),
                                              [event_fd = std::move(event_fd), number] { event_fd->signal(number); });
  const GilRelease unlocked;
  read->start();
  return read;
}

using Counter = std::pair<const char*, std::atomic<std::int64_t> ReadCounters::*>;
constexpr Counter kCounters[] = {{"reads", &ReadCounters::reads},
                                 {"items", &ReadCounters::items},
                                 {"chunks_decoded", &ReadCounters::chunks_decoded},
                                 {"chunks_missing", &ReadCounters::chunks_missing},
                                 {"stored_bytes", &ReadCounters::stored_bytes},
                                 {"decoded_bytes", &ReadCounters::decoded_bytes},
                                 {"index_hits", &ReadCounters::index_hits},
                                 {"index_misses", &ReadCounters::index_misses},
                                 {"cache_hits", &ReadCounters::cache_hits},
                                 {"cache_misses", &ReadCounters::cache_misses}};

nb::dict counters() {
  nb::dict out;
  for (const auto& [name, counter] : kCounters) {
    std::int64_t sum = 0;
    for (const auto& one : process_readers().all()) sum += one->counters().*counter;
    out[name] = sum;
  }
  return out;
}

struct StoreFiles {
  std::shared_ptr<OpenFiles> files = make_open_files(kOpenFiles);
};

void bind_stores(nb::module_& m) {
  nb::class_<Store>(m, "Store").def_prop_ro("name", &Store::name);
  m.def(
      "remote_store",
      [](const std::string& uri, const nb::dict& fields) {
        gate().drop_now();
        const StoreOptions options = store_options_of(fields);
        return without_gil([&] { return with_environment_tier(store_with_options(uri, options)); });
      },
      nb::arg("uri"), nb::arg("fields"), "The objects below an http, https or s3 uri, whatever is mounted for it.");
  m.def(
      "file_store", [](const std::string& root) { return make_file_store(root, one_per_process<StoreFiles>().files); },
      nb::arg("root"), "The store of a directory. All such stores share the cache of open files.");
  nb::class_<PrefetchedStore, Store>(m, "PrefetchedStore")
      .def(nb::init<std::string>(), nb::arg("name"))
      .def("put", &PrefetchedStore::put, nb::arg("key"), nb::arg("offset"), nb::arg("content"), nb::arg("size"))
      .def("release", &PrefetchedStore::release);
}

}  // namespace

void bind_selection_reads(nb::module_& m) {
  bind_stores(m);
  nb::class_<EventFd>(m, "EventFd").def(nb::init<>()).def_prop_ro("fd", &EventFd::fd).def("take", &EventFd::take);
  nb::class_<Array>(m, "StoredArray")
      .def_prop_ro("shape", [](const Array& a) { return tuple_of(a.metadata().shard_shape); })
      .def_prop_ro("itemsize", [](const Array& a) { return size_of(a.metadata().dtype); })
      .def_prop_ro("index_bytes", &index_bytes)
      .def_prop_ro("index_at_end",
                   [](const Array& a) { return !a.metadata().shards.empty() && a.metadata().shards[0].index.at_end; });
  m.def(
      "stored_array",
      [](const std::string& uri, const nb::bytes& document, int zarr_format) {
        return stored_array(uri, {document.c_str(), document.size()}, zarr_format);
      },
      nb::arg("uri"), nb::arg("document"), nb::arg("zarr_format"));
  nb::class_<SelectionRead>(m, "SelectionRead")
      .def("cancel", &SelectionRead::cancel)
      .def("missing", [](const SelectionRead& read) {
        if (read.failure()) throw *read.failure();
        return nb::bytes(read.missing().data(), read.missing().size());
      });
  nb::class_<SelectionPlan>(m, "SelectionPlan")
      .def("__init__", &construct, nb::arg("array"), nb::arg("address"), nb::arg("shape"), nb::arg("strides"),
           nb::arg("swap"), nb::arg("fill"), nb::arg("drop_axes"))
      .def("of_items", &of_items, nb::arg("by_selection"))
      .def("add", &add, nb::arg("key"), nb::arg("chunk_selection"), nb::arg("out_selection"))
      .def("ranges", &ranges, nb::arg("key"), nb::arg("index"), nb::arg("gap"), nb::arg("cap"))
      .def_prop_ro_static("unknown_size", [](nb::handle) { return SelectionPlan::kUnknownSize; })
      .def("start", &start, nb::arg("store"), nb::arg("keeps_indices"), nb::arg("threads"), nb::arg("event_fd"),
           nb::arg("number"), nb::arg("reads").none() = nb::none(), nb::arg("queue").none() = nb::none(),
           nb::arg("cache_bytes") = 0);
  m.def("read_counters", &counters);
  m.def("reset_read_counters", [] {
    for (const auto& one : process_readers().all()) one->counters().reset();
  });
  m.def(
      "make_read_cache", [](std::uint64_t cache_bytes) { static_cast<void>(cache_of(cache_bytes)); },
      nb::arg("cache_bytes"),
      "Makes the cache of reads that are started with that size, and drops one of another size.");
  m.def(
      "set_read_cache",
      [](std::uint64_t cache_bytes) {
        const GilRelease unlocked;
        set_read_cache(cache_bytes);
      },
      nb::arg("cache_bytes"), "Makes the cache of that size, for reads that are started without a size.");
  m.def("read_cache_setting", &read_cache_setting, "The size that set_read_cache() set last.");
  m.def(
      "read_cache_bytes", [] { return process_readers().cache_bytes(); },
      "The size of the cache that make_read_cache() or a read made in this process; 0: there is none.");
  m.def("forget_index", [](const std::string& store, const std::string& key) {
    process_readers().indices().drop(formatted("{}\0{}", store, key));
  });
  m.def("abandon_overdue_reads", [] {
    const auto all = process_readers().all();
    const GilRelease unlocked;
    for (const auto& one : all) one->threads().abandon_overdue();
  });
  m.def("stop_reads", [] {
    const auto all = process_readers().all();
    const GilRelease unlocked;
    for (const auto& one : all) one->threads().stop(nullptr);
    stop_device_reads();
  });
}

}  // namespace damacy::python
