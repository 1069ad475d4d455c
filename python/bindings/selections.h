// Converts the indices that zarr-python passes to C++: numbers, slices, and views of arrays. Knows Python's objects;
// not NumPy's rules (damacy/plan/indexing.h).
#pragma once

#include <forward_list>
#include <optional>
#include <vector>

#include "bindings.h"
#include "buffer_view.h"
#include "damacy/plan/indexing.h"

namespace damacy::python {

// One index; the views hold its entries that are arrays.
struct Index {
  std::vector<IndexEntry> entries;
  std::forward_list<BufferView> views;
};

// Empty if an entry is of another kind.
std::optional<Index> index_of(nb::handle selection);

}  // namespace damacy::python
