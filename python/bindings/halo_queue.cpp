// A message's buffer names the queue that used it last, so that transformers may lend it to each other.
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

void HaloQueue::use(int device) {
  if (device_ == nullptr) {
    device_ = lazy_ != nullptr ? lazy_->device : bind_primary_context(device);
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

Stream& HaloQueue::borrow(std::uint64_t handle) {
  auto& stream = (lazy_ != nullptr ? lazy_->streams : streams_)[handle];
  if (stream == nullptr) stream = lazy_ != nullptr ? device_->make_stream() : device_->borrow_stream(handle);
  return *stream;
}

std::vector<Stream*> HaloQueue::borrowed(const Handles& handles) {
  std::vector<Stream*> streams;
  for (const auto handle : handles) streams.push_back(&borrow(handle));
  return streams;
}

QueueRun::QueueRun(nb::object queue, nb::object arrays, BoundCopies copies, nb::object buffer)
    : queue_object_(std::move(queue)),
      arrays_(std::move(arrays)),
      buffer_(std::move(buffer)),
      queue_(nb::cast<HaloQueue&>(queue_object_)),
      copies_(std::move(copies)) {
  const auto& held = nb::cast<const PythonArrays&>(arrays_);
  queue_.use(nb::cast<int>(held.device));
  const nb::object current_stream_of = python_part("damacy.halo._arrays", "current_stream_of");
  for (const nb::dict* const some : {&held.named, &held.unnamed})
    for (const auto& [key, array] : *some) current_.emplace_back(current_stream_of(array));
  joins_all_ = current_.size() > 1 || nb::len(held.named) > 0 || buffer_.is_none();
}

void QueueRun::operator()(nb::handle stream, nb::handle after) {
  follow_last_use();
  const auto chosen = nb::cast<std::uint64_t>(stream.is_none() ? current_.at(0)() : nb::int_(handle_of(stream)));
  Handles others;
  if (joins_all_ && (current_.size() > 1 || !stream.is_none()))
    for (const nb::object& current : current_) {
      const auto other = nb::cast<std::uint64_t>(current());
      if (other != chosen && std::find(others.begin(), others.end(), other) == others.end()) others.push_back(other);
    }
  queue_.run(copies_, chosen, others, handles_of(after));
  queue_.hold(arrays_);
}

void QueueRun::follow_last_use() {
  if (buffer_.is_none()) return;
  const nb::object last = buffer_.attr(kLastUse);
  if (last.is(queue_object_)) return;
  if (!last.is_none()) queue_.order_after(nb::cast<const HaloQueue&>(last));
  buffer_.attr(kLastUse) = queue_object_;
}

void bind_halo_queue(nb::module_& m) {
  nb::class_<LazyStreams>(m, "LazyStreams", "For tests: a device in host memory, which works as late as possible.")
      .def(nb::init<>());
  nb::class_<QueueRun>(m, "QueueRun")
      .def("__call__", &QueueRun::operator(), nb::arg("stream").none() = nb::none(),
           nb::arg("after").none() = nb::none());
  nb::class_<HaloQueue>(m, "HaloQueue")
      .def(nb::init<std::shared_ptr<LazyStreams>>(), nb::arg("lazy").none() = nb::none())
      .def(
          "bound",
          [](nb::object self, nb::object arrays, const BoundCopies& copies, nb::object buffer) {
            return new QueueRun(std::move(self), std::move(arrays), copies, std::move(buffer));
          },
          nb::arg("arrays"), nb::arg("copies"), nb::arg("buffer").none())
      .def("precedes", &HaloQueue::precedes, nb::arg("other"))
      .def(
          "joins",
          [](HaloQueue& self, nb::object other, nb::object buffer) {
            buffer.attr(kLastUse) = other;
            self.joins(nb::cast<const HaloQueue&>(other));
          },
          nb::arg("other"), nb::arg("buffer"))
      .def("synchronize", &HaloQueue::synchronize)
      .def("make_wait", &HaloQueue::make_wait, nb::arg("stream"))
      .def_prop_ro("held", &HaloQueue::held, "Arrays that are kept for runs in flight.");
}

}  // namespace damacy::python
