#include "sample_objects.h"

#include <utility>
#include <vector>

#include "bindings.h"

namespace damacy::python {

SampleObjects::~SampleObjects() {
  if (carried_.empty() || !Py_IsInitialized()) return;
  const GilAcquire gil;
  release_dropped();
}

std::shared_ptr<const void> SampleObjects::carry(nb::object sample) {
  carried_.push_back({nullptr, nullptr, {}});
  Carried& carried = carried_.back();
  carried.self = std::prev(carried_.end());
  carried.home = shared_from_this();
  carried.sample = sample.release().ptr();
  // If this throws, it deletes its argument.
  return {&carried, [](const void* dropped) { drop(static_cast<Carried*>(const_cast<void*>(dropped))); }};
}

void SampleObjects::drop(Carried* carried) noexcept {
  const std::shared_ptr<SampleObjects> home = std::move(carried->home);
  carried->next_dropped = home->dropped_.load(std::memory_order_relaxed);
  while (!home->dropped_.compare_exchange_weak(carried->next_dropped, carried, std::memory_order_release,
                                               std::memory_order_relaxed)) {
  }
}

nb::object SampleObjects::take(const std::shared_ptr<const void>& carried) {
  PyObject*& sample = static_cast<Carried*>(const_cast<void*>(carried.get()))->sample;
  return sample != nullptr ? nb::steal(std::exchange(sample, nullptr)) : nb::none();
}

// A finalizer may call this again, so the list is taken out before it is walked.
void SampleObjects::release_dropped() {
  Carried* next = dropped_.exchange(nullptr, std::memory_order_acquire);
  while (next != nullptr) {
    Carried* const carried = std::exchange(next, next->next_dropped);
    const nb::object sample = nb::steal(std::exchange(carried->sample, nullptr));
    carried_.erase(carried->self);
  }
}

void SampleObjects::release_all() {
  std::vector<nb::object> samples;
  samples.reserve(carried_.size());
  for (Carried& carried : carried_) samples.push_back(nb::steal(std::exchange(carried.sample, nullptr)));
  release_dropped();
}

int SampleObjects::visit(visitproc visitor, void* arg) const {
  for (const Carried& carried : carried_)
    if (carried.sample != nullptr)
      if (const int stop = visitor(carried.sample, arg)) return stop;
  return 0;
}

}  // namespace damacy::python
