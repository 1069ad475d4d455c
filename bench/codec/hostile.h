// Correctness and safety: generated frames of all kinds, and mutated frames between guard zones. The reference decoder
// and the libraries are the oracles.
#pragma once

#include <cstdint>
#include <string>

namespace damacy::bench {

enum class Subject { mixed, zstd, lz4, blosc };  // mixed: zstd and LZ4, two to one

struct HostileOptions {
  double seconds = 10;         // starts batches for so long; 0: one batch
  std::uint64_t until = 0;     // ends after kernels have decoded so many frames in all runs of the ledger; 0: no limit
  std::size_t frames = 0;      // per batch; 0: enough to keep a GPU busy
  std::size_t largest = 4096;  // decoded bytes per frame
  bool mutate = true;
  Subject subject = Subject::mixed;
  std::uint64_t seed = 1;
  double checked_share = 0.02;  // of mutated frames, compared with the reference decoder
  bool all_shapes = false;      // every batch in every launch shape, one kernel after the other
  std::size_t threads = 1;
  std::size_t lanes = 3;  // mutated frames: batches under way at a time, so that cores and GPU both have work
  std::string ledger;     // file with the totals of all runs; empty: none
};

// Prints totals as JSON. False if a byte was wrong or out of bounds, or if a status differs.
bool run_hostile(const HostileOptions& options);

}  // namespace damacy::bench
