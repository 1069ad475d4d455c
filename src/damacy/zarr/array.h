// An opened array: its metadata, its store, and the key of each chunk. Chunks are numbered in C order over the grid of
// inner chunks that covers the array; so are shards. Knows names; reads nothing. ReadOutput: where reads put elements.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"
#include "damacy/store/store.h"
#include "damacy/zarr/array_selection.h"

namespace damacy {

struct ArrayMetadata;  // metadata.h

// The memory that elements are read into: where it is, how its elements lie, and of which type they become. Borrowed:
// the caller keeps the memory until the read has ended.
struct ReadOutput {
  std::span<std::byte> memory;           // of the host, or an address on a GPU
  std::optional<Dtype> dtype;            // elements are converted to it; empty: the array's
  std::optional<Dims> strides;           // of the result's axes: bytes, signed, not 0. Empty: row-major, without gaps
  std::int64_t first = 0;                // with strides: the byte of `memory` where element (0, ..., 0) begins
  bool is_on_device = false;             // of the GPU that has allocated it
  std::uint64_t stream = kLegacyStream;  // on a GPU: what was queued there comes before the read

  static constexpr std::uint64_t kLegacyStream = 1;

  // Elements become of type T; with std::byte they keep the array's type.
  template <class T>
  static ReadOutput host(std::span<T> elements) {
    static_assert(std::is_same_v<T, std::byte> || kDtypeOf<T>, "not a type of elements; pass std::byte and `dtype`");
    ReadOutput out;
    out.memory = std::as_writable_bytes(elements);
    if constexpr (kDtypeOf<T>) out.dtype = kDtypeOf<T>;
    return out;
  }
  static ReadOutput device(void* memory, std::size_t bytes, std::optional<Dtype> dtype = std::nullopt,
                           std::uint64_t stream = kLegacyStream) {
    ReadOutput out;
    out.memory = {static_cast<std::byte*>(memory), bytes};
    out.dtype = dtype;
    out.is_on_device = true;
    out.stream = stream;
    return out;
  }
};

class Array {
 public:
  // `document`: its text, only for id(): a file that is written twice at once may keep its stamp.
  Array(std::string uri, std::shared_ptr<Store> store, std::string path, std::string document_key, Stamp document_stamp,
        ArrayMetadata metadata, std::vector<std::string> levels, std::string_view document = {});

  const std::string& uri() const noexcept { return uri_; }
  const std::shared_ptr<Store>& store() const noexcept { return store_; }
  bool is_remote() const noexcept { return store_ != nullptr && store_->is_remote(); }
  const std::string& document_key() const noexcept { return document_key_; }
  const Stamp& document_stamp() const noexcept { return document_stamp_; }
  // Tells this version of the document from all others, and their stores, for keys of caches: other metadata may decode
  // the same bytes to other elements. All processes of a machine get the same.
  const std::array<std::uint64_t, 2>& id() const noexcept { return id_; }
  // The same of the array, whatever its version.
  std::uint64_t place_hash() const noexcept { return place_hash_; }
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
  // The coordinates of an object among all objects, from the end of such a key; empty if it has none.
  std::optional<Dims> coordinates_in_key(std::string_view key) const;
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
  // Reads what `what` selects into memory of the host or of a GPU, and waits; begin_read() of `single/array_read.h`
  // does not wait, and has the errors. On return the elements are there, for any stream.
  void read(const Selection& what, const ReadOutput& out) const;
  // The same of single elements, which become one axis.
  void read(const PointSelection& what, const ReadOutput& out) const;
  // The same as elements of type T, row-major in the shape `what.shape_in(shape())`.
  template <class T>
  std::vector<T> read_as(const Selection& what = {}) const {
    return elements_of<T>(what);
  }
  template <class T>
  std::vector<T> read_as(const PointSelection& what) const {
    return elements_of<T>(what);
  }

  // Whether a directory that holds nested chunks was looked for, and found.
  enum class Nested : int { unknown, no, yes };
  std::atomic<Nested>& nested_chunks() const noexcept { return *nested_chunks_; }

 private:
  template <class T, class What>
  std::vector<T> elements_of(const What& what) const {
    std::vector<T> elements(static_cast<std::size_t>(product(what.shape_in(shape()).span()).value_or(0)));
    read(what, ReadOutput::host(std::span<T>(elements)));
    return elements;
  }

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
  std::array<std::uint64_t, 2> id_{};
  std::uint64_t place_hash_ = 0;
  Dims grid_, shard_grid_, chunks_in_shard_, shards_in_object_, chunk_strides_;
  std::size_t chunks_per_shard_ = 1;
  std::shared_ptr<std::atomic<Nested>> nested_chunks_ = std::make_shared<std::atomic<Nested>>(Nested::unknown);
};

// Opens what `uri` names: an array, or level 0 of an image. Throws Error with uri, store, key, pointer and reason.
// `make_store` opens the store of a root path.
std::shared_ptr<const Array> open_array(const std::string& uri, std::shared_ptr<Store> store);

}  // namespace damacy
