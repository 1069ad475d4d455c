// Input for the hostile runs: sample frames, and loads of these, mutated or unchanged.
#pragma once

#include <vector>

#include "batch.h"
#include "hostile.h"

namespace damacy::bench {

struct Sample {
  Bytes content, encoded;
  GpuCodec codec = GpuCodec::zstd;  // for a blosc chunk, the codec of its streams, as in its header
};

// Sample frames. Generating them costs more than mutating and decoding them.
class Pool {
 public:
  Pool(std::size_t count, const HostileOptions& options, std::uint64_t seed, Crew& crew);
  [[nodiscard]] const Sample& at(std::size_t i) const { return samples_[i % samples_.size()]; }

 private:
  std::vector<Sample> samples_;
};

// The frames of one batch and their expected results. Reused, so that memory is allocated once.
class Load {
 public:
  void make(const HostileOptions& options, std::uint64_t seed, const Pool& pool, Crew& crew);

  [[nodiscard]] const std::vector<Item>& items() const { return items_; }
  // The items before mutation; empty for the streams of blosc chunks.
  [[nodiscard]] const std::vector<const Bytes*>& contents() const { return contents_; }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }  // blosc chunks whose containers are malformed

 private:
  std::vector<Bytes> encoded_;
  std::vector<Item> items_;
  std::vector<const Bytes*> contents_;
  std::vector<std::vector<Item>> streams_;  // for each blosc chunk
  std::uint64_t refused_ = 0;
};

}  // namespace damacy::bench
