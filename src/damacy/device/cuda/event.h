// A CUDA event as an Event.
#pragma once

#include <memory>

#include "damacy/device/cuda/context.h"
#include "damacy/device/device.h"

namespace damacy::cuda {

class CudaEvent final : public Event::State {
 public:
  // Made, not recorded. The context of `context` is current.
  CudaEvent(std::shared_ptr<const Context> context, bool timed);
  ~CudaEvent() override;

  bool ready() override;
  bool wait(std::stop_token stop) override;
  std::optional<double> ms_since(Event::State& earlier) override;
  CUevent handle() const noexcept { return handle_; }
  // Of that context, and without times.
  bool is_plain_of(const Context& context) const noexcept { return !timed_ && context_->handle() == context.handle(); }

 private:
  const std::shared_ptr<const Context> context_;
  const bool timed_;
  CUevent handle_ = nullptr;
};

}  // namespace damacy::cuda
