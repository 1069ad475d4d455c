// Queues of operations. The device's order decides when an operation runs, under one mutex for the whole device.
#include "damacy/device/host_device.h"

#include <chrono>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/device/guarded_pages.h"
#include "damacy/device/ordered_alloc.h"

namespace damacy {
namespace {

using Seconds = std::chrono::duration<double>;

class HostEvent;

struct Operation {
  std::function<void()> run;
  std::shared_ptr<HostEvent> waits_for;  // instead of `run`
};

struct Queue {
  std::deque<Operation> pending;
  std::uint64_t enqueued = 0;
  std::uint64_t done = 0;
  bool has_stream = true;
};

// All state of a device. Everything below holds its mutex.
class Order {
 public:
  explicit Order(HostOrder order) : order_(order), random_(order.seed) {}

  class DAMACY_SCOPED_CAPABILITY Lock {
   public:
    explicit Lock(Order& order) DAMACY_ACQUIRE(order.mutex_) : lock_(checked(order).mutex_) {}
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() DAMACY_RELEASE() {}

   private:
    static Order& checked(Order& order) {
      if (running_here_ == &order) throw Error(Status::inval, "a task of a stream called its device", "reentrant");
      return order;
    }
    damacy::Lock lock_;
  };

  std::shared_ptr<Queue> make_queue() DAMACY_REQUIRES(mutex_);
  std::uint64_t add(Queue& queue, Operation operation) DAMACY_REQUIRES(mutex_);  // the number to reach in Queue::done
  void close(Queue& queue) DAMACY_REQUIRES(mutex_);
  bool query(HostEvent& event) DAMACY_REQUIRES(mutex_);
  void run_until(Queue& queue, std::uint64_t number) DAMACY_REQUIRES(mutex_);
  void run_all() DAMACY_REQUIRES(mutex_);
  GuardedPages& guarded() noexcept DAMACY_REQUIRES(mutex_) { return guarded_; }

 private:
  void run_front(Queue& queue) DAMACY_REQUIRES(mutex_);
  void run(Operation& operation) noexcept DAMACY_REQUIRES(mutex_);
  bool can_run(const Queue& queue) const;
  void run_some() DAMACY_REQUIRES(mutex_);
  void forget_finished() DAMACY_REQUIRES(mutex_);

  static thread_local const Order* running_here_;
  const HostOrder order_;
  Mutex mutex_;
  std::mt19937_64 random_ DAMACY_GUARDED_BY(mutex_);
  GuardedPages guarded_ DAMACY_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Queue>> queues_ DAMACY_GUARDED_BY(mutex_);
};

thread_local const Order* Order::running_here_ = nullptr;

class HostEvent final : public Event::State {
 public:
  HostEvent(std::shared_ptr<Order> order, std::shared_ptr<Queue> queue, bool timed)
      : order_(std::move(order)), queue_(std::move(queue)), timed_(timed) {}

  bool ready() override {
    const Order::Lock lock(*order_);
    return order_->query(*this);
  }
  bool wait(std::stop_token stop) override {
    if (stop.stop_requested()) return false;
    const Order::Lock lock(*order_);
    order_->run_until(*queue_, number_);
    return true;
  }
  std::optional<double> ms_since(Event::State& earlier) override {
    const auto* other = dynamic_cast<HostEvent*>(&earlier);
    if (other == nullptr || other->order_ != order_) return std::nullopt;
    const Order::Lock lock(*order_);
    if (!passed() || !other->passed() || !timed_ || !other->timed_) return std::nullopt;
    return Seconds(passed_at_ - other->passed_at_).count() * 1e3;
  }

  bool passed() const noexcept { return queue_->done >= number_; }
  bool is_of(const Order& order) const noexcept { return order_.get() == &order; }
  void pass() { passed_at_ = std::chrono::steady_clock::now(); }

