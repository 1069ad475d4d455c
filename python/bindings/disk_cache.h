// Functions on the directory of a disk cache.
#pragma once

#include "bindings.h"

namespace damacy::python {

void bind_disk_cache(nb::module_& m);

}  // namespace damacy::python
