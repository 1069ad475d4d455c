// Stores of Python behind the library's seam. A reading thread holds the GIL only to make a request and to give the
// bytes back. It waits without the GIL, in C++, so that Python may end meanwhile. Knows adapters
// (damacy._stores.adapters); not which uris are theirs.
#pragma once

#include <memory>
#include <string>

#include "bindings.h"
#include "damacy/store/store.h"

namespace damacy::python {

// Objects of a Python store. `revalidate_s`: how old the answer to a question for a version may be.
std::shared_ptr<Store> make_python_store(nb::handle adapter, std::string name, double revalidate_s);

// A directory that a store of Python stands for.
std::shared_ptr<Store> make_python_directory(nb::handle adapter, const std::string& root);

// Of a store that one of these made; else None.
nb::object adapter_of(const Store& store);

}  // namespace damacy::python
