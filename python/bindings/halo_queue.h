// The order of one exchange's work on a device, with the streams that use its arrays. Decides nothing.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "damacy/device/device.h"
#include "damacy/halo/work_order.h"
#include "halo_arrays.h"
#include "halo_plan.h"

namespace damacy::python {

using Handles = std::vector<std::uint64_t>;

// A stream, or its number.
std::uint64_t handle_of(nb::handle stream);

// For tests: host memory in place of a device's, whose streams do each operation as late as possible.
struct LazyStreams {
  LazyStreams();
  LazyStreams(const LazyStreams&) = delete;
  LazyStreams& operator=(const LazyStreams&) = delete;

  std::shared_ptr<Device> device;
  std::map<std::uint64_t, std::unique_ptr<Stream>> streams;
};

// The device of an index, or the lazy one in its place.
std::shared_ptr<Device> device_at(int index, const std::shared_ptr<LazyStreams>& lazy);

// Streams of other libraries on a device, by handle.
class BorrowedStreams {
 public:
  explicit BorrowedStreams(std::shared_ptr<LazyStreams> lazy) : lazy_(std::move(lazy)) {}

  Stream& at(Device& device, std::uint64_t handle);

 private:
  std::shared_ptr<LazyStreams> lazy_;
  std::map<std::uint64_t, std::unique_ptr<Stream>> streams_;
};

// A queue for the device of the first arrays that it runs on.
class HaloQueue {
 public:
  explicit HaloQueue(std::shared_ptr<LazyStreams> lazy) : lazy_(std::move(lazy)), streams_(lazy_) {}
  HaloQueue(const HaloQueue&) = delete;
  HaloQueue& operator=(const HaloQueue&) = delete;

  // Throws Error(inval) for arrays on another device.
  void use(int device);
  void run(const BoundCopies& copies, std::uint64_t stream, const Handles& others, const Handles& after);
  // Keeps the arrays until the runs so far have ended.
  void hold(nb::handle arrays);
  std::size_t held() const;

  void order_after(const HaloQueue& other) { order_.order_after(other.order_.done()); }
  // Orders the next run of `other` after the runs of this queue.
  void precedes(HaloQueue& other) const;
  // Orders this queue after the last run of `other`.
  void joins(const HaloQueue& other);
  void synchronize();
  void make_wait(nb::handle stream);
  void make_wait(Stream& stream) { order_.make_wait(stream); }

  // After use().
  const std::shared_ptr<Device>& device() const { return device_; }

 private:
  using Arrays = std::vector<nb::object>;

  Stream& borrow(std::uint64_t handle) { return streams_.at(*device_, handle); }
  std::vector<Stream*> borrowed(const Handles& handles);

  std::shared_ptr<LazyStreams> lazy_;
  std::shared_ptr<Device> device_;  // null before the first run
  int index_ = 0;
  BorrowedStreams streams_;
  halo::WorkOrder order_;
  Arrays held_;                                // of the latest runs
  std::deque<std::pair<Arrays, Event>> past_;  // of earlier runs, with their ends
};

// A message's buffer names the queue that used it last, so that transformers may lend it to each other.
void name_last_use(nb::handle buffer, nb::handle queue);

// The streams that use arrays on a device: functions that give their handles at the time of a call. Those of torch and
// CuPy keep no array.
struct CurrentStreams {
  explicit CurrentStreams(const PythonArrays& arrays);

  std::vector<nb::object> handles;
  bool are_named;  // by the arrays
};

// Copies that are enqueued again and again. What does not change between calls is computed once. Each call asks for the
// streams that use the arrays then.
class QueueRun {
 public:
  // If arrays name streams or belong to several libraries, a run is ordered with all of their streams. `buffer`: names
  // the queue that used it last; or None. `is_callers`: messages are in memory of the caller, which is used on the
  // current stream; a run on another stream waits for work on the current stream, and later work there waits for the
  // run.
  QueueRun(nb::object queue, CurrentStreams streams, BoundCopies copies, nb::object buffer, bool is_callers);

  // `arrays`: what is kept until the run has ended.
  void operator()(nb::handle stream, nb::handle after, nb::handle arrays);

 private:
  void follow_last_use();

  nb::object queue_object_, buffer_;
  HaloQueue& queue_;
  CurrentStreams current_;
  BoundCopies copies_;
  bool joins_all_;
};

}  // namespace damacy::python
