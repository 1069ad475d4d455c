// A host device whose own books are spared when allocations fail: it is a tool of tests, and has no way to fail like a
// device. What is enqueued fails as it would. Knows one other device.
#pragma once

#include <memory>
#include <utility>

#include "damacy/device/device.h"
#include "support/forwarding_device.h"
#include "sweeps/failing_new.h"

namespace damacy::testing {

class SparedEvent final : public Event::State {
 public:
  explicit SparedEvent(Event inner) : inner_(std::move(inner)) {}
  static const Event& inner(const Event& event) {
    const auto* const own = dynamic_cast<const SparedEvent*>(event.state().get());
    return own != nullptr ? own->inner_ : event;
  }
  bool ready() override {
    const Spared spared;
    return inner_.ready();
  }
  bool wait(std::stop_token stop) override {
    const Spared spared;
    return inner_.wait(std::move(stop));
  }
  std::optional<double> ms_since(Event::State& earlier) override {
    const auto* const other = dynamic_cast<const SparedEvent*>(&earlier);
    return other != nullptr ? inner_.ms_since(other->inner_) : std::nullopt;
  }

 private:
  const Event inner_;
};

class SparedStream final : public Stream {
 public:
  explicit SparedStream(std::unique_ptr<Stream> inner) : inner_(std::move(inner)) {}
  void copy(std::span<std::byte> dst, std::span<const std::byte> src) override {
    const Spared spared;
    inner_->copy(dst, src);
  }
  void fill(std::span<std::byte> dst, std::byte value) override {
    const Spared spared;
    inner_->fill(dst, value);
  }
  void host_task(std::function<void()> task) override {
    const Spared spared;
    inner_->host_task(spared_too(std::move(task)));
  }
  void enqueue(Work work) override {
    const Spared spared;
    inner_->enqueue({spared_too(std::move(work.on_host)), {}});
  }
  void wait(const Event& event) override {
    const Spared spared;
    inner_->wait(SparedEvent::inner(event));
  }
  Event record(bool timed) override {
    const Spared spared;
    return Event(std::make_shared<SparedEvent>(inner_->record(timed)));
  }
  std::uint64_t native_handle() const noexcept override { return inner_->native_handle(); }

 private:
  static std::function<void()> spared_too(std::function<void()> task) {
    return [task = std::move(task)] {
      const Spared spared;
      task();
    };
  }
  const std::unique_ptr<Stream> inner_;
};

class SparedAlloc final : public Alloc {
 public:
  explicit SparedAlloc(std::shared_ptr<Alloc> inner) : inner_(std::move(inner)) {}
  std::byte* take(std::size_t bytes) override {
    const Spared spared;
    return inner_->take(bytes);
  }
  void give(std::byte* memory, std::size_t bytes) noexcept override {
    const Spared spared;
    inner_->give(memory, bytes);
  }

 private:
  const std::shared_ptr<Alloc> inner_;
};

class SparedDevice final : public ForwardingDevice {
 public:
  explicit SparedDevice(std::shared_ptr<Device> device)
      : ForwardingDevice(std::move(device)),
        device_memory_(std::make_shared<SparedAlloc>(inner().device_memory())),
        pinned_memory_(std::make_shared<SparedAlloc>(inner().pinned_memory())) {}
  std::shared_ptr<Alloc> device_memory() override { return device_memory_; }
  std::shared_ptr<Alloc> pinned_memory() override { return pinned_memory_; }
  std::unique_ptr<Stream> make_stream() override {
    const Spared spared;
    return std::make_unique<SparedStream>(inner().make_stream());
  }

 private:
  const std::shared_ptr<Alloc> device_memory_, pinned_memory_;
};

}  // namespace damacy::testing
