// Single arrays, read on the calling thread: open_array(uri, store) gives an Array, Array::read() the elements of a
// box; make_file_store() and path_of_uri() give the store.
#pragma once

#include "damacy/core/error.h"
#include "damacy/store/store.h"
#include "damacy/zarr/array.h"
