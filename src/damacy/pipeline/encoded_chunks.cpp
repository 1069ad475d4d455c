#include "damacy/pipeline/encoded_chunks.h"

#include <exception>
#include <new>

#include "damacy/core/text.h"

namespace damacy {
namespace {

// Below this many bytes one read of everything is quicker than two of parts.
constexpr std::uint64_t kPartialFrom = 512 << 10;

}  // namespace

// Raw chunks without a checksum, and chunks of a codec that can decode parts, when at most three quarters are needed.
bool EncodedChunks::worth_reading_partially(std::size_t chunk) const {
  const ArrayMetadata& metadata = metadata_of(chunk);
  if (where(chunk).bytes < kPartialFrom || !(metadata.codecs.is_raw() || metadata.codecs.can_read_partially()))
    return false;
  std::uint64_t needed = 0;
  for (const ByteRange& range : needed_bytes(chunk)) needed += range.size();
  return needed <= metadata.chunk_bytes() / 4 * 3;
}

ChunkPlace place_of_whole_object(const Array& array, std::uint64_t stored) {
  const CodecChain& codecs = array.metadata().codecs;
  if (codecs.fixed_size()) {
    const std::uint64_t exact = codecs.fixed_encoded_size(array.metadata().chunk_bytes());
    if (stored < exact)
      throw Error(Status::io, text("short read: ", stored, " of ", exact, " bytes"), "short-read").at_bytes(0, exact);
    if (stored > exact)
      throw Error(Status::decode, text("the object holds ", stored, " bytes, its chunk is ", exact), "size")
          .at_bytes(0, stored);
  } else if (stored > array.max_encoded_chunk_bytes()) {
    throw Error(Status::inval,
                text("an encoded chunk of ", stored, " bytes exceeds the limit of ", array.max_encoded_chunk_bytes()),
                "limit")
        .at_bytes(0, stored);
  }
  return {0, stored};
}

ChunkPlace place_in_shard(const ShardIndex& index, std::size_t chunk) noexcept {
  const auto range = index.find(chunk);
  return range ? ChunkPlace{range->begin, range->size()} : ChunkPlace{.missing = true};
}

Error error_of(const DecodeResult& result) {
  std::string message = result.detail;
  if (result.seen != 0 || result.expected != 0) message += text(": ", result.seen, ", expected ", result.expected);
  std::string reason(reason_of(result.status));
  if (result.status == DecodeStatus::unsupported) return Error::unsupported(std::move(message), std::move(reason));
  return Error(result.status == DecodeStatus::limit ? Status::inval : Status::decode, std::move(message),
               std::move(reason));
}

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(Status::oom, "no memory left on the host", "memory");
  } catch (const std::exception& error) {
    return Error(Status::io, text("internal: ", std::string_view(error.what())), "io");
  }
}

}  // namespace damacy
