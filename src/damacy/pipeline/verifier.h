// Reads and decodes every stored chunk of an array and keeps what is wrong with them. Knows stored objects; makes no
// batch and starts no thread: callers share the work out by places.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/zarr/catalog.h"

namespace damacy {

struct VerifyReport {
  std::int64_t chunks = 0;   // decoded, good ones
  std::int64_t missing = 0;  // not stored: they read as the fill value
  std::uint64_t encoded_bytes = 0, decoded_bytes = 0;
  std::int64_t read_ns = 0, decode_ns = 0;
  std::vector<Error> bad;  // one a chunk; one alone for a shard whose index is wrong
};

// Any member may be called from any thread.
class Verifier {
 public:
  // Throws what opening the array throws.
  explicit Verifier(const std::string& uri);

  // How many places for chunks its shards have. Chunks of one shard are neighbours; places beyond the array's edge
  // count too.
  std::int64_t places() const noexcept { return places_; }
  std::int64_t places_per_shard() const noexcept { return static_cast<std::int64_t>(array_->chunks_per_shard()); }
  // Checks the places [first, first + count), as far as there are any.
  VerifyReport verify(std::int64_t first, std::int64_t count) const;

 private:
  struct Work;
  void verify_in_shard(Work& work, std::int64_t shard, std::int64_t first, std::int64_t last) const;
  void verify_chunk(Work& work, const Shard& shard, const Dims& chunk) const;

  mutable Catalog catalog_;
  std::shared_ptr<const Array> array_;
  Dims chunks_in_shard_;
  std::int64_t places_;
};

}  // namespace damacy
