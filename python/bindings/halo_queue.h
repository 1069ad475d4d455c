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

// A queue for the device of the first arrays that it runs on.
class HaloQueue {
 public:
  explicit HaloQueue(std::shared_ptr<LazyStreams> lazy) : lazy_(std::move(lazy)) {}
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

 private:
  using Arrays = std::vector<nb::object>;

  Stream& borrow(std::uint64_t handle);
  std::vector<Stream*> borrowed(const Handles& handles);

  std::shared_ptr<LazyStreams> lazy_;
  std::shared_ptr<Device> device_;  // null before the first run
  int index_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Stream>> streams_;
  halo::WorkOrder order_;
  Arrays held_;                                // of the latest runs
  std::deque<std::pair<Arrays, Event>> past_;  // of earlier runs, with their ends
};

// Copies that are enqueued again and again. What does not change between calls is computed once. Each call asks for the
// streams that use the arrays then.
class QueueRun {
 public:
  // If arrays name streams or belong to several libraries, a run is ordered with all of their streams. `buffer`: has
  // the message. None: messages are in memory of the caller, which is used on the current stream; a run on another
  // stream waits for work on the current stream, and later work there waits for the run.
  QueueRun(nb::object queue, nb::object arrays, BoundCopies copies, nb::object buffer);

  void operator()(nb::handle stream, nb::handle after);

 private:
  void follow_last_use();

  nb::object queue_object_, arrays_, buffer_;
  HaloQueue& queue_;
  BoundCopies copies_;
  std::vector<nb::object> current_;  // functions that give the handles of streams
  bool joins_all_;
};

}  // namespace damacy::python
