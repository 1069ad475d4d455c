// The cost of reading one box: the objects, the merged requests, and the read amplification. Opens shards and reads
// their indices; reads no chunk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "damacy/batch/config.h"
#include "damacy/batch/sample.h"
#include "damacy/core/dims.h"

namespace damacy {

struct PlannedRead {
  std::string key;           // the object, below the store
  std::uint64_t offset = 0;  // in it
  std::uint64_t bytes = 0;
  std::uint64_t wanted_bytes = 0;  // of encoded chunks; the rest are gaps between them
  // Only parts of its one chunk are read, at most `bytes`: the chunk's head says which. Raw chunks have none and are
  // listed part by part.
  bool at_most = false;
  std::vector<Dims> chunks;  // coordinates in the array's chunk grid
};

struct ReadPlan {
  std::string store;
  Dims shape, chunk_shape;
  std::string dtype;
  std::vector<PlannedRead> reads;  // by object, then by offset
  std::int64_t objects = 0;        // that are there
  std::int64_t chunks = 0;         // that the box touches, missing ones too
  std::int64_t missing_chunks = 0;
  std::uint64_t box_bytes = 0;      // of the array's elements in the box
  std::uint64_t decoded_bytes = 0;  // of the chunks that are there
  std::uint64_t stored_bytes = 0;   // the same, encoded
  std::uint64_t read_bytes = 0;     // by all requests
  std::uint64_t buffer_bytes = 0;   // the least that each of a pipeline's buffers needs for one of the chunks
};

// Throws what push of such a sample throws, and what an index or an object that is wrong throws.
// With Listed::no only the chunks are counted: `reads` and `read_bytes` stay empty.
enum class Listed { no, yes };
[[nodiscard]] ReadPlan plan_reads(const Sample& sample, Listed reads = Listed::yes);

}  // namespace damacy
