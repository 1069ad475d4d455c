// Interface to the hardware: where memory is and in which order work happens, and which device is chosen.
// Implementations are host devices (eager, lazy, random) and CUDA. Knows bytes, streams and events; not uses. The
// contract: tests/conformance/device_suite.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

namespace damacy {

class Device;
class OrderedAlloc;

// The allocator of buffers: an interface, so that tests can count buffers and make allocations fail. Knows sizes and
// alignment; not the use of a buffer. The contract: tests/conformance/alloc_suite.h.
class Alloc {
 public:
  static constexpr std::size_t kAlignment = 4096;
  virtual ~Alloc() = default;
  // bytes > 0. Any thread. Aligned to kAlignment, memory of a GPU to 256. Contents are undefined. Throws Error(oom).
  virtual std::byte* take(std::size_t bytes) = 0;
  virtual void give(std::byte* memory, std::size_t bytes) noexcept = 0;
};

// Allocates anonymous pages, huge ones if the system has them. A page is not resident before its first use.
class PageAlloc final : public Alloc {
 public:
  std::byte* take(std::size_t bytes) override;
  void give(std::byte* memory, std::size_t bytes) noexcept override;
};

// Owns one allocation.
class HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(std::shared_ptr<Alloc> alloc, std::size_t bytes)
      : alloc_(std::move(alloc)), data_(alloc_->take(bytes)), bytes_(bytes) {}
  HostBuffer(HostBuffer&& other) noexcept { swap(other); }
  HostBuffer& operator=(HostBuffer other) noexcept {
    swap(other);
    return *this;
  }
  ~HostBuffer() {
    if (data_ != nullptr) alloc_->give(data_, bytes_);
  }
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }
  std::span<std::byte> bytes() const noexcept { return {data_, bytes_}; }

 private:
  void swap(HostBuffer& other) noexcept {
    std::swap(alloc_, other.alloc_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  std::shared_ptr<Alloc> alloc_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// A point in a stream's work. Cheap to copy; any thread may use it. A default-constructed event has always passed.
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

  // Whether all work before it is done. Never waits. Throws Error(cuda) if that work failed.
  bool ready() const { return state_ == nullptr || state_->ready(); }
  // The calling thread waits. False if stopped before the event passed. Throws as ready().
  bool wait(std::stop_token stop = {}) const { return state_ == nullptr || state_->wait(stop); }
  // Whether streams can wait for it. If not, only the host can.
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

// Both memories are of equal size.
struct MemoryCopy {
  std::span<std::byte> to;
  std::span<const std::byte> from;
};

// One piece of work in two forms, host function and CUDA launch. A device runs the one that it supports.
struct Work {
  // Host devices: run in stream order, on any thread. Must not throw and must not call the device.
  std::function<void()> on_host;
  // CUDA: called at once, with the device's context current; enqueues on the stream of that handle. Returns 0 or the
  // CUDA error of a launch.
  std::function<int(std::uint64_t stream)> launch;
};

// Work that happens in order. Only events order it with other streams. Nothing here waits. One thread at a time calls,
// except for record(). Memory passed to a stream must stay unchanged until an event recorded after that work has
// passed. Throws Error(cuda). Destroying a stream does not cancel its work.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void copy(std::span<std::byte> dst, std::span<const std::byte> src) = 0;  // equal sizes; any two memories
  // Copies that do not overlap, in any order among them, each at a fraction of copy()'s cost. False, and nothing is
  // enqueued: the device cannot do that, and many small copies are cheaper in one kernel.
  virtual bool copy_many(std::span<const MemoryCopy> copies) {
    static_cast<void>(copies);
    return false;
  }
  virtual void fill(std::span<std::byte> dst, std::byte value) = 0;
  // Runs on a thread of the device. Must be short, must not throw and must not call the device.
  virtual void host_task(std::function<void()> task) = 0;
  virtual void enqueue(Work work) = 0;
  virtual void wait(const Event& event) = 0;  // later work waits; the caller does not
  [[nodiscard]] virtual Event record(bool timed = false) = 0;
  // The same for callers that record after each of many operations and keep only the latest event. It may reuse
  // `event`: copies of it then wait for the later point.
  virtual void record_again(Event& event) { event = record(); }
  // Runs `body`; calls of this device that it makes on this thread cost less.
  virtual void together(const std::function<void()>& body) { body(); }
  virtual std::uint64_t native_handle() const noexcept = 0;  // a CUstream; 0 on the host
  virtual bool is_capturing() { return false; }              // into a graph: nothing may be waited for on the host
  // The device's default stream: the same object for the lifetime of the device.
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
  // All memory of the device comes from these two, which live as long as their last buffer. Device memory is aligned to
  // at least 256 bytes. The host must not access it unless is_host(). Pinned memory is host memory that device copies
  // access directly.
  virtual std::shared_ptr<Alloc> device_memory() = 0;
  virtual std::shared_ptr<Alloc> pinned_memory() = 0;
  // Page-locks memory of another owner, which is then as pinned memory is, while the result exists. The memory must
  // exist longer, and not be page-locked yet. Null where there is nothing to do. Throws Error(oom).
  [[nodiscard]] virtual std::shared_ptr<void> page_lock(std::span<std::byte>) { return nullptr; }
  // Stream-ordered device memory, on a stream made for the caller. Null if the device has none; use device_memory()
  // then.
  virtual std::shared_ptr<OrderedAlloc> make_ordered_memory() { return nullptr; }
  virtual std::optional<Memory> memory() = 0;  // empty on the host
  // The cores whose memory is nearest, as Linux lists them ("0-15,32-47"); empty on the host, and if it does not say.
  virtual std::string near_cores() const { return {}; }
  // The whole allocation that contains `part` of the device's memory; `part` itself if unknown.
  virtual std::span<std::byte> allocation_of(std::span<std::byte> part) { return part; }
  virtual std::unique_ptr<Stream> make_stream() = 0;
  // A stream of another owner, by handle as below, valid as long as the owner keeps it. Its work and ours are in one
  // order. Null on the host, which has no handles.
  virtual std::unique_ptr<Stream> borrow_stream(std::uint64_t /*handle*/) { return nullptr; }
  // Throws the device's terminal error if there was one. After it every call fails.
  virtual void check_usable() = 0;

  // Streams of other owners, by handle: 0 and 1 are the legacy default stream, 2 is the per-thread one. They must exist
  // during the call. On the host there is nothing to order. The work queued there so far. Empty if a graph is being
  // captured; try again later.
  virtual std::optional<Event> try_fence(std::uint64_t stream) = 0;
  virtual Event fence_event(std::uint64_t event) = 0;  // what that event (a CUevent) stands for now
  // All work of the context so far. Uses cuCtxRecordEvent, which breaks every capture in the context, whatever its
  // mode, and captures cannot be detected beforehand (measured, driver 580). With `spare_captures` a thread of the
  // library waits in the driver instead: captures stay intact, launches of other threads stall meanwhile, and only the
  // host can wait for the event. That way is also taken if a capture is visible, and with drivers before CUDA 12.5,
  // which have no cuCtxRecordEvent.
  virtual Event fence_all(bool spare_captures) = 0;
  virtual void make_wait(std::uint64_t stream, const Event& event) = 0;  // later work there waits
};

// Which device a pipeline uses.
struct DeviceChoice {
  enum class Kind {
    automatic,  // the current context; without a usable GPU the host
    cpu,
    cuda,   // the current context, else device 0; never the host
    index,  // that device's primary context
  };
  Kind kind = Kind::automatic;
  int index = 0;
};

struct BoundDevice {
  std::shared_ptr<Device> device;
  std::string why_host;        // automatic only: why it is the host; for the log
  bool is_unexpected = false;  // there is a driver, but it cannot be used: worth a warning
};

// `make_current` is called if automatic finds no current context: another library may make its own current (and then
// returns true). Throws Error(inval) with reason "no-device", or "no-context" with what to do.
BoundDevice bind_device(const DeviceChoice& choice, const std::function<bool()>& make_current = {});

}  // namespace damacy
