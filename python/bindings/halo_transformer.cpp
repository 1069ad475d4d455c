// Transformers whose arrays and buffers are objects of Python: how a call runs on the host, on a device, or on a device
// with messages in host memory. Decides nothing.
#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "damacy/core/formatted.h"
#include "damacy/halo/transformer_plan.h"
#include "halo_arrays.h"
#include "halo_plan.h"
#include "halo_queue.h"
#include "halo_values.h"

namespace damacy::python {
namespace {

std::atomic<unsigned> host_threads{1};  // of a call in host memory, the caller's included

halo::Direction direction_of(bool unpack) {
  return unpack ? halo::Direction::unpack : halo::Direction::pack;
}

halo::TransformerSpecs specs_of(nb::handle x, nb::handle y) {
  halo::TransformerSpecs specs;
  for (const nb::handle item : x) specs.x.push_back(nb::cast<const halo::HaloExchangeSpec&>(item));
  if (!y.is_none()) {
    specs.y.emplace();
    for (const nb::handle item : y) specs.y->push_back(nb::cast<const halo::HaloExchangeSpec&>(item));
  }
  return specs;
}

BoundCopies bound(halo::PlanAndBases copies) {
  return {copies.plan->plan, std::make_shared<const halo::Addresses>(std::move(copies.bases))};
}

void run_on_host(const BoundCopies& copies) {
  without_gil([&] { copy::run(*copies.plan, *copies.bases, host_threads.load()); });
}

// -- device arrays, messages in host memory --

// A non-blocking stream for copies between host and device.
struct CopyStream {
  std::shared_ptr<Device> owner;
  int device;
  std::unique_ptr<Stream> stream;
};

constexpr std::size_t kMostStreams = 32;  // idle ones of a device

// Lends an idle stream of damacy.halo.STREAM_POOL, the newest one, or a new one. The pool may be cleared at any time.
template <class Work>
void with_copy_stream(const std::shared_ptr<Device>& device, int index, Work work) {
  auto pool = nb::cast<nb::list>(python_part("damacy.halo.data_transformer", "STREAM_POOL"));
  const auto is_ours = [&](nb::handle one) { return nb::cast<const CopyStream&>(one).owner == device; };
  nb::object lent;
  for (std::size_t i = pool.size(); i-- > 0 && !lent.is_valid();)
    if (const nb::object one(pool[i]); is_ours(one)) {
      lent = one;
      nb::del(nb::handle(pool)[nb::int_(i)]);
    }
  if (!lent.is_valid()) lent = nb::cast(CopyStream{device, index, device->make_stream()});
  work(*nb::cast<const CopyStream&>(lent).stream);  // after an error it is not lent again: it may still have work
  std::size_t idle = 0;
  for (const nb::handle one : pool) idle += is_ours(one) ? 1 : 0;
  if (idle < kMostStreams) pool.append(lent);
}

// Memory on a device of the size of a host buffer, and the order of work on it. Calls return after the work.
class Crossing {
 public:
  Crossing(std::shared_ptr<LazyStreams> lazy, int device, std::span<std::byte> host)
      : index_(device), host_(host), queue_(nb::cast(new HaloQueue(std::move(lazy)), nb::rv_policy::take_ownership)) {
    own().use(device);
    memory_ = HostBuffer(own().device()->device_memory(), std::max<std::size_t>(host.size(), 1));
    upload();  // so that the gaps of a native wire are the same
  }

  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory_.data()); }
  const nb::object& queue() const { return queue_; }

  void pack(QueueRun& run, nb::handle stream, nb::handle after, nb::handle arrays) {
    run(stream, after, arrays);
    with_copy_stream(own().device(), index_, [&](Stream& copies) {
      own().make_wait(copies);
      copy(copies, host_, message());
    });
    own().synchronize();
  }
  void unpack(QueueRun& run, nb::handle stream, nb::handle after, nb::handle arrays) {
    upload();
    run(stream, after, arrays);
    own().synchronize();
  }

 private:
  HaloQueue& own() const { return nb::cast<HaloQueue&>(queue_); }
  std::span<std::byte> message() const { return memory_.bytes().first(host_.size()); }

  void upload() {
    with_copy_stream(own().device(), index_, [&](Stream& copies) { copy(copies, message(), host_); });
  }
  static void copy(Stream& copies, std::span<std::byte> to, std::span<const std::byte> from) {
    without_gil([&] {
      copies.copy(to, from);
      copies.record().wait();
    });
  }

  const int index_;
  const std::span<std::byte> host_;
  const nb::object queue_;
  HostBuffer memory_;
};

// -- calls --

