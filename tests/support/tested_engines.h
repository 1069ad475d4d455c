// The engines that tests of pipelines run on. Knows devices of the host; not what a test reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "damacy/device/host_device.h"
#include "damacy/pipeline/environment.h"

namespace damacy::testing {

struct TestedEngine {
  std::string name;
  std::optional<HostOrder> device = {};  // empty: the worker engine

  // The device decodes all that it can.
  PipelineEnvironment environment() const {
    PipelineEnvironment environment;
    if (device) environment.device = make_host_device(*device);
    environment.device_from_bytes = 0;
    return environment;
  }
};

inline std::vector<TestedEngine> tested_engines() {
  return {{"workers"}, {"eager", HostOrder{HostOrder::Kind::eager}}, {"lazy", HostOrder{HostOrder::Kind::lazy}}};
}
// And one on a device that works in a random order.
inline std::vector<TestedEngine> tested_engines(std::uint64_t seed) {
  std::vector<TestedEngine> engines = tested_engines();
  engines.push_back({"random", HostOrder{HostOrder::Kind::random, seed}});
  return engines;
}

inline constexpr auto kEngineName = [](const auto& of) { return of.param.name; };

}  // namespace damacy::testing
