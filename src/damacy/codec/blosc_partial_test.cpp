// Reading parts of blosc chunks: what to read, and that nothing else is looked at.
#include <gtest/gtest.h>

#include "damacy/codec/chain.h"
#include "support/encoders.h"

namespace damacy {
namespace {

using namespace codec_test;

const CodecChain kBlosc({{.id = CodecId::blosc, .name = "blosc"}});

std::vector<ByteRange> random_ranges(std::mt19937& random, std::uint64_t size) {
  std::vector<std::uint64_t> cuts(2 * (1 + random() % 3));
  for (std::uint64_t& cut : cuts) cut = random() % (size + 1);
  std::ranges::sort(cuts);
  std::vector<ByteRange> ranges;
  for (std::size_t i = 0; i < cuts.size(); i += 2)
    if (cuts[i] < cuts[i + 1]) ranges.push_back({cuts[i], cuts[i + 1]});
  return ranges;
}

// A store that gives `head` bytes and then what partial_ranges asks for; all else is poison.
struct PartialRead {
  Bytes encoded;
  std::vector<ByteRange> available;
  std::uint64_t bytes_read = 0;

  PartialRead(const Bytes& stored, std::size_t head, std::uint64_t decoded_size, const std::vector<ByteRange>& needed)
      : encoded(stored.size(), std::byte{0xee}) {
    head = std::min(head, stored.size());
    take(stored, {0, head});
    std::vector<ByteRange> ranges;
    result = kBlosc.partial_ranges(std::span(stored).first(head), stored.size(), decoded_size, needed, ranges);
    for (const ByteRange& range : ranges) {
      EXPECT_GE(range.begin, available.back().end);  // sorted, disjoint
      EXPECT_LT(range.begin, range.end);
      EXPECT_LE(range.end, stored.size());
      take(stored, range);
    }
  }

  void take(const Bytes& stored, ByteRange range) {
    std::memcpy(encoded.data() + range.begin, stored.data() + range.begin, range.size());
    available.push_back(range);
    bytes_read += range.size();
  }

  DecodeResult decode(Bytes& out, const std::vector<ByteRange>& needed) const {
    DecodeContext context;
    return kBlosc.decode_partial(encoded, available, out, needed, context);
  }