 private:
  friend class HostStream;
  friend class Order;
  const std::shared_ptr<Order> order_;
  const std::shared_ptr<Queue> queue_;
  const bool timed_;
  std::uint64_t number_ = 0;
  std::uint64_t queries_ = 0;
  std::chrono::steady_clock::time_point passed_at_;
};

std::shared_ptr<Queue> Order::make_queue() {
  forget_finished();
  return queues_.emplace_back(std::make_shared<Queue>());
}

std::uint64_t Order::add(Queue& queue, Operation operation) {
  queue.pending.push_back(std::move(operation));
  const std::uint64_t number = ++queue.enqueued;
  if (order_.kind == HostOrder::Kind::eager) run_until(queue, number);
  if (order_.kind == HostOrder::Kind::random) run_some();
  return number;
}

void Order::close(Queue& queue) {
  queue.has_stream = false;
}

// Operations may take long, so the first queries return false. A lazy device runs the operation at the second one.
bool Order::query(HostEvent& event) {
  if (order_.kind == HostOrder::Kind::random) run_some();
  const std::uint64_t patience = order_.kind == HostOrder::Kind::lazy ? 1 : 64;
  if (!event.passed() && event.queries_++ >= patience) run_until(*event.queue_, event.number_);
  return event.passed();
}

void Order::run_front(Queue& queue) {
  Operation operation = std::move(queue.pending.front());
  queue.pending.pop_front();
  running_here_ = this;  // also while the operation is destroyed: its objects must not call the device either
  run(operation);
  running_here_ = nullptr;
  ++queue.done;
}

void Order::run(Operation& operation) noexcept {
  if (operation.run) {
    guarded_.unlock();
    operation.run();
    guarded_.lock();
  }
  operation = {};
}

bool Order::can_run(const Queue& queue) const {
  if (queue.pending.empty()) return false;
  const auto& awaited = queue.pending.front().waits_for;
  return awaited == nullptr || awaited->passed();
}

// Runs only the operations that `number` depends on. Uses a list instead of recursion, because chains can be long.
void Order::run_until(Queue& queue, std::uint64_t number) {
  struct Goal {
    Queue* queue;
    std::uint64_t number;
  };
  std::vector<Goal> goals{{&queue, number}};
  while (!goals.empty()) {
    const Goal goal = goals.back();
    if (goal.queue->done >= goal.number) {
      goals.pop_back();
    } else if (can_run(*goal.queue)) {
      run_front(*goal.queue);
    } else {
      const HostEvent& awaited = *goal.queue->pending.front().waits_for;
      goals.push_back({awaited.queue_.get(), awaited.number_});
    }
  }
}

void Order::run_all() {
  for (std::size_t i = 0; i < queues_.size(); ++i) run_until(*queues_[i], queues_[i]->enqueued);
}

void Order::run_some() {
  for (std::uint64_t steps = random_() % 4; steps > 0 && !queues_.empty(); --steps) {
    Queue& queue = *queues_[random_() % queues_.size()];
    if (can_run(queue)) run_front(queue);
  }
}

void Order::forget_finished() {
  std::erase_if(queues_, [](const auto& queue) { return !queue->has_stream && queue->pending.empty(); });
}

// Like a driver, frees memory only after all work has run.
class HostMemory final : public Alloc {
 public:
  HostMemory(std::shared_ptr<Order> order, std::shared_ptr<Alloc> inner, bool guard)
      : order_(std::move(order)), inner_(std::move(inner)), guard_(guard) {}

  std::byte* take(std::size_t bytes) override {
    std::byte* memory = inner_->take(taken(bytes));
    if (guard_) {
      const Order::Lock lock(*order_);
      order_->guarded().add(memory, taken(bytes));
    }
    return memory;
  }
  void give(std::byte* memory, std::size_t bytes) noexcept override {
    {
      const Order::Lock lock(*order_);
      order_->run_all();
      if (guard_) order_->guarded().remove(memory);
    }
    inner_->give(memory, taken(bytes));
  }

 private:
  // Guarded memory consists of whole pages.
  std::size_t taken(std::size_t bytes) const noexcept { return guard_ ? round_up(bytes, kAlignment) : bytes; }

  std::shared_ptr<Order> order_;
  std::shared_ptr<Alloc> inner_;
  bool guard_;
};

class HostStream final : public Stream {
 public:
  HostStream(std::shared_ptr<Device> device, std::shared_ptr<Order> order)
      : device_(std::move(device)), order_(std::move(order)) {
    const Order::Lock lock(*order_);
    queue_ = order_->make_queue();
  }
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;
  ~HostStream() override {
    const Order::Lock lock(*order_);
    order_->close(*queue_);
  }

  void copy(std::span<std::byte> dst, std::span<const std::byte> src) override {
    if (dst.size() != src.size())
      throw Error(Status::inval,
                  formatted("cannot copy {} bytes to {} bytes: the sizes differ", src.size(), dst.size()), "buffers");
    if (!src.empty()) add({[dst, src] { std::memmove(dst.data(), src.data(), src.size()); }, nullptr});
  }
  bool copy_many(std::span<const MemoryCopy> copies) override {
    for (const MemoryCopy& one : copies) copy(one.to, one.from);
    return true;
  }
  void fill(std::span<std::byte> dst, std::byte value) override {
    if (!dst.empty()) add({[dst, value] { std::memset(dst.data(), static_cast<int>(value), dst.size()); }, nullptr});
  }
  void host_task(std::function<void()> task) override { add({std::move(task), nullptr}); }
  void enqueue(Work work) override {
    if (!work.on_host) throw Error(Status::inval, "work without a host form on a host device", "arguments");
    add({std::move(work.on_host), nullptr});
  }

