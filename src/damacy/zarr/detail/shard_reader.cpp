#include "damacy/zarr/detail/shard_reader.h"

#include <algorithm>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/zarr/decode_error.h"

namespace damacy {
namespace {

using Reserve = std::function<Charge(std::uint64_t bytes)>;

// A shard after decoding the codecs that encoded it as a whole. Has the version of the object from which it was read.
class DecodedShard final : public Object {
 public:
  DecodedShard(const Stamp& stamp, std::vector<std::byte> bytes, Charge charge)
      : stamp_(stamp), bytes_(std::move(bytes)), charge_(std::move(charge)) {}
  const Stamp& stamp() const noexcept override { return stamp_; }
  std::uint64_t size() const noexcept { return bytes_.size(); }
  void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
    if (offset > bytes_.size() || dst.size() > bytes_.size() - offset)
      throw Error(Status::io, formatted("short read: {} bytes at {} of {}", dst.size(), offset, bytes_.size()),
                  "short-read");
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), dst.size(), dst.begin());
  }

 private:
  Stamp stamp_;
  std::vector<std::byte> bytes_;
  Charge charge_;
};

// Reads a piece of a shard, and makes something of it. If a cache had damaged bytes of it, those of the store are read.
template <class Parse>
auto read_and_parse(Object& object, std::uint64_t offset, std::span<std::byte> to, Parse parse) {
  object.read_piece(offset, to);
  try {
    return parse();
  } catch (const Error& e) {
    if (e.status() != Status::decode || !object.forget_piece({offset, to.size()})) throw;
  }
  object.read_exact(offset, to);
  return parse();
}

std::shared_ptr<DecodedShard> decode_shard(const Array& array, std::size_t level, const ShardPlace& place,
                                           const Reserve& reserve) {
  const std::uint64_t bound = array.max_shard_bytes(level);
  if (const std::uint64_t most = Limits::encoded_chunk_bytes(bound); place.bytes.size() > most)
    throw Error(Status::inval,
                formatted("an encoded shard of {} bytes exceeds the limit of {} bytes", place.bytes.size(), most),
                "limit");
  const Charge while_reading = reserve(place.bytes.size());
  std::vector<std::byte> encoded(place.bytes.size());
  DecodeContext context;
  const auto decoded = read_and_parse(place.object, place.bytes.begin, encoded, [&] {
    std::span<const std::byte> out;
    const DecodeResult result = array.metadata().shards[level].codecs.decode_all(encoded, bound, context, out);
    if (!result.ok()) throw decode_error(result);
    return out;
  });
  Charge charge = reserve(decoded.size());
  return std::make_shared<DecodedShard>(place.object.stamp(), std::vector(decoded.begin(), decoded.end()),
                                        std::move(charge));
}

// A file may have been truncated. A shard in memory or in another shard was written with this size.
Error too_short(std::uint64_t shard, std::uint64_t index, bool is_file) {
  if (is_file)
    return Error(Status::io, formatted("short read: {} of {} bytes of the shard's index", shard, index), "short-read");
  return Error(Status::decode, formatted("a shard of {} bytes has no room for its index of {}", shard, index),
               "shard-index");
}

ShardIndex::Rules rules_of(const Array& array, std::size_t level, const ByteRange& shard) {
  const ArrayMetadata& metadata = array.metadata();
  ShardIndex::Rules rules;
  rules.object_bytes = shard.size();
  rules.base = shard.begin;
  rules.max_chunk_bytes = array.max_entry_bytes(level);
  if (level + 1 == metadata.shards.size() && metadata.codecs.fixed_size())
    rules.exact_chunk_bytes = metadata.codecs.fixed_encoded_size(metadata.chunk_bytes());
  return rules;
}

// The index of a shard that needs no decoding. `encoded`: for a decoded shard, the range of its bytes in their object,
// for errors.
void read_index(const Array& array, std::size_t level, const ShardPlace& place, const Dims& chunk,
                const ByteRange* encoded, const Reserve& reserve, ReadIndex& read) {
  const ShardLevel& shard = array.metadata().shards[level];
  const std::size_t entries = array.entries_of(level);
  const std::uint64_t bytes = ShardIndex::encoded_bytes(entries, shard.index);
  const auto at = [&](Error error, std::uint64_t begin, std::uint64_t end) {
    return encoded == nullptr ? error.at_bytes(begin, end) : error.at_bytes(encoded->begin, encoded->end);
  };
  if (place.bytes.size() < bytes)
    throw at(too_short(place.bytes.size(), bytes, encoded == nullptr && level == 0), place.bytes.begin,
             place.bytes.begin + bytes);
  read.charge = reserve(sizeof(ReadIndex) + entries * ShardIndex::kEntryBytes);
  const std::uint64_t first = shard.index.at_end ? place.bytes.end - bytes : place.bytes.begin;
  const auto chunk_of = [&](std::size_t entry) {
    const Dims indices = array.chunk_of_entry(level, entry, chunk);
    return std::vector<std::int64_t>(indices.begin(), indices.end());
  };
  try {
    std::vector<std::byte> stored(bytes);
    read.index = read_and_parse(place.object, first, stored, [&] {
      return ShardIndex::parse(stored, entries, shard.index, rules_of(array, level, place.bytes), chunk_of);
    });
  } catch (const Error& e) {
    throw at(e, first, first + bytes);
  }
}

}  // namespace

ReadIndex read_shard(const Array& array, std::size_t level, const ShardPlace& place, const Dims& chunk,
                     const Reserve& reserve) {
  ReadIndex read;
  if (array.metadata().shards[level].codecs.codecs().empty()) {
    read_index(array, level, place, chunk, nullptr, reserve, read);
    return read;
  }
  std::shared_ptr<DecodedShard> decoded;
  try {
    decoded = decode_shard(array, level, place, reserve);
  } catch (Error& e) {
    throw e.at_bytes(place.bytes.begin, place.bytes.end);
  }
  read_index(array, level, {*decoded, {0, decoded->size()}}, chunk, &place.bytes, reserve, read);
  read.decoded = std::move(decoded);
  return read;
}

}  // namespace damacy
