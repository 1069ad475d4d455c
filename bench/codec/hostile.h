// Correctness and safety: generated frames of all kinds, and mutated ones under guard zones, with the reference decoder
// and the libraries as oracles.
#pragma once

#include <cstdint>
#include <string>

namespace damacy::bench {

enum class Subject { mixed, zstd, lz4, blosc };  // mixed: zstd and LZ4, two to one

struct HostileOptions {
  double seconds = 10;         // keeps starting batches until then; 0: one batch
  std::uint64_t until = 0;     // ends when kernels have seen so many frames in all runs of the ledger; 0: does not
  std::size_t frames = 0;      // a batch; 0: as many as keep a GPU busy
  std::size_t largest = 4096;  // decoded bytes a frame
  bool mutate = true;
  Subject subject = Subject::mixed;
  std::uint64_t seed = 1;
  double checked_share = 0.02;  // of mutated frames, by the reference decoder
  bool all_shapes = false;      // every batch in every launch shape, one kernel after the other
  std::size_t threads = 1;
  std::size_t lanes = 3;  // mutated frames: batches under way at a time, so that cores and GPU both have work
  std::string ledger;     // file of totals, to go on with; empty: none
};

// Prints totals as JSON. False when a byte was wrong or escaped, or a verdict differs.
bool run_hostile(const HostileOptions& options);

}  // namespace damacy::bench
