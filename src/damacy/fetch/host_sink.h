// Decodes chunks on the thread that read them, and copies their elements to where they go while they are in cache.
// Knows chunks, the memory of readers and what keeps chunks for later jobs; not how bytes are read.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "damacy/cache/chunk_tier.h"
#include "damacy/core/mutex.h"
#include "damacy/fetch/cached_chunks.h"
#include "damacy/fetch/chunk_reads.h"

namespace damacy {

// Memory of readers.
struct DecodeMemory {
  Arena& staging;                         // packed bytes
  Arena& scratch;                         // decoded bytes
  std::vector<DecodeContext>& contexts;   // by thread
  std::shared_ptr<const void> keep = {};  // the memory's owner, if it may end before an abandoned read returns
};

// Where chunks are kept; null: nowhere.
struct HostTiers {
  ChunkTier* decoded = nullptr;
  ChunkTier* encoded = nullptr;
  std::shared_ptr<const void> keep = {};  // their owner, as DecodeMemory has it
  bool is_for_jobs = false;               // what `decoded` has was decoded for other jobs, and counts as joined
};

// The arguments of ChunkSink::take().
struct ReadChunk {
  std::size_t thread;
  std::size_t chunk;
  std::span<const std::byte> packed;
  std::span<const ByteRange> available;
  std::stop_token stop;
};
// Decodes at least `needed`, and passes the decoded chunk on. Raw chunks are passed as they are. False: `available` is
// too little. Throws why the chunk cannot be decoded.
[[nodiscard]] bool decode_on_host(WantedChunks& chunks, const ReadChunk& read, const DecodeMemory& memory,
                                  const std::function<std::vector<ByteRange>()>& needed,
                                  const std::function<void(std::span<const std::byte>)>& pass);

// Copies to destinations on the host.
class HostSink : public ChunkSink {
 public:
  HostSink(std::shared_ptr<WantedChunks> chunks, DecodeMemory memory, HostTiers tiers = {});

  WantedChunks& chunks() noexcept override { return *chunks_; }
  CachedChunks& decoded() noexcept { return decoded_; }
  CachedChunks& encoded() noexcept { return encoded_; }
  // A chunk of which only a part is needed is read as a whole if it will probably be kept.
  bool wants_whole(std::size_t chunk) const noexcept override {
    return decoded_.may_be_kept(chunk) || encoded_.may_be_kept(chunk);
  }
  ReadBuffer buffer(std::uint64_t bytes, std::stop_token stop) override {
    return take_buffer(memory_.staging, bytes, std::move(stop));
  }
  bool takes_held_bytes() const noexcept override { return true; }
  void fail_read(std::size_t chunk, const Error& why) noexcept override;
  bool take(std::size_t thread, std::size_t chunk, std::span<const std::byte> packed,
            std::span<const ByteRange> available, std::stop_token stop) override;

  // The same with an encoded chunk that a tier keeps. False, and nothing was placed: its bytes were overwritten
  // meanwhile, or do not decode.
  bool take_kept(std::size_t thread, std::size_t chunk, const ChunkTier::Hold& kept, std::stop_token stop) noexcept;

  // Writes the fill value in place of a missing chunk.
  void fill(std::size_t chunk) noexcept;
  struct Decoded {
    std::size_t chunk;
    std::span<const std::byte> bytes;
  };
  // Places chunks that were decoded earlier. Rows of a large destination that several of them share are written once.
  void place_cached(std::span<const Decoded> chunks) noexcept;

 protected:
  // Other jobs that want the same chunk. No job can join afterwards.
  virtual std::vector<ChunkConsumer> joined_to(std::size_t) noexcept { return {}; }

 private:
  void fail(std::size_t chunk, std::span<const ChunkConsumer> joined, const Error& why) noexcept;
  bool read_again(const ReadChunk& read, std::vector<ChunkConsumer>& joined);
  std::vector<ChunkConsumer> take_back(std::size_t chunk) noexcept;
  using IsIntact = std::function<bool()>;
  bool decode_and_place(const ReadChunk& read, std::span<const ChunkConsumer> joined, const IsIntact& is_intact);
  bool keep_and_place(const ReadChunk& read, std::span<const ChunkConsumer> joined, const IsIntact& is_intact);
  void keep_encoded(std::size_t chunk, std::span<const std::byte> packed);
  std::vector<ByteRange> needed_by(std::size_t chunk, std::span<const ChunkConsumer> joined) const;
  void place(std::size_t chunk, std::span<const ChunkConsumer> joined, std::span<const std::byte> decoded);

  std::shared_ptr<WantedChunks> chunks_;
  DecodeMemory memory_;
  const HostTiers tiers_;
  CachedChunks decoded_, encoded_;
  Mutex mutex_;
  std::map<std::size_t, std::vector<ChunkConsumer>> joined_again_ DAMACY_GUARDED_BY(mutex_);  // a read of read_again()
};

}  // namespace damacy
