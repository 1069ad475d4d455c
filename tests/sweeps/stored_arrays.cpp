#include "sweeps/stored_arrays.h"

#include <utility>
#include <vector>

#include "damacy/core/formatted.h"
#include "support/encoders.h"

namespace damacy::testing {
namespace {

using namespace codec_test;

constexpr std::int64_t kRows = 40, kChunkRows = 8, kChunkColumns = 16;

std::vector<std::byte> chunk_bytes(std::int64_t first_row, std::int64_t first_column) {
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < kChunkRows; ++i)
    for (std::int64_t j = 0; j < kChunkColumns; ++j)
      append_le(bytes, static_cast<std::uint64_t>((first_row + i) * kColumns + first_column + j), 2);
  return bytes;
}

std::string document(std::string_view chunk, std::string_view codecs) {
  return formatted(R"({{"zarr_format": 3, "node_type": "array", "data_type": "uint16", "fill_value": {}, )"
                   R"("shape": [{}, {}], "chunk_grid": {{"name": "regular", )"
                   R"("configuration": {{"chunk_shape": {}}}}}, "chunk_key_encoding": {{"name": "default", )"
                   R"("configuration": {{"separator": "."}}}}, "codecs": {}}})",
                   kFill, kRows, kColumns, chunk, codecs);
}

constexpr std::string_view kBytes = R"({"name": "bytes", "configuration": {"endian": "little"}})";

void put_zstd(MemoryStore& store) {
  store.put("zarr.json", document("[8, 16]", formatted(R"([{}, {{"name": "zstd"}}])", kBytes)));
  for (std::int64_t i = 0; i < kRows / kChunkRows; ++i)
    for (std::int64_t j = 0; j < kColumns / kChunkColumns; ++j)
      store.put(formatted("c.{}.{}", i, j), zstd_packed(chunk_bytes(i * kChunkRows, j * kChunkColumns)));
}

void put_shards(MemoryStore& store) {
  store.put(
      "zarr.json",
      document("[16, 32]",
               formatted(R"([{{"name": "sharding_indexed", "configuration": {{"chunk_shape": [8, 16], "codecs": [{}], )"
                         R"("index_codecs": [{}, {{"name": "crc32c"}}]}}}}])",
                         kBytes, kBytes)));
  for (std::int64_t i = 0; i < (kRows + 15) / 16; ++i)
    for (std::int64_t j = 0; j < kColumns / 32; ++j) {
      Bytes shard, index;
      for (std::int64_t c = 0; c < 4; ++c) {
        const Bytes chunk = chunk_bytes(i * 16 + c / 2 * kChunkRows, j * 32 + c % 2 * kChunkColumns);
        append_le(index, shard.size(), 8);
        append_le(index, chunk.size(), 8);
        append(shard, chunk);
      }
      append(shard, with_crc32c(index));
      store.put(formatted("c.{}.{}", i, j), shard);
    }
}

// The part of a store whose keys begin so.
class StoreBelow final : public Store {
 public:
  StoreBelow(std::shared_ptr<Store> whole, std::string prefix) : whole_(std::move(whole)), prefix_(std::move(prefix)) {}
  std::string name() const override { return prefix_; }
  std::shared_ptr<Object> open(std::string_view key) override { return whole_->open(below(key)); }
  std::optional<Stamp> stamp(std::string_view key) override { return whole_->stamp(below(key)); }
  std::vector<Entry> list(std::string_view prefix) override { return whole_->list(below(prefix)); }

 private:
  std::string below(std::string_view key) const { return key.empty() ? prefix_ : formatted("{}/{}", prefix_, key); }
  std::shared_ptr<Store> whole_;
  std::string prefix_;
};

}  // namespace

std::shared_ptr<MemoryStore> make_arrays() {
  const auto both = std::make_shared<MemoryStore>("both");
  const auto copy = [&](const char* name, void (*put)(MemoryStore&)) {
    MemoryStore one;
    put(one);
    for (const Entry& entry : one.list("")) {
      const auto object = one.open(entry.name);
      Bytes bytes(object->stamp().size);
      object->read_exact(0, bytes);
      both->put(formatted("{}/{}", name, entry.name), bytes);
    }
  };
  copy("a.zarr", put_zstd);
  copy("s.zarr", put_shards);
  return both;
}

std::shared_ptr<Store> store_below(std::shared_ptr<Store> both, std::string path) {
  return std::make_shared<StoreBelow>(std::move(both), std::move(path));
}

Sample sample_at(std::int64_t n, std::string_view array) {
  const std::int64_t row = n % (kRows - kBoxRows), column = n * 7 % (kColumns - kBoxColumns);
  return {std::string(array), {{row, row + kBoxRows}, {column, column + kBoxColumns}}};
}

}  // namespace damacy::testing
