// Places the chunks of a single read that the request's cache has, and decodes the others into it. Knows objects, of
// which it makes keys, and when a chunk may be kept; not how bytes are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "damacy/cache/chunk_key.h"
#include "damacy/cache/wide_hash.h"
#include "damacy/fetch/host_sink.h"
#include "damacy/single/selection_job.h"

namespace damacy {

class KeepingSink final : public HostSink {
 public:
  // What a chunk is called among all of its store.
  struct Name {
    std::string_view object;  // the key
    std::uint64_t number;     // of the chunk in the object
  };
  using NameOf = std::function<Name(std::size_t chunk)>;
  // Without a cache it is a HostSink. `begin_ns`: the system's time before the objects were opened.
  KeepingSink(const SelectionJob& job, const std::shared_ptr<WantedChunks>& chunks, NameOf name_of,
              std::int64_t begin_ns);

  // The chunk's look-up: once for each that is stored, before the requests begin.
  std::optional<ChunkTier::Hold> find(std::uint32_t chunk);
  // A chunk of which only a part is needed is read as a whole if it will probably be kept.
  bool wants_whole(std::size_t chunk) const noexcept override {
    return chunk < may_be_kept_.size() && may_be_kept_[chunk];
  }

 private:
  ChunkTier::Filling reserve(std::size_t chunk) override;
  std::optional<ChunkKey> key_of(std::size_t chunk) const;
  std::uint64_t bytes_of(std::size_t chunk) const {
    return static_cast<std::uint64_t>(wanted_.metadata_of(chunk).chunk_bytes());
  }

  const WantedChunks& wanted_;
  const NameOf name_of_;
  const Store& store_;
  ReadCounters& counters_;
  const std::shared_ptr<ChunkTier> cache_;  // null: nothing is found or kept
  const std::int64_t begin_ns_;
  WideHash array_;
  std::vector<bool> may_be_kept_;  // by chunk
};

// Places what the cache has, of which `readers` do all but the last few, and returns the reads of what it has not.
[[nodiscard]] ChunkReads place_kept(const std::shared_ptr<KeepingSink>& sink, Readers& readers);

}  // namespace damacy
