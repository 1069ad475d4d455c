// A Device that passes calls on to another. Test doubles derive from it and override what they change. It has none of
// what a Device may lack (ordered memory, borrowed streams): work there would bypass the double.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "damacy/device/device.h"

namespace damacy::testing {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::shared_ptr<Device> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return inner_->name(); }
  int index() const noexcept override { return inner_->index(); }
  bool is_host() const noexcept override { return inner_->is_host(); }
  std::shared_ptr<Alloc> device_memory() override { return inner_->device_memory(); }
  std::shared_ptr<Alloc> pinned_memory() override { return inner_->pinned_memory(); }
  std::optional<Memory> memory() override { return inner_->memory(); }
  std::unique_ptr<Stream> make_stream() override { return inner_->make_stream(); }
  void check_usable() override { inner_->check_usable(); }
  std::optional<Event> try_fence(std::uint64_t stream) override { return inner_->try_fence(stream); }
  Event fence_event(std::uint64_t event) override { return inner_->fence_event(event); }
  Event fence_all(bool spare_captures) override { return inner_->fence_all(spare_captures); }
  void make_wait(std::uint64_t stream, const Event& event) override { inner_->make_wait(stream, event); }

 protected:
  Device& inner() const noexcept { return *inner_; }

 private:
  const std::shared_ptr<Device> inner_;
};

}  // namespace damacy::testing
