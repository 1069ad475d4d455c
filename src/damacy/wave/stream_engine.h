// Places batches in the order of a device's streams. Readers read encoded chunks into pinned memory and describe their
// frames. One thread uploads pieces and enqueues decoding, one frees uploaded pieces, one enqueues placing, and one
// waits and settles batches. Chunks that a device cannot decode, or not in time, are decoded and cropped by readers,
// and only the crop is uploaded. The device is CUDA, or a host device on which every missing wait gives wrong bytes.
#pragma once

#include <memory>

#include "damacy/batch/memory_plan.h"
#include "damacy/codec/stream_decoder.h"
#include "damacy/copy/placement.h"
#include "damacy/device/device.h"
#include "damacy/fetch/batch_engine.h"
#include "damacy/fetch/readers.h"

namespace damacy {

struct StreamEngineParts {
  MemoryPlan plan;
  std::shared_ptr<Device> device;
  std::unique_ptr<StreamDecoder> decoder;
  std::unique_ptr<Copier> copier;
  // Batches with fewer decoded bytes than this go to the readers: a device would not have decoded them sooner.
  std::uint64_t device_from_bytes = 0;
};

std::unique_ptr<BatchEngine> make_stream_engine(StreamEngineParts parts, Readers& readers, StatsBoard& board);

}  // namespace damacy
