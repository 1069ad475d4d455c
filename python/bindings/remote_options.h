// The options of a remote store, and what remote stores get from Python: credentials of a callable, and certificates of
// a package. Knows fields; mounts nothing.
#pragma once

#include <string>

#include "bindings.h"
#include "damacy/store/store_options.h"

namespace damacy::python {

// `fields`: all of damacy.StoreOptions.
StoreOptions store_options_of(const nb::dict& fields);

// The file of the package certifi, which need not be there.
std::string certifi_file();

}  // namespace damacy::python
