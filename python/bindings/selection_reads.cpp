// Single reads of stored objects for damacy.zarr: array documents, stores, and jobs that ring a bell when they end. No
// native thread takes the GIL: a bell is a file descriptor that the caller's event loop watches.
#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bindings.h"
#include "buffer_view.h"
#include "damacy/copy/device_queue.h"
#include "damacy/core/coalesce.h"
#include "damacy/core/fork.h"
#include "damacy/core/limits.h"
#include "damacy/core/text.h"
#include "damacy/single/selection_read.h"
#include "selections.h"

namespace damacy::python {
namespace {

constexpr std::size_t kOpenFiles = 256;

// The threads of this process, one set for each number of them that was asked for. They stay: a read may let go of
// them on one of their own.
class Workers {
 public:
  std::shared_ptr<ReadWorkers> get(std::size_t threads) {
    leave_parents();
    auto& found = by_threads_[std::max<std::size_t>(threads, 1)];
    if (!found) found = std::make_shared<ReadWorkers>(std::max<std::size_t>(threads, 1), indices_);
    return found;
  }
  std::vector<std::shared_ptr<ReadWorkers>> all() {
    leave_parents();
    std::vector<std::shared_ptr<ReadWorkers>> found;
    for (const auto& [threads, one] : by_threads_) found.push_back(one);
    return found;
  }
  IndexCache& indices() {
    leave_parents();
    return indices_;
  }

 private:
  // A forked child has none of its parent's threads and cannot join them.
  void leave_parents() {
    if (epoch_ == fork_epoch()) return;
    static_cast<void>(new auto(std::move(by_threads_)));
    static_cast<void>(new auto(std::move(indices_)));
    by_threads_.clear();
    indices_ = IndexCache();
    epoch_ = fork_epoch();
  }

  std::uint64_t epoch_ = fork_epoch();
  IndexCache indices_;
  std::map<std::size_t, std::shared_ptr<ReadWorkers>> by_threads_;
};

Workers& workers() {                        // with the GIL
  static Workers* const all = new Workers;  // threads may outlive static objects
  return *all;
}

class Bell {
 public:
  Bell() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (fd_ < 0) throw Error(Status::io, text("no event descriptor: errno ", errno), "io").with_errno(errno);
  }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  ~Bell() { ::close(fd_); }
  int fd() const { return fd_; }
  void ring(std::uint64_t who) noexcept {
    {
      const std::lock_guard lock(mutex_);
      ended_.push_back(who);
    }
    const std::uint64_t one = 1;
    static_cast<void>(!::write(fd_, &one, sizeof one));
  }
  std::vector<std::uint64_t> take() {
    std::uint64_t count = 0;
    static_cast<void>(!::read(fd_, &count, sizeof count));
    const std::lock_guard lock(mutex_);
    return std::exchange(ended_, {});
  }

