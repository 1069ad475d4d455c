// The waiting thread. Unregistering a page waits for the device (measured with driver 580), as cuMemFree does.
// cuCtxSynchronize waits too, but breaks captures.
#include "damacy/device/cuda/idle_fence.h"

#include <system_error>

#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/core/thread.h"
#include "damacy/device/device.h"

namespace damacy::cuda {
namespace {

constexpr std::size_t kPageBytes = 4096;

void wait_until_idle(const Context& context) {
  const HostBuffer page(std::make_shared<PageAlloc>(), kPageBytes);
  const Use use(context);
  context.check(context.calls().cuMemHostRegister(page.data(), page.size(), 0), "cuMemHostRegister");
  context.check(context.calls().cuMemHostUnregister(page.data()), "cuMemHostUnregister");
}

template <class Body>
void start_and_leave_alone(Body body) {
  try {
    Thread("damacy-fence", std::move(body)).leave_alone();
  } catch (const std::system_error& error) {
    throw Error(Status::oom, formatted("cannot start a thread that waits for the GPU: {}", error.what()), "memory");
  }
}

}  // namespace

IdleFence::IdleFence(std::shared_ptr<const Context> context) : context_(std::move(context)) {
  start_and_leave_alone([used = context_, outcome = outcome_]() mutable {
    std::optional<Error> failure;
    try {
      wait_until_idle(*used);
    } catch (const Error& error) {
      failure = error;
    }
    used.reset();  // who sees the fence pass may count on it
    const Lock lock(outcome->mutex);
    outcome->done = true;
    outcome->failure = std::move(failure);
    outcome->changed.notify_all();
  });
}

bool IdleFence::ready() {
  context_->check_usable();
  const Lock lock(outcome_->mutex);
  if (outcome_->failure) throw *outcome_->failure;
  return outcome_->done;
}

bool IdleFence::wait(std::stop_token stop) {
  {
    Lock lock(outcome_->mutex);
    if (!outcome_->changed.wait(lock, stop, [this]() DAMACY_REQUIRES(outcome_->mutex) { return outcome_->done; }))
      return false;
  }
  return ready();
}

}  // namespace damacy::cuda
