// Config from a Python dict.
#pragma once

#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "damacy/batch/config.h"
#include "damacy/batch/sample.h"

namespace damacy::python {

// "" (automatic) | "cpu" | "cuda" | "N". Throws Error(inval) for another text.
DeviceChoice device_of(const std::string& device);

// `fields`: those of Config; device as above.
Config config_of(const nanobind::dict& fields);

// A float, or a sequence of floats with one for each channel.
ChannelNumbers numbers_of(const nanobind::handle& value);
// Names and integers, or None.
std::vector<AxisKey> axes_of(const nanobind::handle& axes);

}  // namespace damacy::python