 private:
  int fd_;
  std::mutex mutex_;
  std::vector<std::uint64_t> ended_;
};

// Bytes that another store gave: whole objects, or pieces of them. The owner of the bytes keeps them until release().
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
      throw Error(Status::io, text("short read: ", got, " of ", dst.size(), " bytes"), "short-read")
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

class GivenStore final : public Store {
 public:
  explicit GivenStore(std::string name) : name_(std::move(name)) {}
  GivenStore(const GivenStore&) = delete;
  GivenStore& operator=(const GivenStore&) = delete;
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

// An array as large as one of its stored objects: what a read needs to know whatever the array's shape is now.
std::shared_ptr<const Array> stored_array(const std::string& uri, nb::bytes document, int zarr_format) {
  const std::string_view text(document.c_str(), document.size());
  ArrayMetadata metadata = zarr_format == 3 ? parse_v3_array(text) : parse_v2_array(text);
  metadata.shape = metadata.shard_shape;
  return std::make_shared<const Array>(uri, nullptr, "", "", Stamp{}, std::move(metadata), std::vector<std::string>{});
}

// Of the index that leads to chunks by itself; 0: there is none, and another store is asked for the whole object.
std::uint64_t index_bytes(const Array& array) {
  const auto& shards = array.metadata().shards;
  const bool is_plain = shards.size() == 1 && shards[0].codecs.codecs().empty();
  return is_plain ? ShardIndex::encoded_bytes(array.entries_of(0), shards[0].index) : 0;
}

// The read in the making; lives with the GIL.
class Plan {
 public:
  Plan(std::shared_ptr<const Array> array, std::uint64_t address, std::vector<std::int64_t> shape,
       std::vector<std::int64_t> strides, bool swap_out, nb::bytes fill, std::vector<std::int64_t> drop_axes)
      : drop_axes_(std::move(drop_axes)) {
    const std::size_t element = size_of(array->metadata().dtype);
    if (fill.size() != element) throw Error(Status::inval, "a fill element of the wrong size", "arguments");
    std::int64_t low = 0;
    std::int64_t high = static_cast<std::int64_t>(element);
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] < 1) continue;
      const std::int64_t reach = (shape[i] - 1) * strides[i];
      (reach < 0 ? low : high) += reach;
    }
    layout_ = {std::move(shape), std::move(strides), -low};
    auto* const first = reinterpret_cast<std::byte*>(address) + low;  // NOLINT(performance-no-int-to-ptr)
    request_.out = {first, static_cast<std::size_t>(high - low)};
    request_.swap_out = swap_out;
    std::copy_n(reinterpret_cast<const std::byte*>(fill.c_str()), element, request_.fill.begin());
    request_.object = std::move(array);
  }

  // False: a form of selection that is not known here.
  bool add(const std::string& key, nb::handle chunk_selection, nb::handle out_selection) {
    const Dims& shape = request_.object->metadata().shard_shape;
    firsts_.push_back(static_cast<std::uint32_t>(request_.items.size()));
    if (auto runs = runs_of(chunk_selection, out_selection, shape, layout_, drop_axes_)) {
      add(key, std::move(*runs));
      return true;
    }
    auto points = drop_axes_.empty() ? runs_of_points(chunk_selection, out_selection, shape, layout_) : std::nullopt;
    if (!points) return false;
    for (auto& runs : *points) add(key, std::move(runs));
    return true;
  }

  // Of what the read says of each of its selections, what concerns the items that were added.
  nb::bytes of_items(nb::bytes by_selection) const {
    std::string found;
    for (const std::uint32_t first : firsts_) found.push_back(by_selection.c_str()[first]);
    return nb::bytes(found.data(), found.size());
  }

  // What of the shard `key` is wanted, given its index: ranges to fetch, neighbours together.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges(const std::string& key, nb::bytes index,
                                                              std::uint64_t gap, std::uint64_t cap) const {
    const Array& array = *request_.object;
    ShardIndex::Rules rules{
        .object_bytes = kUnknownSize, .max_chunk_bytes = array.max_encoded_chunk_bytes(), .exact_chunk_bytes = {}};
    if (array.metadata().codecs.fixed_size())
      rules.exact_chunk_bytes = array.metadata().codecs.fixed_encoded_size(array.metadata().chunk_bytes());
    if (index.size() != index_bytes(array))
      throw Error(Status::io, text("short read: ", index.size(), " of ", index_bytes(array), " bytes of the index"),
                  "short-read")
          .at_key(key);
    const ShardIndex parsed = ShardIndex::parse(std::as_bytes(std::span(index.c_str(), index.size())),
                                                array.entries_of(0), array.metadata().shards[0].index, rules);
    std::vector<Piece> pieces;
    for (const std::uint32_t number : by_key_.at(key)) {
      const SplitSelection parts(request_.items[number].axes, array.metadata().chunk_shape);
      for (std::int64_t part = 0; part < parts.size(); ++part)
        if (const auto range = parsed.find(array.index_in_shard(parts.chunk_of(part))))
          pieces.push_back({range->begin, range->size()});
    }
    std::ranges::sort(pieces, {}, &Piece::offset);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
    for (const MergedRead& read : coalesce(pieces, gap, cap)) found.emplace_back(read.offset, read.size);
    return found;
  }
  static constexpr std::uint64_t kUnknownSize = std::uint64_t{1} << 62;

  SelectionRequest take() { return std::move(request_); }

 private:
  void add(const std::string& key, std::vector<AxisRuns> runs) {
    by_key_[key].push_back(static_cast<std::uint32_t>(request_.items.size()));
    request_.items.push_back({key, std::move(runs)});
  }

  std::vector<std::int64_t> drop_axes_;
  OutLayout layout_;
  SelectionRequest request_;
  std::vector<std::uint32_t> firsts_;  // selection of each item that was added; points are several
  std::unordered_map<std::string, std::vector<std::uint32_t>> by_key_;
};

