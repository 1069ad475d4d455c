// The whole public C++ API: a table of contents.
//
//   Pipeline   samples in, batches out, in order            pipeline/pipeline.h
//   Config     the settings of a pipeline; its environment  batch/config.h
//   Sample     a box of an array, or of each of several     batch/sample.h
//   Batch      a finished batch, DLPack                     batch/batch.h
//   Stats      what the stages did; Explanation: the limit  fetch/stats.h
//   ArrayInfo  what an array is, before streaming from it   zarr/array_info.h
//   Error      the one exception, with status and place     core/error.h
//   log        where records go                             core/log.h
#pragma once

#include "damacy/batch/batch.h"
#include "damacy/batch/config.h"
#include "damacy/batch/sample.h"
#include "damacy/core/error.h"
#include "damacy/core/log.h"
#include "damacy/fetch/stats.h"
#include "damacy/pipeline/pipeline.h"
#include "damacy/zarr/array_info.h"