// Runs or enqueues copies, on a stream, after the work of others. `arrays`: what is kept until they have ended.
using Way = std::function<void(nb::handle stream, nb::handle after, nb::handle arrays)>;

bool is_list(nb::handle some) {
  return PyList_CheckExact(some.ptr()) != 0;
}

nb::handle item_at(nb::handle list, std::size_t index) {
  return PyList_GetItem(list.ptr(), static_cast<Py_ssize_t>(index));
}

// The lists of a call whose arrays are all plain. A later call with the same objects in the same places is the same one
// if their layouts are: nothing else is checked again. Keeps no array.
class PlainCall {
 public:
  PlainCall(nb::handle x, nb::handle y, const PythonArrays& arrays)
      : gathered(arrays.gathered), device(arrays.device), streams(arrays), distinct_(arrays.plain) {
    for (const nb::handle item : x) items_.push_back(item.ptr());
    count_x_ = items_.size();
    if (y.is_none()) return;
    has_y_ = true;
    for (const nb::handle item : y) items_.push_back(item.ptr());
  }

  // The arrays, if it is the same call; else nothing.
  nb::object arrays_of(nb::handle x, nb::handle y) const {
    if (has_y_ == y.is_none() || !has(x, 0, count_x_)) return {};
    if (has_y_ && !has(y, count_x_, items_.size() - count_x_)) return {};
    nb::list arrays;
    for (const auto& [place, type, layout] : distinct_) {
      const nb::handle array = place < count_x_ ? item_at(x, place) : item_at(y, place - count_x_);
      if (reinterpret_cast<PyObject*>(Py_TYPE(array.ptr())) != type || !is_plain_array(array) ||
          array_layout(array) != layout)
        return {};
      arrays.append(array);
    }
    return arrays;
  }

  const halo::GatheredArrays gathered;
  const std::optional<int> device;
  const CurrentStreams streams;
  Way ways[2];

 private:
  bool has(nb::handle some, std::size_t from, std::size_t count) const {
    if (!is_list(some) || static_cast<std::size_t>(PyList_Size(some.ptr())) != count) return false;
    for (std::size_t i = 0; i < count; ++i)
      if (item_at(some, i).ptr() != items_[from + i]) return false;
    return true;
  }

  const std::vector<PlainArray> distinct_;
  std::vector<PyObject*> items_;  // of x, then of y: only compared
  std::size_t count_x_ = 0;
  bool has_y_ = false;
};

class PythonTransformer {
 public:
  PythonTransformer(nb::handle x, nb::handle y, bool native, bool on_device, std::shared_ptr<LazyStreams> lazy)
      : plans(specs_of(x, y), native ? halo::Wire::native : halo::Wire::ndsl), lazy_(std::move(lazy)) {
    if (on_device) queue_ = nb::cast(new HaloQueue(lazy_), nb::rv_policy::take_ownership);
  }
  PythonTransformer(const PythonTransformer&) = delete;
  PythonTransformer& operator=(const PythonTransformer&) = delete;

  // Buffers are as damacy.halo.buffer.Buffer.
  void hold(nb::object pack, nb::object unpack) {
    buffers_[0] = std::move(pack);
    buffers_[1] = std::move(unpack);
    for (const std::size_t at : {0, 1}) addresses_[at] = nb::cast<std::uint64_t>(buffers_[at].attr("address"));
  }

  void check_open() const {
    if (!buffers_[0].is_valid()) throw Error(Status::inval, "this halo transformer is finalized", halo::kMisuse);
  }

  PythonArrays gather(nb::handle x, nb::handle y, nb::callable look) const {
    check_open();
    return gathered_quantities(plans, x, y, std::move(look));
  }
  PythonArrays gather(nb::handle x, nb::handle y) const {
    return gather(x, y, nb::cast<nb::callable>(python_part("damacy.halo._arrays", "look")));
  }

  void check_place(std::optional<int> device) const {
    if (on_device() && !device)
      throw Error(Status::dtype, "the GPU transformer needs arrays in device memory; these are in host memory");
  }

  void run(bool unpack, nb::handle x, nb::handle y, nb::handle stream, nb::handle after) {
    check_open();
    if (last_ != nullptr)
      if (const nb::object arrays = last_->arrays_of(x, y); arrays.is_valid()) {
        const std::shared_ptr<PlainCall> call = last_;  // code that it calls may make another call
        Way& way = call->ways[unpack];
        if (!way) way = way_of(unpack, call->gathered, call->device, call->streams);
        return way(stream, after, arrays);
      }
    const PythonArrays arrays = gather(x, y);
    check_place(arrays.device);
    const CurrentStreams streams(arrays);
    const Way way = way_of(unpack, arrays.gathered, arrays.device, streams);
    last_.reset();
    if (!arrays.plain.empty() && is_list(x) && (y.is_none() || is_list(y))) {
      last_ = std::make_shared<PlainCall>(x, y, arrays);
      last_->ways[unpack] = way;
    }
    way(stream, after, arrays.held);
  }

