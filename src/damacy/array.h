// Single arrays: open_array(uri, store) gives an Array, Array::read() the elements of a box, on threads that the
// process keeps for such reads; make_file_store() and path_of_uri() give the store of a path, and store_of_uri() of
// damacy/remote.h that of any uri.
#pragma once

#include "damacy/core/error.h"
#include "damacy/store/store.h"
#include "damacy/zarr/array.h"
