// An opened array: its metadata, its store, and the key of each chunk. Chunks are numbered in C order over the grid of
// inner chunks that covers the array; so are shards. Knows names; reads nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"
#include "damacy/store/store.h"

namespace damacy {

struct ArrayMetadata;  // metadata.h

class Array {
 public:
  Array(std::string uri, std::shared_ptr<Store> store, std::string path, std::string document_key, Stamp document_stamp,
        ArrayMetadata metadata, std::vector<std::string> levels);

  const std::string& uri() const noexcept { return uri_; }
  const std::shared_ptr<Store>& store() const noexcept { return store_; }
  const std::string& document_key() const noexcept { return document_key_; }
  const Stamp& document_stamp() const noexcept { return document_stamp_; }
  const ArrayMetadata& metadata() const noexcept { return *metadata_; }
  const std::vector<std::string>& levels() const noexcept { return levels_; }  // of the NGFF image it was found through

  const Dims& shape() const noexcept;
  Dtype dtype() const noexcept;
  std::size_t rank() const noexcept { return grid_.size(); }
  const Dims& grid() const noexcept { return grid_; }  // inner chunks along each axis (ceil)
  // Here a shard is the unit that lists chunks: the innermost shard if shards are nested, or the chunk itself if the
  // array is not sharded.
  const Dims& shard_grid() const noexcept { return shard_grid_; }
  const Dims& chunks_in_shard() const noexcept { return chunks_in_shard_; }
  std::size_t chunks_per_shard() const noexcept { return chunks_per_shard_; }
  // Entries in an index of that level, 0 being the outermost.
  std::size_t entries_of(std::size_t level) const noexcept { return levels_of_[level].entries; }

  std::string key_of_shard(const Dims& shard) const;  // the object it lies in, below the store, path included
  Dims shard_of_chunk(const Dims& chunk) const noexcept;
  Dims first_chunk_of(const Dims& shard) const noexcept;
  // Which entry of a level's index leads to the chunk; the inverse for the innermost level.
  std::size_t entry_at(std::size_t level, const Dims& chunk) const noexcept;
  std::size_t index_in_shard(const Dims& chunk) const noexcept;  // position in the innermost index
  // The chunk that an entry of an index of that level leads to first; `inside`: any chunk in the same shard.
  Dims chunk_of_entry(std::size_t level, std::size_t entry, const Dims& inside) const noexcept;
  Box box_of_chunk(const Dims& chunk) const noexcept;  // full size, also beyond the array's edge
  // Byte strides of the elements of a decoded chunk, per array axis.
  const Dims& chunk_strides() const noexcept { return chunk_strides_; }
  std::uint64_t max_encoded_chunk_bytes() const noexcept;
  // What an index of that level may lead to at most, encoded: chunks, or shards of the next level.
  std::uint64_t max_entry_bytes(std::size_t level) const noexcept;
  // A shard of that level without the codecs behind it.
  std::uint64_t max_shard_bytes(std::size_t level) const noexcept;
  const std::string& path() const noexcept { return path_; }  // below the store, "" for its root

  // Reads the elements of a box, of any type, without a cast, row-major and in the machine's byte order. `out` has
  // exactly their size. Reads, decodes and copies on threads that the process keeps for this, one a core; waits for
  // them. Throws Error (inval, "aabb") for a box outside the array or a wrong size of `out`; other errors have uri,
  // store, key, chunk and bytes. Defined in `single/array_read.cpp`.
  void read(const Box& box, std::span<std::byte> out) const;

  // Whether a directory that holds nested chunks was looked for, and found.
  enum class Nested : int { unknown, no, yes };
  std::atomic<Nested>& nested_chunks() const noexcept { return *nested_chunks_; }

 private:
  std::string uri_;
  std::shared_ptr<Store> store_;
  std::string path_;
  std::string document_key_;
  Stamp document_stamp_;
  std::shared_ptr<const ArrayMetadata> metadata_;
  std::vector<std::string> levels_;
  struct Level {
    Dims children;         // entries of an index along each axis
    Dims chunks_in_child;  // chunks that one entry leads to
    std::size_t entries;
  };
  std::vector<Level> levels_of_;
  Dims grid_, shard_grid_, chunks_in_shard_, shards_in_object_, chunk_strides_;
  std::size_t chunks_per_shard_ = 1;
  std::shared_ptr<std::atomic<Nested>> nested_chunks_ = std::make_shared<std::atomic<Nested>>(Nested::unknown);
};

// Opens what `uri` names: an array, or level 0 of an image. Throws Error with uri, store, key, pointer and reason.
// `make_store` opens the store of a root path.
std::shared_ptr<const Array> open_array(const std::string& uri, std::shared_ptr<Store> store);

}  // namespace damacy
