// Where memory is and in which order work happens: the seam between what the library does and what it runs on.
// Host devices (eager, lazy, random) and CUDA stand behind it. Knows bytes, streams and events; not what the work is
// for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "damacy/device/alloc.h"

namespace damacy {

class Device;
class OrderedAlloc;

// A point in a stream's work. Cheap to copy, for any thread. A default one has always passed.
class Event {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual bool ready() = 0;
    virtual bool wait(std::stop_token stop) = 0;
    virtual std::optional<double> ms_since(State& earlier) = 0;
    virtual bool for_streams() const noexcept { return true; }
  };

  Event() = default;
  explicit Event(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

  // Whether all work before it is done. Never waits. Throws Error(cuda) when that work failed.
  bool ready() const { return state_ == nullptr || state_->ready(); }
  // The calling thread waits; false: stopped before. Throws as ready().
  bool wait(std::stop_token stop = {}) const { return state_ == nullptr || state_->wait(stop); }
  // Whether streams can wait for it, or only the host.
  bool for_streams() const noexcept { return state_ == nullptr || state_->for_streams(); }
  // Time between two events that were recorded as timed and have passed; else empty.
  std::optional<double> ms_since(const Event& earlier) const {
    if (state_ == nullptr || earlier.state_ == nullptr) return std::nullopt;
    return state_->ms_since(*earlier.state_);
  }
  const std::shared_ptr<State>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<State> state_;
};

// What a kernel does, in both its forms; a device runs the one it can.
struct Work {
  // Host devices: run in stream order, on any thread. Must not throw and must not call the device.
  std::function<void()> on_host;
  // CUDA: called at once, with the device's context current; enqueues on the stream of that handle. Returns 0 or the
  // CUDA error of a launch.
  std::function<int(std::uint64_t stream)> launch;
};

// Work that happens in order, unordered with other streams but by events. Nothing here waits; one thread at a time
// calls, but for record(). Memory named to a stream stays as it is until an event recorded behind it has passed. Throws
// Error(cuda). A stream that is destroyed leaves the work it was given to happen all the same.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void copy(std::span<std::byte> dst, std::span<const std::byte> src) = 0;  // equal sizes; any two memories
  virtual void fill(std::span<std::byte> dst, std::byte value) = 0;
  // Runs on a thread of the device's: must be short, must not throw and must not call the device.
  virtual void host_task(std::function<void()> task) = 0;
  virtual void enqueue(Work work) = 0;
  virtual void wait(const Event& event) = 0;  // later work waits; the caller does not
  [[nodiscard]] virtual Event record(bool timed = false) = 0;
  // The same, for one who records after each of many works and keeps the latest only: `event` may be moved here, so
  // that whoever has a copy of it waits for the later point.
  virtual void record_again(Event& event) { event = record(); }
  // Calls of this device that `body` makes on this thread cost less.
  virtual void together(const std::function<void()>& body) { body(); }
  virtual std::uint64_t native_handle() const noexcept = 0;  // a CUstream; 0 on the host
  virtual bool is_capturing() { return false; }              // into a graph: nothing may be waited for on the host
  // The device's default stream: one and the same for as long as the device is there.
  virtual bool is_default() const noexcept { return false; }
};

class Device {
 public:
  struct Memory {
    std::uint64_t free;
    std::uint64_t total;
  };

  virtual ~Device() = default;
  virtual std::string name() const = 0;
  virtual int index() const noexcept = 0;  // CUDA's ordinal; 0 on the host
  virtual bool is_host() const noexcept = 0;
  // All memory of the device goes through these two; they live as long as their last buffer. Device memory is aligned
  // to 256 bytes at least and, unless is_host(), not for the host to touch. Pinned memory is host memory that copies
  // reach directly.
  virtual std::shared_ptr<Alloc> device_memory() = 0;
  virtual std::shared_ptr<Alloc> pinned_memory() = 0;
  // Device memory in the order of a stream made for the caller. Null: the device has none, and device_memory() serves.
  virtual std::shared_ptr<OrderedAlloc> make_ordered_memory() { return nullptr; }
  virtual std::optional<Memory> memory() = 0;  // empty on the host
  // All of the allocation that `part` of the device's memory lies in; `part` itself where that is not known.
  virtual std::span<std::byte> allocation_of(std::span<std::byte> part) { return part; }
  virtual std::unique_ptr<Stream> make_stream() = 0;
  // Somebody else's stream, by handle as below, for as long as they keep it; their work and ours are in one order. Null
  // on the host, where nobody has handles.
  virtual std::unique_ptr<Stream> borrow_stream(std::uint64_t /*handle*/) { return nullptr; }
  // Throws the device's terminal error, if it has had one: after it nothing works any more.
  virtual void check_usable() = 0;

  // Other people's streams, by handle: 0 and 1 are the legacy default stream, 2 the per-thread one.
  // They must be alive during the call. Nothing to order on the host.
  // The work queued there so far. Empty: a graph is being captured; ask again later.
  virtual std::optional<Event> try_fence(std::uint64_t stream) = 0;
  virtual Event fence_event(std::uint64_t event) = 0;  // what that event (a CUevent) stands for now
  // All work of the context so far. By cuCtxRecordEvent, which breaks every capture under way in the context, whatever
  // its mode, and nothing tells beforehand (measured, driver 580). With `spare_captures` by a thread of ours that waits
  // in the driver: other threads' launches stall meanwhile, captures stay whole, and the event is for the host alone:
  // streams refuse to wait for it. It takes that way by itself where a capture shows, and under drivers before
  // CUDA 12.5, which have no cuCtxRecordEvent.
  virtual Event fence_all(bool spare_captures) = 0;
  virtual void make_wait(std::uint64_t stream, const Event& event) = 0;  // later work there waits
};

}  // namespace damacy
