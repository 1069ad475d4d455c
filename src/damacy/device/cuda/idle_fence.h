// A fence for all work of a context that harms no graph being captured: a thread of ours waits in a call of the driver
// that returns when the work queued so far is done. For the host only: streams cannot wait for it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "damacy/device/cuda/context.h"
#include "damacy/device/device.h"

namespace damacy::cuda {

class IdleFence final : public Event::State {
 public:
  // Starts the thread, which is nobody's to join: on a GPU that hangs it stays behind. Throws Error(oom).
  explicit IdleFence(std::shared_ptr<const Context> context);

  bool ready() override;
  bool wait(std::stop_token stop) override;
  std::optional<double> ms_since(Event::State&) override { return std::nullopt; }
  bool for_streams() const noexcept override { return false; }

 private:
  struct Outcome {
    std::mutex mutex;
    std::condition_variable_any changed;
    bool done = false;
    std::optional<Error> failure;
  };

  const std::shared_ptr<const Context> context_;
  const std::shared_ptr<Outcome> outcome_ = std::make_shared<Outcome>();
};

}  // namespace damacy::cuda
