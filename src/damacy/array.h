// Single arrays.
//
//   open_array       opens what a uri names in a store                       zarr/array.h
//   Array            shape, type; read() of a box or a selection             zarr/array.h
//   Selection        slices, numbers, lists and masks, one an axis           zarr/array_selection.h
//   PointSelection   single elements by their coordinates                    zarr/array_selection.h
//   ReadOutput       memory of the host or of a GPU, its type and strides    zarr/array.h
//   begin_read       a read that does not wait: ArrayRead                  single/array_read.h
//   set_read_cache   memory for decoded chunks of all reads                single/array_read.h
//   make_file_store  the store of a folder; path_of_uri() gives its path     store/store.h
//   make_primary_current   a CUDA context for a program that has made none   device/cuda_device.h
//
// store_of_uri() of damacy/remote.h gives the store of any uri.
#pragma once

#include "damacy/core/error.h"
#include "damacy/device/cuda_device.h"
#include "damacy/single/array_read.h"
#include "damacy/store/store.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/array_selection.h"
