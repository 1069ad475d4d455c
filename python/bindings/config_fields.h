// Config from a Python dict.
#pragma once

#include <string>

#include <nanobind/nanobind.h>

#include "damacy/batch/config.h"

namespace damacy::python {

// "" (automatic) | "cpu" | "cuda" | "N". Throws Error(inval) for another text.
DeviceChoice device_of(const std::string& device);

// `fields`: those of Config; device as above.
Config config_of(const nanobind::dict& fields);

}  // namespace damacy::python
