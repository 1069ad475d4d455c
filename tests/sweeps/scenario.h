// What a failure is injected into: short lives of a pipeline over a store in memory. Knows which calls make
// one; what holds whatever fails is the driver's, and what fails, and when, the sweep's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "damacy/device/alloc.h"
#include "damacy/device/device.h"
#include "damacy/store/store.h"

namespace damacy::testing {

// The parts of a run that failures come from.
struct World {
  std::shared_ptr<Store> store;    // of stored_arrays.h
  std::shared_ptr<Alloc> alloc;    // of buffers
  std::shared_ptr<Device> device;  // null: the cores place batches
};

// What came out of a run; `wrong` is empty when every law held.
struct Outcome {
  std::string wrong;
  bool refused = false;        // the constructor, or some call, threw
  std::int64_t delivered = 0;  // samples
};

struct Scenario {
  std::string name;
  std::function<void(const World&, Outcome&)> run;
};
const std::vector<Scenario>& scenarios();

}  // namespace damacy::testing
