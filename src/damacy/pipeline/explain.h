// Finds the bottleneck of a stream of batches from the measurements of its stages: the limiting stage, how close it is
// to its ceiling, and which setting would help. Pure: no clock, no machine; everything is an argument.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "damacy/batch/config.h"
#include "damacy/batch/stats.h"

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
  // Slots beyond n_batches that are there now, the bytes that such may take, and the batches that the consumer holds.
  std::int64_t added_slots = 0, keep_bytes = 0, held = 0;
};

// One stage that batches pass through.
struct StageLoad {
  std::string name;        // plan, read, decode, place, bus
  double busy = 0;         // of the time that its lanes (threads, or the device's one) had, 0 to 1
  double bytes_per_s = 0;  // of finished batches, if this stage were busy all the time: its measured ceiling
};

struct Explanation {
  std::string binds;           // a stage's name; "consumer", "latency", or "nothing yet"
  double share = 0;            // of the binding ceiling that was reached, 0 to 1
  double bytes_per_s = 0;      // of finished batches
  double consumer_waited = 0;  // of the time, 0 to 1
  std::vector<StageLoad> stages;
  // Of the encoded bytes that batches wanted, the share that earlier batches had wanted too, 0 to 1; and the chunks
  // that were wanted so far, each once. Estimates.
  double wanted_again = 0;
  double encoded_bytes = 0, decoded_bytes = 0;
  std::string advice;  // the setting that would help; or why none would
  std::string text;    // all of it, for people
};

[[nodiscard]] Explanation explain(const Config& config, const Observation& seen);

}  // namespace damacy
