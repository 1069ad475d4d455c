// Scenarios into which sweeps inject failures: short runs of a pipeline over a store in memory. Knows the calls of a
// run. The driver checks the conditions that must hold for any failure; the sweep chooses the failures.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "damacy/device/device.h"
#include "damacy/store/store.h"

namespace damacy::testing {

// The parts of a run into which failures are injected.
struct World {
  std::shared_ptr<Store> store;    // of stored_arrays.h
  std::shared_ptr<Alloc> alloc;    // allocates buffers
  std::shared_ptr<Device> device;  // null: the cores place batches
};

// The result of a run; `wrong` is empty if all conditions held.
struct Outcome {
  std::string wrong;
  bool refused = false;        // the constructor or a call threw
  std::int64_t delivered = 0;  // samples
};

struct Scenario {
  std::string name;
  std::function<void(const World&, Outcome&)> run;
};
const std::vector<Scenario>& scenarios();

}  // namespace damacy::testing
