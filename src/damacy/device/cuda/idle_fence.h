// A fence for all work of a context that does not break a graph being captured. A thread of the library waits in a
// driver call that returns when the work queued so far is done. For the host only: streams cannot wait for it.
#pragma once

#include <memory>
#include <optional>

#include "damacy/core/mutex.h"
#include "damacy/device/cuda/context.h"
#include "damacy/device/device.h"

namespace damacy::cuda {

class IdleFence final : public Event::State {
 public:
  // Starts the thread, which is detached: if the GPU hangs, it never ends. Throws Error(oom).
  explicit IdleFence(std::shared_ptr<const Context> context);

  bool ready() override;
  bool wait(std::stop_token stop) override;
  std::optional<double> ms_since(Event::State&) override { return std::nullopt; }
  bool for_streams() const noexcept override { return false; }

 private:
  struct Outcome {
    Mutex mutex;
    StoppableCondition changed;
    bool done DAMACY_GUARDED_BY(mutex) = false;
    std::optional<Error> failure DAMACY_GUARDED_BY(mutex);
  };

  const std::shared_ptr<const Context> context_;
  const std::shared_ptr<Outcome> outcome_ = std::make_shared<Outcome>();
};

}  // namespace damacy::cuda
