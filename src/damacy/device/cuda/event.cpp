// Queries and waits. A wait polls with growing intervals, so that it sees a stop request.
#include "damacy/device/cuda/event.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace damacy::cuda {

CudaEvent::CudaEvent(std::shared_ptr<const Context> context, bool timed) : context_(std::move(context)), timed_(timed) {
  if (timed_)
    context_->check(context_->calls().cuEventCreate(&handle_, CU_EVENT_DEFAULT), "cuEventCreate");
  else
    handle_ = context_->take_event();
}

CudaEvent::~CudaEvent() {
  if (!timed_) {
    context_->give_event(handle_);
    return;
  }
  quietly(*context_, [this](const Calls& calls) { context_->note(calls.cuEventDestroy(handle_), "cuEventDestroy"); });
}

bool CudaEvent::ready() {
  const std::uint64_t record = records_.load(std::memory_order_acquire);
  if (passed_.load(std::memory_order_acquire) == record + 1) {
    context_->check_usable();
    return true;
  }
  const Use use(*context_);
  const CUresult result = context_->calls().cuEventQuery(handle_);
  if (result == CUDA_ERROR_NOT_READY) return false;
  context_->check(result, "cuEventQuery");
  passed_.store(record + 1, std::memory_order_release);
  return true;
}

bool CudaEvent::wait(std::stop_token stop) {
  using std::chrono::microseconds;
  constexpr int kSpins = 64;
  constexpr microseconds kLongest(100);
  microseconds pause(10);
  for (int asked = 0; !stop.stop_requested(); ++asked) {
    if (ready()) return true;
    if (asked < kSpins) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongest);
    }
  }
  return false;
}

std::optional<double> CudaEvent::ms_since(Event::State& earlier) {
  auto* other = dynamic_cast<CudaEvent*>(&earlier);
  if (other == nullptr || !timed_ || !other->timed_ || !other->ready() || !ready()) return std::nullopt;
  const Use use(*context_);
  float ms = 0;
  context_->check(context_->calls().cuEventElapsedTime(&ms, other->handle_, handle_), "cuEventElapsedTime");
  return ms;
}

}  // namespace damacy::cuda