  DecodeResult result;
};

void expect_needed_bytes(const Bytes& out, const Bytes& raw, const std::vector<ByteRange>& needed) {
  for (const ByteRange& range : needed)
    for (std::uint64_t i = range.begin; i < range.end; ++i) ASSERT_EQ(out[i], raw[i]) << "byte " << i;
}

TEST(BloscPartial, random_parts_equal_the_whole_and_unread_bytes_are_never_looked_at) {
  std::mt19937 random(7);
  const std::vector<BloscWriter> writers{{.typesize = 2, .filter_flags = 1},
                                         {.typesize = 2, .codec = BloscCodec::zstd, .filter_flags = 4},
                                         {.typesize = 4, .split = false},
                                         {.typesize = 1, .all_raw = true, .gap = 40},
                                         {.blocksize = 256, .codec = BloscCodec::zlib}};
  for (int round = 0; round < 400; ++round) {
    BloscWriter writer = writers[random() % writers.size()];
    const std::size_t size = 1 + random() % 40'000;  // drawn first: arguments are evaluated in any order
    const Bytes raw = image(size, static_cast<unsigned>(random()));
    writer.blocksize = std::min(writer.blocksize, static_cast<std::uint32_t>(raw.size()));
    // Streams of a split block are equally long.
    if (writer.blocksize % writer.typesize != 0) writer.split = false;
    const std::size_t blocks = (raw.size() + writer.blocksize - 1) / writer.blocksize;
    writer.write_order.resize(blocks);
    std::iota(writer.write_order.begin(), writer.write_order.end(), 0u);
    if (round % 2 == 0) std::ranges::shuffle(writer.write_order, random);
    const Bytes stored = blosc_packed(raw, writer);
    const std::vector<ByteRange> needed = random_ranges(random, raw.size());
    const PartialRead read(stored, 16 + 4 * blocks + random() % 200, raw.size(), needed);
    ASSERT_TRUE(read.result.ok()) << read.result.detail;
    Bytes out(raw.size(), std::byte{0xa5});
    ASSERT_TRUE(read.decode(out, needed).ok());
    expect_needed_bytes(out, raw, needed);
  }
}

TEST(BloscPartial, one_block_of_many_costs_about_one_block) {
  const Bytes raw = noise(100 * 1024);
  const Bytes stored = blosc_packed(raw, {});
  const std::vector<ByteRange> needed{{50 * 1024 + 5, 50 * 1024 + 6}};
  const PartialRead read(stored, 16 + 400, raw.size(), needed);
  EXPECT_EQ(read.bytes_read, 16u + 400 + 1028);
}

TEST(BloscPartial, the_next_start_ends_a_read_before_the_bound_does) {
  const Bytes raw(100 * 1024, std::byte{1});  // each block packs into a few bytes
  const Bytes stored = blosc_packed(raw, {});
  const PartialRead read(stored, 16 + 400, raw.size(), {{50 * 1024, 51 * 1024}});
  EXPECT_LT(read.bytes_read, 16u + 400 + 40);
}

TEST(BloscPartial, blocks_that_share_bytes_need_more_and_say_so) {
  // Block 1 begins inside the first stream of block 0: legal, and the hint then stops block 0 too early.
  const Bytes raw0 = joined({Bytes(4, std::byte{0}), noise(1020)});
  Bytes stored = blosc_packed(joined({raw0, raw0}), {.all_raw = true});
  const std::uint64_t start0 = 24;
  Bytes length, second_start;
  append_le(length, 1024, 4);
  append_le(second_start, start0 + 8, 4);
  std::ranges::copy(length, stored.begin() + start0 + 8);
  std::ranges::copy(second_start, stored.begin() + 20);
  const std::vector<ByteRange> needed{{0, 10}};
  PartialRead read(stored, 24, 2048, needed);
  Bytes out(2048, std::byte{0xa5});
  EXPECT_EQ(read.decode(out, needed).status, DecodeStatus::need_more);
  read.available = {{0, stored.size()}};
  read.encoded = stored;
  EXPECT_TRUE(read.decode(out, needed).ok());
}

TEST(BloscPartial, memcpyed_chunks_ask_for_the_exact_bytes) {
  const Bytes raw = noise(50'000);
  const Bytes stored = blosc_memcpyed(raw, 0x33, 2);
  std::vector<ByteRange> ranges{{1, 2}};
  const std::vector<ByteRange> needed{{100, 200}, {4000, 5000}, {5000, 5001}, {20'000, 30'000}};
  ASSERT_TRUE(kBlosc.partial_ranges(std::span(stored).first(4096), stored.size(), raw.size(), needed, ranges).ok());
  EXPECT_EQ(ranges, (std::vector<ByteRange>{{1, 2}, {4096, 5017}, {20'016, 30'016}}));
  const PartialRead read(stored, 4096, raw.size(), needed);
  Bytes out(raw.size(), std::byte{0xa5});
  ASSERT_TRUE(read.decode(out, needed).ok());
  expect_needed_bytes(out, raw, needed);
  EXPECT_EQ(read.decode(out, {{0, 50'000}}).status, DecodeStatus::need_more);
}

TEST(BloscPartial, a_head_that_ends_inside_the_start_table_says_how_much_it_wants) {
  const Bytes raw = image(100 * 1024);
  const Bytes stored = blosc_packed(raw, {});
  std::vector<ByteRange> ranges;
  const std::vector<ByteRange> needed{{0, 1}};
  const auto with_head = [&](std::size_t head) {
    return kBlosc.partial_ranges(std::span(stored).first(head), stored.size(), raw.size(), needed, ranges);
  };
  EXPECT_EQ(with_head(15).status, DecodeStatus::need_more);
  EXPECT_EQ(with_head(15).expected, 16u);
  EXPECT_EQ(with_head(415).status, DecodeStatus::need_more);
  EXPECT_EQ(with_head(415).expected, 416u);
  EXPECT_TRUE(with_head(416).ok());
}

TEST(BloscPartial, missing_parts_are_reported_and_not_guessed) {
  const Bytes raw = image(4096);
  const Bytes stored = blosc_packed(raw, {});
  const std::vector<ByteRange> needed{{0, 4096}};
  Bytes out(raw.size());
  DecodeContext context;
  for (std::uint64_t end = 0; end < stored.size(); ++end) {
    Bytes known = stored;
    std::fill(known.begin() + static_cast<std::ptrdiff_t>(end), known.end(), std::byte{0xee});
    const ByteRange available{0, end};
    ASSERT_EQ(kBlosc.decode_partial(known, {&available, 1}, out, needed, context).status, DecodeStatus::need_more)
        << end;
  }
}

TEST(BloscPartial, needing_nothing_reads_nothing_more) {
  const Bytes raw = image(4096);
  const Bytes stored = blosc_packed(raw, {});
  const PartialRead read(stored, 32, raw.size(), {});
  ASSERT_TRUE(read.result.ok());
  EXPECT_EQ(read.bytes_read, 32u);
  Bytes out(raw.size());
  EXPECT_TRUE(read.decode(out, {}).ok());
}

TEST(BloscPartial, only_a_chain_of_one_blosc_codec_can_be_read_partially) {
  const CodecSpec blosc{.id = CodecId::blosc, .name = "blosc"};
  const CodecSpec crc{.id = CodecId::crc32c, .name = "crc32c"};
  EXPECT_TRUE(CodecChain({blosc}).can_read_partially());
  EXPECT_FALSE(CodecChain({blosc, crc}).can_read_partially());
  EXPECT_FALSE(CodecChain({crc}).can_read_partially());
  EXPECT_FALSE(CodecChain().can_read_partially());
  std::vector<ByteRange> ranges;
  EXPECT_EQ(CodecChain({crc}).partial_ranges({}, 0, 0, {}, ranges).status, DecodeStatus::unsupported);
  DecodeContext context;
  EXPECT_EQ(CodecChain({crc}).decode_partial({}, {}, {}, {}, context).status, DecodeStatus::unsupported);
}

TEST(BloscPartial, a_whole_decode_leaves_out_blocks_that_are_not_needed) {
  const Bytes raw = image(10 * 1024);
  Bytes stored = blosc_packed(raw, {});
  stored[stored.size() - 1] ^= std::byte{0xff};
  std::ranges::fill(std::span(stored).last(20), std::byte{0});  // the last block no longer decodes
  DecodeContext context;
  Bytes out(raw.size(), std::byte{0xa5});
  const ByteRange first{0, 5000}, all{0, raw.size()};
  EXPECT_TRUE(kBlosc.decode(stored, out, {&first, 1}, context).ok());
  EXPECT_EQ(out.back(), std::byte{0xa5});
  EXPECT_FALSE(kBlosc.decode(stored, out, {&all, 1}, context).ok());
}

TEST(Ranges, cover_what_neighbours_cover_together) {
  const std::vector<ByteRange> ranges{{0, 4}, {4, 8}, {10, 12}};
  EXPECT_TRUE(covers(ranges, 0, 8));
  EXPECT_TRUE(covers(ranges, 3, 5));
  EXPECT_TRUE(covers(ranges, 10, 12));
  EXPECT_TRUE(covers(ranges, 9, 9));
  EXPECT_FALSE(covers(ranges, 7, 9));
  EXPECT_FALSE(covers(ranges, 8, 10));
  EXPECT_FALSE(covers(ranges, 9, 11));
  EXPECT_FALSE(covers(ranges, 11, 13));
  EXPECT_FALSE(covers({}, 0, 1));
}

}  // namespace
}  // namespace damacy