std::shared_ptr<SelectionRead> start(Plan& plan, std::shared_ptr<Store> store, bool keeps_indices, std::size_t threads,
                                     std::shared_ptr<Bell> bell, std::uint64_t number,
                                     std::shared_ptr<DeviceReads> reads, DeviceQueue* queue) {
  SelectionRequest request = plan.take();
  request.store = std::move(store);
  request.keeps_indices = keeps_indices;
  request.device = std::move(reads);
  if (queue != nullptr) {
    const Unlocked unlocked;
    request.after.push_back(queue->record());
  }
  auto read = std::make_shared<SelectionRead>(*workers().get(threads), std::move(request),
                                              [bell = std::move(bell), number] { bell->ring(number); });
  const Unlocked unlocked;
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
                                 {"index_misses", &ReadCounters::index_misses}};

nb::dict counters() {
  nb::dict out;
  for (const auto& [name, counter] : kCounters) {
    std::int64_t sum = 0;
    for (const auto& one : workers().all()) sum += one->counters().*counter;
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
      "file_store", [](const std::string& root) { return make_file_store(root, one_per_process<StoreFiles>().files); },
      nb::arg("root"), "A directory; the files that stay open are shared by all.");
  nb::class_<GivenStore, Store>(m, "GivenStore")
      .def(nb::init<std::string>(), nb::arg("name"))
      .def("put", &GivenStore::put, nb::arg("key"), nb::arg("offset"), nb::arg("content"), nb::arg("size"))
      .def("release", &GivenStore::release);
}

}  // namespace

void bind_selection_reads(nb::module_& m) {
  bind_stores(m);
  nb::class_<Bell>(m, "Bell").def(nb::init<>()).def_prop_ro("fd", &Bell::fd).def("take", &Bell::take);
  nb::class_<Array>(m, "StoredArray")
      .def_prop_ro("shape", [](const Array& a) { return tuple_of(a.metadata().shard_shape); })
      .def_prop_ro("itemsize", [](const Array& a) { return size_of(a.metadata().dtype); })
      .def_prop_ro("index_bytes", &index_bytes)
      .def_prop_ro("index_at_end",
                   [](const Array& a) { return !a.metadata().shards.empty() && a.metadata().shards[0].index.at_end; });
  m.def("stored_array", &stored_array, nb::arg("uri"), nb::arg("document"), nb::arg("zarr_format"));
  nb::class_<SelectionRead>(m, "SelectionRead")
      .def("cancel", &SelectionRead::cancel)
      .def("missing", [](const SelectionRead& read) {
        if (read.failure()) throw Error(*read.failure());
        return nb::bytes(read.missing().data(), read.missing().size());
      });
  nb::class_<Plan>(m, "SelectionPlan")
      .def(nb::init<std::shared_ptr<const Array>, std::uint64_t, std::vector<std::int64_t>, std::vector<std::int64_t>,
                    bool, nb::bytes, std::vector<std::int64_t>>(),
           nb::arg("array"), nb::arg("address"), nb::arg("shape"), nb::arg("strides"), nb::arg("swap"), nb::arg("fill"),
           nb::arg("drop_axes"))
      .def("of_items", &Plan::of_items, nb::arg("by_selection"))
      .def("add", nb::overload_cast<const std::string&, nb::handle, nb::handle>(&Plan::add), nb::arg("key"),
           nb::arg("chunk_selection"), nb::arg("out_selection"))
      .def(
          "ranges",
          [](const Plan& plan, const std::string& key, nb::bytes index, std::uint64_t gap, std::uint64_t cap) {
            nb::list out;
            for (const auto& [offset, size] : plan.ranges(key, std::move(index), gap, cap))
              out.append(nb::make_tuple(offset, size));
            return out;
          },
          nb::arg("key"), nb::arg("index"), nb::arg("gap"), nb::arg("cap"))
      .def_prop_ro_static("unknown_size", [](nb::handle) { return Plan::kUnknownSize; })
      .def("start", &start, nb::arg("store"), nb::arg("keeps_indices"), nb::arg("threads"), nb::arg("bell"),
           nb::arg("number"), nb::arg("reads").none() = nb::none(), nb::arg("queue").none() = nb::none());
  m.def("read_counters", &counters);
  m.def("reset_read_counters", [] {
    for (const auto& one : workers().all()) one->counters().reset();
  });
  m.def("forget_index",
        [](const std::string& store, const std::string& key) { workers().indices().drop(text(store, '\0', key)); });
  m.def("abandon_overdue_reads", [] {
    const auto all = workers().all();
    const Unlocked unlocked;
    for (const auto& one : all) one->abandon_overdue();
  });
  m.def("stop_reads", [] {
    const auto all = workers().all();
    const Unlocked unlocked;
    for (const auto& one : all) one->stop();
  });
}

}  // namespace damacy::python
