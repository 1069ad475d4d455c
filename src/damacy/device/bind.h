// Chooses the device of a pipeline. Knows the rules and the error messages; not Python, not torch.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "damacy/device/device.h"

namespace damacy {

struct DeviceChoice {
  enum class Kind {
    automatic,  // the current context; without a usable GPU the host
    cpu,
    cuda,   // the current context, else device 0; never the host
    index,  // that device's primary context
  };
  Kind kind = Kind::automatic;
  int index = 0;
};

struct BoundDevice {
  std::shared_ptr<Device> device;
  std::string why_host;        // automatic only: why it is the host; for the log
  bool is_unexpected = false;  // there is a driver, but it cannot be used: worth a warning
};

// `make_current` is called if automatic finds no current context: another library may make its own current (and then
// returns true). Throws Error(inval) with reason "no-device", or "no-context" with what to do.
BoundDevice bind_device(const DeviceChoice& choice, const std::function<bool()>& make_current = {});

}  // namespace damacy
