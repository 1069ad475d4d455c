// What the hostile runs feed to the decoder: samples to start from, and loads of them, mutated or as they are.
#pragma once

#include <vector>

#include "batch.h"
#include "hostile.h"

namespace damacy::bench {

struct Sample {
  Bytes content, encoded;
  GpuCodec codec = GpuCodec::zstd;  // of a blosc chunk's streams: in its header
};

// Frames to start from: making them costs more than mutating and decoding them.
class Pool {
 public:
  Pool(std::size_t count, const HostileOptions& options, std::uint64_t seed, Crew& crew);
  [[nodiscard]] const Sample& at(std::size_t i) const { return samples_[i % samples_.size()]; }

 private:
  std::vector<Sample> samples_;
};

// Frames of one batch and what is known of them. Used again, so that memory is taken once.
class Load {
 public:
  void make(const HostileOptions& options, std::uint64_t seed, const Pool& pool, Crew& crew);

  [[nodiscard]] const std::vector<Item>& items() const { return items_; }
  // Of what items were before mutation; empty for the streams of blosc chunks.
  [[nodiscard]] const std::vector<const Bytes*>& contents() const { return contents_; }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }  // blosc chunks whose containers are malformed

 private:
  std::vector<Bytes> encoded_;
  std::vector<Item> items_;
  std::vector<const Bytes*> contents_;
  std::vector<std::vector<Item>> streams_;  // of each blosc chunk
  std::uint64_t refused_ = 0;
};

}  // namespace damacy::bench
