// Devices made of ordinary memory and the caller's threads. Their one difference is when work happens.
#pragma once

#include <cstdint>
#include <memory>

#include "damacy/device/device.h"

namespace damacy {

struct HostOrder {
  enum class Kind {
    eager,   // at once
    lazy,    // at the last moment the rules allow: when the host waits for it, or memory is given back
    random,  // at some moment the rules allow, which the seed picks; a seed replays exactly
  };
  Kind kind = Kind::eager;
  std::uint64_t seed = 0;
  bool guard = false;  // device memory faults when touched but by an operation of a stream, as a GPU's would
};

std::shared_ptr<Device> make_host_device(HostOrder order = {},
                                         std::shared_ptr<Alloc> alloc = std::make_shared<PageAlloc>());

}  // namespace damacy