  Way way_of(bool unpack, const PythonArrays& arrays) {
    return way_of(unpack, arrays.gathered, arrays.device, CurrentStreams(arrays));
  }

  Way way_of(bool unpack, const halo::GatheredArrays& arrays, std::optional<int> device,
             const CurrentStreams& streams) {
    const auto copies = [&](std::uint64_t message) {
      return bound(plans.prepared(direction_of(unpack), arrays, message));
    };
    if (on_device()) {
      BoundCopies made = copies(addresses_[unpack]);
      own_queue().use(*device);
      return QueueRun(queue_, streams, std::move(made), buffers_[unpack], false);
    }
    if (!device) return [made = copies(addresses_[unpack])](nb::handle, nb::handle, nb::handle) { run_on_host(made); };
    const auto crossing = crossing_of(unpack, *device);
    return
        [crossing, unpack, run = QueueRun(crossing->queue(), streams, copies(crossing->address()), nb::none(), false)](
            nb::handle stream, nb::handle after, nb::handle held) mutable {
          unpack ? crossing->unpack(run, stream, after, held) : crossing->pack(run, stream, after, held);
        };
  }

  bool on_device() const { return queue_.is_valid(); }
  const nb::object& queue() const { return queue_; }
  HaloQueue& own_queue() const { return nb::cast<HaloQueue&>(queue_); }
  const nb::object& buffer(bool unpack) const { return buffers_[unpack]; }
  std::uint64_t address(bool unpack) const { return addresses_[unpack]; }

  void synchronize() {
    if (on_device()) own_queue().synchronize();
  }
  // With a stream only that stream waits.
  void order(nb::handle stream) {
    if (!on_device()) return;
    stream.is_none() ? own_queue().synchronize() : own_queue().make_wait(stream);
  }
  void close() {
    last_.reset();
    crossings_.clear();
    for (nb::object& buffer : buffers_) buffer.reset();
  }

  halo::TransformerPlans plans;

 private:
  std::shared_ptr<Crossing> crossing_of(bool unpack, int device) {
    auto& found = crossings_[{unpack, device}];
    if (found == nullptr)
      found = std::make_shared<Crossing>(
          lazy_, device,
          std::span(reinterpret_cast<std::byte*>(addresses_[unpack]),  // NOLINT(performance-no-int-to-ptr)
                    plans.buffer_bytes(direction_of(unpack))));
    return found;
  }

  const std::shared_ptr<LazyStreams> lazy_;
  nb::object queue_;       // of the work on a device; none: messages are in host memory
  nb::object buffers_[2];  // for packing and for unpacking; none after close()
  std::uint64_t addresses_[2] = {};
  std::map<std::pair<bool, int>, std::shared_ptr<Crossing>> crossings_;  // by direction and device
  std::shared_ptr<PlainCall> last_;
};

// A transformer with its arrays, which were checked once.
class BoundTransformer {
 public:
  BoundTransformer(nb::object transformer, PythonArrays arrays)
      : transformer_(std::move(transformer)), arrays_(std::move(arrays)) {
    own().check_place(arrays_.device);
    ways_[0] = own().way_of(false, arrays_);
    if (arrays_.gathered.read_only.empty()) ways_[1] = own().way_of(true, arrays_);
  }

  void run(bool unpack, nb::handle stream, nb::handle after) {
    own().check_open();
    if (!ways_[unpack]) halo::check_writable(arrays_.gathered);
    ways_[unpack](stream, after, arrays_.held);
  }

 private:
  PythonTransformer& own() const { return nb::cast<PythonTransformer&>(transformer_); }

  nb::object transformer_;
  PythonArrays arrays_;
  Way ways_[2];  // the second is empty for arrays that are read-only
};

