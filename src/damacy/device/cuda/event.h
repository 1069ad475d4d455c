// A CUDA event as an Event.
#pragma once

#include <atomic>
#include <cstdint>
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
  // It has been recorded once more: what was known of it is void.
  void recorded_again() noexcept { records_.fetch_add(1, std::memory_order_acq_rel); }
  // Of that context, and without times.
  bool is_plain_of(const Context& context) const noexcept { return !timed_ && context_->handle() == context.handle(); }

 private:
  const std::shared_ptr<const Context> context_;
  const bool timed_;
  CUevent handle_ = nullptr;
  std::atomic<std::uint64_t> records_{0};
  std::atomic<std::uint64_t> passed_{0};  // 1 + the record that is known to have passed; 0: none is
};

}  // namespace damacy::cuda