  void wait(const Event& event) override {
    if (event.state() == nullptr) return;
    auto awaited = std::dynamic_pointer_cast<HostEvent>(event.state());
    if (awaited == nullptr || !awaited->is_of(*order_))
      throw Error(Status::inval, "a stream cannot wait for an event of another device", "arguments");
    add({nullptr, std::move(awaited)});
  }

  Event record(bool timed) override {
    auto event = std::make_shared<HostEvent>(order_, queue_, timed);
    const Order::Lock lock(*order_);
    event->number_ = queue_->enqueued + 1;  // set first, because add() may run the operation
    order_->add(*queue_, {[event] { event->pass(); }, nullptr});
    return Event(std::move(event));
  }

  std::uint64_t native_handle() const noexcept override { return 0; }

 private:
  void add(Operation operation) {
    const Order::Lock lock(*order_);
    order_->add(*queue_, std::move(operation));
  }

  const std::shared_ptr<Device> device_;  // runs all work when its last stream is destroyed
  const std::shared_ptr<Order> order_;
  std::shared_ptr<Queue> queue_;
};

// Frees memory in stream order, on a stream of its own.
class HostOrderedMemory final : public OrderedAlloc {
 public:
  HostOrderedMemory(std::shared_ptr<Device> device, std::shared_ptr<Order> order, std::shared_ptr<Alloc> inner,
                    bool guard)
      : stream_(std::move(device), order), order_(std::move(order)), inner_(std::move(inner)), guard_(guard) {}

  FencedMemory take(std::size_t bytes) override {
    std::byte* memory = inner_->take(taken(bytes));
    if (guard_) {
      const Order::Lock lock(*order_);
      order_->guarded().add(memory, taken(bytes));
    }
    return FencedMemory({memory, bytes});
  }
  void give(std::byte* memory, std::size_t bytes, std::span<const Event> after) noexcept override {
    const Lock lock(mutex_);
    try {
      for (const Event& use : after) stream_.wait(use);
      stream_.host_task([order = order_.get(), inner = inner_, memory, bytes = taken(bytes), guard = guard_]()
                            DAMACY_NO_THREAD_SAFETY_ANALYSIS {
                              if (guard) order->guarded().remove(memory);  // a task runs under the lock of the order
                              inner->give(memory, bytes);
                            });
    } catch (const std::exception&) {  // no memory for the task: run all work, then free at once
      const Order::Lock order(*order_);
      order_->run_all();
      if (guard_) order_->guarded().remove(memory);
      inner_->give(memory, taken(bytes));
    }
  }

 private:
  std::size_t taken(std::size_t bytes) const noexcept { return guard_ ? round_up(bytes, Alloc::kAlignment) : bytes; }

  Mutex mutex_;
  HostStream stream_ DAMACY_GUARDED_BY(mutex_);
  const std::shared_ptr<Order> order_;
  const std::shared_ptr<Alloc> inner_;
  const bool guard_;
};

class HostDevice final : public Device, public std::enable_shared_from_this<HostDevice> {
 public:
  HostDevice(HostOrder order, std::shared_ptr<Alloc> alloc)
      : order_(std::make_shared<Order>(order)),
        alloc_(alloc),
        guard_(order.guard),
        device_memory_(std::make_shared<HostMemory>(order_, alloc, order.guard)),
        pinned_memory_(std::make_shared<HostMemory>(order_, alloc, false)) {}
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;
  ~HostDevice() override {
    const Order::Lock lock(*order_);
    order_->run_all();
  }

  std::string name() const override { return "cpu"; }
  int index() const noexcept override { return 0; }
  bool is_host() const noexcept override { return true; }
  std::shared_ptr<Alloc> device_memory() override { return device_memory_; }
  std::shared_ptr<Alloc> pinned_memory() override { return pinned_memory_; }
  std::shared_ptr<OrderedAlloc> make_ordered_memory() override {
    return std::make_shared<HostOrderedMemory>(shared_from_this(), order_, alloc_, guard_);
  }
  std::optional<Memory> memory() override { return std::nullopt; }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<HostStream>(shared_from_this(), order_); }
  void check_usable() override {}

  std::optional<Event> try_fence(std::uint64_t) override { return Event(); }
  Event fence_event(std::uint64_t) override { return {}; }
  Event fence_all(bool) override { return {}; }
  void make_wait(std::uint64_t, const Event&) override {}

 private:
  std::shared_ptr<Order> order_;
  std::shared_ptr<Alloc> alloc_;
  bool guard_;
  std::shared_ptr<Alloc> device_memory_;
  std::shared_ptr<Alloc> pinned_memory_;
};

}  // namespace

std::shared_ptr<Device> make_host_device(HostOrder order, std::shared_ptr<Alloc> alloc) {
  return std::make_shared<HostDevice>(order, std::move(alloc));
}

}  // namespace damacy
