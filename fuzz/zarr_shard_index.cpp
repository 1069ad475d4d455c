// Shard indices with their checksums repaired: accepted exactly when a model in 128 bits says so, and found as they
// are.
#include "damacy/zarr/shard_index.h"

#include <cstring>
#include <vector>

#include "zarr_support.h"

namespace {

using namespace damacy;

constexpr std::uint64_t kMissing = ~std::uint64_t{0};

struct Model {
  ShardIndexLayout layout;
  ShardIndex::Rules rules;
  __int128 begin, end;  // of what chunks may occupy

  bool allows(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset == kMissing && bytes == kMissing) return true;
    if (offset == kMissing || bytes == kMissing || bytes == 0) return false;
    if (offset < begin || static_cast<__int128>(offset) + bytes > end) return false;
    return bytes <= rules.max_chunk_bytes && (!rules.exact_chunk_bytes || bytes == *rules.exact_chunk_bytes);
  }
};

std::uint64_t read(const std::byte* from, bool big_endian) {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= static_cast<std::uint64_t>(from[big_endian ? 7 - i : i]) << (8 * i);
  return value;
}

void append_checksums(std::vector<std::byte>& index, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t checksum = crc32c(index);
    for (int b = 0; b < 4; ++b) index.push_back(static_cast<std::byte>(checksum >> (8 * b)));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 8) return 0;
  const std::uint8_t flags = data[0];
  Model model;
  model.layout = {.at_end = (flags & 1) != 0, .big_endian = (flags & 2) != 0, .checksums = (flags >> 2) & 3u};
  const std::size_t chunks = (size - 8) / 16;
  const std::uint64_t index_bytes = ShardIndex::encoded_bytes(chunks, model.layout);
  const std::uint64_t object_bytes = (flags & 16) != 0 ? kMissing - data[1] : index_bytes + data[1] + 256u * data[2];
  model.rules = {.object_bytes = object_bytes, .max_chunk_bytes = data[3] + 256u * data[4], .exact_chunk_bytes = {}};
  if ((flags & 32) != 0) model.rules.exact_chunk_bytes = data[5];
  model.begin = model.layout.at_end ? 0 : index_bytes;
  model.end = static_cast<__int128>(object_bytes) - (model.layout.at_end ? index_bytes : 0);

  std::vector<std::byte> index(16 * chunks);
  if (chunks > 0) std::memcpy(index.data(), data + 8, index.size());
  bool allowed = true;
  for (std::size_t i = 0; i < chunks; ++i)
    allowed &=
        model.allows(read(&index[16 * i], model.layout.big_endian), read(&index[16 * i + 8], model.layout.big_endian));
  append_checksums(index, model.layout.checksums);
  try {
    const ShardIndex parsed = ShardIndex::parse(index, chunks, model.layout, model.rules);
    fuzz::require(allowed, "only legal entries are accepted");
    for (std::size_t i = 0; i < chunks; ++i) {
      const auto offset = read(&index[16 * i], model.layout.big_endian);
      const auto bytes = read(&index[16 * i + 8], model.layout.big_endian);
      const auto found = parsed.find(i);
      fuzz::require(found.has_value() == (offset != kMissing), "missing chunks");
      fuzz::require(!found || (found->begin == offset && found->size() == bytes), "ranges");
    }
  } catch (const Error& e) {
    fuzz::check_error(e);
    fuzz::require(!allowed, "legal entries are accepted");
  }
  return 0;
}
