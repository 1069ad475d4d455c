#include "halo_queue.h"

#include <algorithm>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include "damacy/core/formatted.h"
#include "damacy/device/cuda_device.h"
#include "damacy/device/host_device.h"

namespace damacy::python {
namespace {

constexpr const char* kLastUse = "_last_use";
constexpr std::size_t kMostHeld = 8;  // runs between two marks

Handles handles_of(nb::handle streams) {
  Handles out;
  if (streams.is_none()) return out;
  if (!nb::isinstance<nb::list>(streams) && !nb::isinstance<nb::tuple>(streams)) return {handle_of(streams)};
  for (const nb::handle stream : streams) out.push_back(handle_of(stream));
  return out;
}

}  // namespace

std::uint64_t handle_of(nb::handle stream) {
  return nb::cast<std::uint64_t>(python_part("damacy.halo._arrays", "stream_number")(stream));
}

LazyStreams::LazyStreams() : device(make_host_device({HostOrder::Kind::lazy})) {}

std::shared_ptr<Device> device_at(int index, const std::shared_ptr<LazyStreams>& lazy) {
  return lazy != nullptr ? lazy->device : bind_primary_context(index);
}

Stream& BorrowedStreams::at(Device& device, std::uint64_t handle) {
  auto& stream = (lazy_ != nullptr ? lazy_->streams : streams_)[handle];
  if (stream == nullptr) stream = device.is_host() ? device.make_stream() : device.borrow_stream(handle);
  return *stream;
}

void HaloQueue::use(int device) {
  if (device_ == nullptr) {
    device_ = device_at(device, lazy_);
    index_ = device;
  }
  if (device != index_)
    throw Error(Status::inval, formatted("the arrays are on device {}, the buffers on device {}", device, index_));
}

void HaloQueue::run(const BoundCopies& copies, std::uint64_t stream, const Handles& others, const Handles& after) {
  const std::vector<Stream*> side = borrowed(others), before = borrowed(after);
  order_.run(borrow(stream), side, before, index_, copies.plan, copies.bases);
}

void HaloQueue::hold(nb::handle arrays) {
  if (!held_.empty() && held_.back().is(arrays)) return;
  held_.push_back(nb::borrow(arrays));
  if (held_.size() == kMostHeld) past_.emplace_back(std::exchange(held_, {}), order_.mark());
  while (!past_.empty() && past_.front().second.ready()) past_.pop_front();
}

std::size_t HaloQueue::held() const {
  return held_.size() + kMostHeld * past_.size();
}

void HaloQueue::precedes(HaloQueue& other) const {
  if (device_ == nullptr) return;
  other.use(index_);
  other.order_after(*this);
}

void HaloQueue::joins(const HaloQueue& other) {
  use(other.index_);
  order_after(other);
}

void HaloQueue::synchronize() {
  without_gil([this] { order_.synchronize(); });
  held_.clear();
  past_.clear();
}

void HaloQueue::make_wait(nb::handle stream) {
  if (device_ != nullptr) order_.make_wait(borrow(handle_of(stream)));
}

std::vector<Stream*> HaloQueue::borrowed(const Handles& handles) {
  std::vector<Stream*> streams;
  for (const auto handle : handles) streams.push_back(&borrow(handle));
  return streams;
}

CurrentStreams::CurrentStreams(const PythonArrays& arrays) : are_named(nb::len(arrays.named) > 0) {
  if (!arrays.device) return;
  const nb::object current_stream_of = python_part("damacy.halo._arrays", "current_stream_of");
  for (const nb::dict* const some : {&arrays.named, &arrays.unnamed})
    for (const auto& [key, array] : *some) handles.emplace_back(current_stream_of(array));
}

QueueRun::QueueRun(nb::object queue, CurrentStreams streams, BoundCopies copies, nb::object buffer, bool is_callers)
    : queue_object_(std::move(queue)),
      buffer_(std::move(buffer)),
      queue_(nb::cast<HaloQueue&>(queue_object_)),
      current_(std::move(streams)),
      copies_(std::move(copies)),
      joins_all_(current_.handles.size() > 1 || current_.are_named || is_callers) {}

void QueueRun::operator()(nb::handle stream, nb::handle after, nb::handle arrays) {
  follow_last_use();
  const auto chosen = stream.is_none() ? nb::cast<std::uint64_t>(current_.handles.at(0)()) : handle_of(stream);
  Handles others;
  if (joins_all_ && (current_.handles.size() > 1 || !stream.is_none()))
    for (const nb::object& current : current_.handles) {
      const auto other = nb::cast<std::uint64_t>(current());
      if (other != chosen && std::find(others.begin(), others.end(), other) == others.end()) others.push_back(other);
    }
  queue_.run(copies_, chosen, others, handles_of(after));
  queue_.hold(arrays);
}

void QueueRun::follow_last_use() {
  if (buffer_.is_none()) return;
  const nb::object last = buffer_.attr(kLastUse);
  if (last.is(queue_object_)) return;
  if (!last.is_none()) queue_.order_after(nb::cast<const HaloQueue&>(last));
  name_last_use(buffer_, queue_object_);
}

void name_last_use(nb::handle buffer, nb::handle queue) {
  buffer.attr(kLastUse) = queue;
}

namespace {

// With its arrays.
struct HeldRun {
  QueueRun run;
  nb::object arrays;
};

HeldRun* bound(nb::object self, nb::object arrays, const BoundCopies& copies) {
  const auto& held = nb::cast<const PythonArrays&>(arrays);
  nb::cast<HaloQueue&>(self).use(held.device.value());
  return new HeldRun{QueueRun(std::move(self), CurrentStreams(held), copies, nb::none(), true), std::move(arrays)};
}

}  // namespace

void bind_halo_queue(nb::module_& m) {
  nb::class_<LazyStreams>(m, "LazyStreams", "For tests: a device in host memory, which works as late as possible.")
      .def(nb::init<>());
  nb::class_<HeldRun>(m, "QueueRun")
      .def(
          "__call__", [](HeldRun& r, nb::object stream) { r.run(stream, nb::none(), r.arrays); },
          nb::arg("stream").none() = nb::none());
  nb::class_<HaloQueue>(m, "HaloQueue")
      .def(nb::init<std::shared_ptr<LazyStreams>>(), nb::arg("lazy").none() = nb::none())
      .def("bound", &bound, nb::arg("arrays"), nb::arg("copies"))
      .def("synchronize", &HaloQueue::synchronize)
      .def_prop_ro("held", &HaloQueue::held, "Arrays that are kept for runs in flight.");
}

}  // namespace damacy::python
