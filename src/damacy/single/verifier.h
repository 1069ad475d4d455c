// Reads and decodes every stored chunk of an array and collects errors, including chunks for which storage does not
// answer. Knows stored objects; makes no batch. Works on one object at a time: callers divide places among threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/store/storage_call.h"
#include "damacy/zarr/catalog.h"

namespace damacy {

struct VerifyReport {
  std::int64_t chunks = 0;   // decoded, good ones
  std::int64_t missing = 0;  // not stored: they read as the fill value
  // Chunks (included in `chunks`) without a checksum: damage that still decodes is not found there.
  std::int64_t unguarded = 0;
  std::uint64_t encoded_bytes = 0, decoded_bytes = 0;
  std::int64_t read_ns = 0, decode_ns = 0;
  std::vector<Error> bad;  // one a chunk; one alone for a shard whose index is wrong
};

// Any member may be called from any thread.
class Verifier {
 public:
  // Throws what opening the array throws.
  explicit Verifier(const std::string& uri, StorageWaiting waiting = {});
  Verifier(const std::string& uri, Catalog::MakeStore make_store, StorageWaiting waiting);

  // How many places for chunks its shards have. Chunks of one shard are neighbours; places beyond the array's edge
  // count too.
  std::int64_t places() const noexcept;
  std::int64_t places_per_shard() const noexcept;
  // Checks the places [first, first + count) that exist.
  VerifyReport verify(std::int64_t first, std::int64_t count) const;
  // Running and later calls of verify() soon throw Error(shutdown), also those stuck in storage.
  void stop() noexcept { *stopped_ = true; }

 private:
  struct Round;
  class StoredArray;

  std::shared_ptr<std::atomic<bool>> stopped_ = std::make_shared<std::atomic<bool>>(false);
  StorageWaiting waiting_;
  std::shared_ptr<StoredArray> array_;  // shared with threads that storage holds
};

}  // namespace damacy
