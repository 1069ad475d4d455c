// Checks an array: every stored chunk is read as for batches (fetch/), decoded and reported, also those for which
// storage does not answer. Knows stored objects; makes no batch, and places nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/single/selection_readers.h"
#include "damacy/store/storage_call.h"
#include "damacy/zarr/catalog.h"

namespace damacy {

class ArrayPlaces;

struct VerifyReport {
  std::int64_t chunks = 0;   // decoded, good ones
  std::int64_t missing = 0;  // not stored: they read as the fill value
  // Chunks (included in `chunks`) without a checksum: damage that still decodes is not found there.
  std::int64_t unguarded = 0;
  std::uint64_t encoded_bytes = 0, decoded_bytes = 0;  // of good chunks
  std::int64_t read_ns = 0, decode_ns = 0;             // the sums over threads
  std::vector<Error> bad;  // one a chunk, and one for a shard that cannot be opened; by key and chunk
};

// Any member may be called from any thread.
class Verifier {
 public:
  // `readers` read and decode. Throws what opening the array throws.
  Verifier(const std::string& uri, std::shared_ptr<SelectionReaders> readers, const StorageWaiting& waiting = {},
           Catalog::MakeStore make_store = nullptr);

  // How many places for chunks its shards have. Chunks of one shard are neighbours; places beyond the array's edge
  // count too.
  std::int64_t places() const noexcept;
  // Checks the places [first, first + count) that exist. Calls `look` several times a second, on this thread, with the
  // number of places that are done; what it throws ends the check soon, also while storage does not answer.
  VerifyReport verify(std::int64_t first, std::int64_t count, const std::function<void(std::int64_t)>& look = {}) const;

 private:
  std::shared_ptr<SelectionReaders> readers_;
  std::shared_ptr<const ArrayPlaces> array_;
};

}  // namespace damacy
