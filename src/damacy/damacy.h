// The whole public C++ API: a table of contents.
//
//   Pipeline   samples in, batches out, in order            pipeline/pipeline.h
//   Config     what a pipeline is told                      pipeline/config.h
//   Sample     a box of an array; SampleSource              pipeline/sample.h
//   Batch      a finished batch, DLPack                     pipeline/batch.h
//   Stats      what the stages did                          pipeline/stats.h
//   ArrayInfo  what an array is, before streaming from it   zarr/array_info.h
//   Error      the one exception, with status and place     core/error.h
//   log        where records go                             core/log.h
#pragma once

#include "damacy/core/error.h"
#include "damacy/core/log.h"
#include "damacy/pipeline/batch.h"
#include "damacy/pipeline/config.h"
#include "damacy/pipeline/pipeline.h"
#include "damacy/pipeline/sample.h"
#include "damacy/pipeline/stats.h"
#include "damacy/zarr/array_info.h"
