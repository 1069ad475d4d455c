#include "damacy/zarr/shard.h"

#include <cstring>

#include <gtest/gtest.h>

#include "support/error_of.h"

namespace damacy {
namespace {

class SizedObject final : public Object {
 public:
  explicit SizedObject(std::uint64_t bytes) { stamp_.size = bytes; }
  const Stamp& stamp() const noexcept override { return stamp_; }
  void read_exact(std::uint64_t, std::span<std::byte>) override { FAIL() << "nothing is read"; }

 private:
  Stamp stamp_;
};

// Chunks of 8 bytes.
Array array_of(CodecChain codecs = {}) {
  ArrayMetadata metadata;
  metadata.shape = {8};
  metadata.chunk_shape = metadata.shard_shape = {4};
  metadata.storage_order = {0};
  metadata.dtype = Dtype::u16;
  metadata.codecs = std::move(codecs);
  return {"a", nullptr, "", "zarr.json", Stamp{}, metadata, {}};
}

Shard object_of(std::uint64_t bytes) {
  return {"c/0", std::make_shared<SizedObject>(bytes), std::nullopt};
}

TEST(PlaceOfChunk, is_what_the_index_says_or_the_whole_object_without_one) {
  constexpr std::uint64_t kEntries[] = {24, 8, ~std::uint64_t{0}, ~std::uint64_t{0}};
  const auto bytes = std::as_bytes(std::span(kEntries));
  const ShardIndexLayout layout{.checksums = 0};
  const ShardIndex::Rules rules{.object_bytes = 100, .max_chunk_bytes = 8, .exact_chunk_bytes = 8};
  const Shard shard{"c/0", std::make_shared<SizedObject>(100), ShardIndex::parse(bytes, 2, layout, rules)};
  const ChunkPlace first = place_of_chunk(array_of(), &shard, 0);
  EXPECT_EQ(first.offset, 24u);
  EXPECT_EQ(first.bytes, 8u);
  EXPECT_FALSE(first.missing || first.failed);
  EXPECT_TRUE(place_of_chunk(array_of(), &shard, 1).missing);
  EXPECT_TRUE(place_of_chunk(array_of(), nullptr, 0).missing);
  const Shard alone = object_of(8);
  const ChunkPlace whole = place_of_chunk(array_of(), &alone, 0);
  EXPECT_EQ(whole.offset, 0u);
  EXPECT_EQ(whole.bytes, 8u);
  EXPECT_FALSE(whole.missing || whole.failed);
}

TEST(PlaceOfChunk, refuses_an_object_whose_size_no_chunk_has) {
  const auto refusal = [](std::uint64_t bytes, CodecChain codecs = {}) {
    return error_of([&] {
      const Shard shard = object_of(bytes);
      static_cast<void>(place_of_chunk(array_of(std::move(codecs)), &shard, 0));
    });
  };
  const Error shorter = refusal(7), longer = refusal(9);
  EXPECT_EQ(shorter.status(), Status::io);
  EXPECT_EQ(shorter.where().reason, "short-read");
  EXPECT_EQ(shorter.message(), "short read: 7 of 8 bytes");
  EXPECT_EQ(longer.status(), Status::decode);
  EXPECT_EQ(longer.where().reason, "size");
  const CodecChain packed({{.id = CodecId::zstd, .name = "zstd"}});
  const std::uint64_t most = array_of(packed).max_encoded_chunk_bytes();
  const Shard largest = object_of(most);
  EXPECT_EQ(place_of_chunk(array_of(packed), &largest, 0).bytes, most);
  EXPECT_EQ(refusal(most + 1, packed).where().reason, "limit");
}

}  // namespace
}  // namespace damacy