// Items are (transformer, x, y). In one launch, unless messages cross between host and device.
void run_many(nb::handle items, bool unpack, nb::handle stream, nb::handle after) {
  std::vector<PythonTransformer*> all;
  std::vector<PythonArrays> parts;
  for (const nb::handle item : items) {
    all.push_back(&nb::cast<PythonTransformer&>(nb::object(item[0])));
    parts.push_back(all.back()->gather(nb::object(item[1]), nb::object(item[2])));
  }
  if (all.empty()) return;
  for (std::size_t i = 0; i < all.size(); ++i) all[i]->check_place(parts[i].device);
  const PythonArrays whole = joined(parts);
  PythonTransformer& first = *all[0];
  std::vector<halo::TransformerPlans::Item> plans;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i]->on_device() != first.on_device())
      throw Error(Status::inval, "expected transformers of one place: host and device arrays cannot share a launch");
    plans.push_back({&all[i]->plans, &parts[i].gathered, all[i]->address(unpack)});
  }
  const BoundCopies copies = bound(halo::TransformerPlans::prepared(direction_of(unpack), plans));
  if (!whole.device) return run_on_host(copies);
  if (!first.on_device()) {
    for (std::size_t i = 0; i < all.size(); ++i) all[i]->way_of(unpack, parts[i])(stream, after, parts[i].held);
    return;
  }
  first.own_queue().use(*whole.device);
  for (const PythonTransformer* other : all)
    if (other != &first) other->own_queue().precedes(first.own_queue());
  QueueRun(first.queue(), CurrentStreams(whole), copies, first.buffer(unpack), false)(stream, after, whole.held);
  for (PythonTransformer* other : all)
    if (other != &first) {
      name_last_use(other->buffer(unpack), first.queue());
      other->own_queue().joins(first.own_queue());
    }
}

}  // namespace

void bind_halo_transformer(nb::module_& m) {
  nb::class_<CopyStream>(m, "CopyStream", "A non-blocking stream of a device.").def_ro("device", &CopyStream::device);
  nb::class_<PythonTransformer>(m, "HaloTransformer")
      .def(
          "__init__",
          [](PythonTransformer* self, nb::sequence x, nb::object y, bool native, bool on_device,
             std::shared_ptr<LazyStreams> lazy) {
            new (self) PythonTransformer(x, y, native, on_device, std::move(lazy));
          },
          nb::arg("x"), nb::arg("y").none(), nb::arg("native"), nb::arg("on_device") = false,
          nb::arg("lazy").none() = nb::none())
      .def("hold", &PythonTransformer::hold, nb::arg("pack"), nb::arg("unpack"))
      .def(
          "own", [](const PythonTransformer& t, bool unpack) { return CopyPlan(t.plans.own(direction_of(unpack))); },
          nb::arg("unpack"))
      .def(
          "buffer_elements",
          [](const PythonTransformer& t, bool unpack) { return t.plans.buffer_elements(direction_of(unpack)); },
          nb::arg("unpack"))
      .def(
          "gather",
          [](const PythonTransformer& t, nb::object x, nb::object y, nb::callable look) {
            return t.gather(x, y, std::move(look));
          },
          nb::arg("x"), nb::arg("y").none(), nb::arg("look"))
      .def(
          "run",
          [](PythonTransformer& t, bool unpack, nb::object x, nb::object y, nb::object stream, nb::object after) {
            t.run(unpack, x, y, stream, after);
          },
          nb::arg("unpack"), nb::arg("x"), nb::arg("y").none(), nb::arg("stream").none(), nb::arg("after").none())
      .def(
          "bind",
          [](nb::object self, const PythonArrays& arrays) { return new BoundTransformer(std::move(self), arrays); },
          nb::arg("arrays"))
      .def("synchronize", &PythonTransformer::synchronize)
      .def("order", &PythonTransformer::order, nb::arg("stream").none())
      .def("close", &PythonTransformer::close)
      .def("describe", [](const PythonTransformer& t) { return t.plans.describe(t.on_device()); });
  nb::class_<BoundTransformer>(
      m, "BoundTransformer",
      "A transformer with its arrays, which were checked once; `pack` and `unpack` run without more checks.")
      .def(
          "pack", [](BoundTransformer& b, nb::object stream) { b.run(false, stream, nb::none()); },
          nb::arg("stream").none() = nb::none(), "As `async_pack`.")
      .def(
          "unpack", [](BoundTransformer& b, nb::object stream, nb::object after) { b.run(true, stream, after); },
          nb::arg("stream").none() = nb::none(), nb::arg("after").none() = nb::none(), "As `async_unpack`.");
  m.def(
      "run_transformers",
      [](nb::sequence items, bool unpack, nb::object stream, nb::object after) {
        run_many(items, unpack, stream, after);
      },
      nb::arg("items"), nb::arg("unpack"), nb::arg("stream").none(), nb::arg("after").none());
  m.def("set_halo_threads", [](unsigned n) { host_threads = n; }, nb::arg("n"));
  m.def("halo_threads", [] { return host_threads.load(); });
}

}  // namespace damacy::python
