// The encoded chunks of a read: the location of their bytes, the decoded bytes that are needed, and the report of the
// outcome. Implemented by batches in production and by single reads of selections. Knows objects and codecs; not what
// happens to decoded bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "damacy/batch/stats.h"
#include "damacy/codec/chain.h"
#include "damacy/core/error.h"
#include "damacy/store/store.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/metadata.h"

namespace damacy {

// Where an encoded chunk lies in its object.
struct ChunkPlace {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool missing = false;
  bool failed = false;
};

class EncodedChunks {
 public:
  virtual ~EncodedChunks() = default;
  virtual const ChunkPlace& where(std::size_t chunk) const = 0;
  virtual const std::shared_ptr<Object>& object_with(std::size_t chunk) const = 0;
  virtual const ArrayMetadata& metadata_of(std::size_t chunk) const = 0;
  // The byte intervals of the decoded chunk that are needed, sorted and disjoint.
  virtual std::vector<ByteRange> needed_bytes(std::size_t chunk) const = 0;
  virtual StatsBoard& board() const noexcept = 0;

  // An open task keeps the job unfinished. An open read is one whose bytes have not arrived.
  virtual void open_task() noexcept = 0;
  virtual void close_task() noexcept = 0;
  virtual void open_read() noexcept = 0;
  virtual void close_read() = 0;  // may ask storage: throws nothing but Abandoned

  virtual void count_decode(StatsBoard::Span time, std::uint64_t encoded, std::uint64_t decoded) noexcept = 0;
  virtual void fail_chunk(std::size_t chunk, const DecodeResult& result) noexcept = 0;

  // Whether little of a big chunk is needed, and its codec supports partial decoding.
  virtual bool worth_reading_partially(std::size_t chunk) const;
};

}  // namespace damacy
