// Finds the bottleneck of a stream of batches from the measurements of its stages: the limiting stage, how close it is
// to its ceiling, and which setting would help. Pure: no clock, no machine; everything is an argument.
#pragma once

#include <cstdint>

#include "damacy/batch/config.h"
#include "damacy/fetch/chunk_reuse.h"
#include "damacy/fetch/stats.h"
#include "damacy/store/network_counts.h"

namespace damacy {

// The counters of a pipeline over `seconds`, and its resources.
struct Observation {
  Stats stats;
  double seconds = 0;
  std::int64_t cores = 1;
  bool on_device = false;  // batches, and the decoding of most chunks
  // With a device: how many chunks are read and waves decoded at a time, the bytes of a wave, and whether larger
  // buffers would make waves larger.
  double readers = 1, decoders = 1;
  double wave_encoded = 0, wave_decoded = 0;
  bool larger_waves = false;
  bool has_device = false;  // some chunks may be decoded on the cores nevertheless
  ChunkReuse::Seen chunks;
  NetworkCounts::Seen network;
  // Slots beyond n_batches that are there now, the bytes that such may take, and the batches that the consumer holds.
  std::int64_t added_slots = 0, keep_bytes = 0, held = 0;
};

[[nodiscard]] Explanation explain(const Config& config, const Observation& seen);

}  // namespace damacy
