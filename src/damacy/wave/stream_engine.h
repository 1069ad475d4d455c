// Places batches in the order of a device's streams. Readers read encoded chunks into pinned memory and describe their
// frames. One thread uploads pieces and enqueues decoding, one frees uploaded pieces, one enqueues placing, and one
// waits and settles batches. Chunks that a device cannot decode, or not in time, are decoded and cropped by readers,
// and only the crop is uploaded. The device is CUDA, or a host device on which every missing wait gives wrong bytes.
#pragma once

#include <memory>

#include "damacy/fetch/batch_engine.h"
#include "damacy/fetch/readers.h"
#include "damacy/wave/device_waves.h"

namespace damacy {

std::unique_ptr<BatchEngine> make_stream_engine(DeviceParts parts, Readers& readers, StatsBoard& board);

}  // namespace damacy
