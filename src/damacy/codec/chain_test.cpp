// Chains of codecs: sizes between them, checksums, and what is refused.
#include "damacy/codec/chain.h"

#include <gtest/gtest.h>

#include "damacy/core/limits.h"
#include "support/encoders.h"
#include "support/slow_encoders.h"

namespace damacy {
namespace {

using namespace codec_test;

CodecSpec spec(CodecId id, bool checksum_at_start = false) {
  return {.id = id, .checksum_at_start = checksum_at_start, .name = "codec"};
}

Bytes encoded(const CodecSpec& codec, const Bytes& raw) {
  switch (codec.id) {
    case CodecId::zstd:
      return zstd_streamed(raw, 17, false, 50'000);
    case CodecId::blosc:
      return blosc_packed(raw, {.typesize = 2, .filter_flags = 1});
    case CodecId::gzip:
      return deflated(raw, IGZIP_GZIP);
    case CodecId::zlib:
      return deflated(raw, IGZIP_ZLIB);
    case CodecId::lz4:
      return with_size_in_front(static_cast<std::uint32_t>(raw.size()), lz4_packed(raw));
    case CodecId::bz2:
      return bzip2_packed(raw);
    case CodecId::lzma:
      return lzma_packed(codec.lzma, raw);
    case CodecId::crc32c:
      return with_crc32c(raw, codec.checksum_at_start);
    default:
      return {};  // filters_test.cpp
  }
}

Bytes encoded(const CodecChain& chain, Bytes bytes) {
  for (const CodecSpec& codec : chain.codecs()) bytes = encoded(codec, bytes);
  return bytes;
}

DecodeResult decode_all(const CodecChain& chain, const Bytes& input, Bytes& out) {
  DecodeContext context;
  const ByteRange all{0, out.size()};
  return chain.decode(input, out, {&all, 1}, context);
}

void expect_round_trip(const CodecChain& chain, const Bytes& raw, DecodeContext& context) {
  Bytes out(raw.size(), std::byte{0xaa});
  const ByteRange all{0, out.size()};
  const DecodeResult result = chain.decode(encoded(chain, raw), out, {&all, 1}, context);
  ASSERT_TRUE(result.ok()) << result.detail << " " << result.seen << " " << result.expected;
  ASSERT_EQ(out, raw);
}

const std::vector<CodecId> kFast{CodecId::zstd, CodecId::blosc, CodecId::gzip,
                                 CodecId::zlib, CodecId::lz4,   CodecId::crc32c};
const std::vector<CodecId> kAll{CodecId::zstd, CodecId::blosc, CodecId::gzip, CodecId::zlib,
                                CodecId::lz4,  CodecId::bz2,   CodecId::lzma, CodecId::crc32c};

TEST(CodecChain, undoes_every_chain_of_one_two_and_three_codecs) {
  DecodeContext context;
  const Bytes raw = image(20'000);
  for (const CodecId a : kAll) {
    expect_round_trip(CodecChain({spec(a)}), raw, context);
    for (const CodecId b : kAll) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(a) << " then " << static_cast<int>(b));
      expect_round_trip(CodecChain({spec(a), spec(b)}), raw, context);
      for (const CodecId c : kFast) expect_round_trip(CodecChain({spec(a), spec(b), spec(c)}), raw, context);
    }
  }
}

TEST(CodecChain, a_checksum_between_compressors_does_not_mix_up_their_buffers) {
  DecodeContext context;
  expect_round_trip(CodecChain({spec(CodecId::zstd), spec(CodecId::crc32c), spec(CodecId::lz4), spec(CodecId::crc32c),
                                spec(CodecId::gzip), spec(CodecId::crc32c, true), spec(CodecId::zstd)}),
                    image(50'000), context);
}

TEST(CodecChain, an_empty_chain_copies_the_needed_bytes_of_a_chunk_of_the_right_size) {
  const CodecChain chain;
  EXPECT_TRUE(chain.is_raw());
  DecodeContext context;
  Bytes out(10, std::byte{0xaa});
  const std::vector<ByteRange> needed{{2, 4}};
  EXPECT_TRUE(chain.decode(text_bytes("0123456789"), out, needed, context).ok());
  EXPECT_EQ(out[2], static_cast<std::byte>('2'));
  EXPECT_EQ(out[4], std::byte{0xaa});
  EXPECT_EQ(chain.decode(text_bytes("012345678"), out, needed, context).status, DecodeStatus::size);
  EXPECT_EQ(chain.decode(text_bytes("0123456789a"), out, needed, context).status, DecodeStatus::size);
}

TEST(CodecChain, a_checksum_is_verified_wherever_it_stands) {
  for (const bool at_start : {false, true}) {
    const CodecChain chain({spec(CodecId::crc32c, at_start)});
    const Bytes good = with_crc32c(image(10), at_start);
    Bytes out(10);
    ASSERT_TRUE(decode_all(chain, good, out).ok());
    for (std::size_t at = 0; at < good.size(); ++at) {
      Bytes bad = good;
      bad[at] ^= std::byte{0x10};
      EXPECT_EQ(decode_all(chain, bad, out).status, DecodeStatus::checksum);
    }
  }
}

TEST(CodecChain, a_checksum_is_stored_little_endian) {
  Bytes out(9);
  EXPECT_TRUE(decode_all(CodecChain({spec(CodecId::crc32c)}),
                         joined({text_bytes("123456789"), bytes_of({0x83, 0x92, 0x06, 0xe3})}), out)
                  .ok());
}

TEST(CodecChain, a_checksum_is_verified_even_if_nothing_is_needed) {
  Bytes bad = with_crc32c(zstd_packed(image(100)));
  bad.back() ^= std::byte{1};
  Bytes out(100);
  DecodeContext context;
  EXPECT_EQ(CodecChain({spec(CodecId::zstd), spec(CodecId::crc32c)}).decode(bad, out, {}, context).status,
            DecodeStatus::checksum);
}

TEST(CodecChain, fewer_bytes_than_a_checksum_has_are_refused) {
  Bytes out;
  EXPECT_EQ(decode_all(CodecChain({spec(CodecId::crc32c)}), bytes_of({1, 2, 3}), out).status, DecodeStatus::size);
}

TEST(CodecChain, checksums_alone_have_a_fixed_size) {
  const CodecSpec crc = spec(CodecId::crc32c);
  EXPECT_TRUE(CodecChain({crc, crc}).fixed_size());
  EXPECT_EQ(CodecChain({crc, crc}).fixed_encoded_size(100), 108u);
  EXPECT_TRUE(CodecChain().fixed_size());
  EXPECT_EQ(CodecChain().fixed_encoded_size(100), 100u);
  EXPECT_FALSE(CodecChain({spec(CodecId::zstd), crc}).fixed_size());
}

TEST(CodecChain, an_encoded_chunk_may_be_as_large_as_the_limit) {
  const std::uint64_t limit = Limits::encoded_chunk_bytes(5);
  const CodecChain chain({spec(CodecId::gzip)});  // allows zero bytes behind its data
  Bytes out(5);
  Bytes input = encoded(chain, text_bytes("hello"));
  input.resize(limit);
  EXPECT_TRUE(decode_all(chain, input, out).ok());
  input.resize(limit + 1);
  EXPECT_EQ(decode_all(chain, input, out).status, DecodeStatus::limit);
}

TEST(CodecChain, a_size_between_two_codecs_over_the_limit_is_refused_before_anything_is_allocated) {
  Bytes out(5);
  const CodecSpec lz4 = spec(CodecId::lz4), blosc = spec(CodecId::blosc), zstd = spec(CodecId::zstd);
  EXPECT_EQ(decode_all(CodecChain({zstd, lz4}), with_size_in_front(0x7fffffff, bytes_of({0})), out).status,
            DecodeStatus::limit);
  EXPECT_EQ(decode_all(CodecChain({zstd, blosc}), blosc_header(0x21, 1, 0x7fffffff, 0x7fffffff, 16), out).status,
            DecodeStatus::frame);
  EXPECT_EQ(decode_all(CodecChain({zstd, zstd}), zstd_packed(Bytes(200'000)), out).status, DecodeStatus::size);
  EXPECT_EQ(decode_all(CodecChain({zstd, spec(CodecId::gzip)}), deflated(Bytes(200'000), IGZIP_GZIP), out).status,
            DecodeStatus::size);
}

TEST(CodecChain, a_failed_chunk_leaves_a_context_that_still_works) {
  DecodeContext context;
  for (const CodecId id : kAll) {
    const CodecChain chain({spec(id)});
    Bytes bad = encoded(chain, image(5000));
    for (std::size_t i = bad.size() / 2; i < bad.size(); ++i) bad[i] ^= std::byte{0x5a};
    Bytes out(5000);
    const ByteRange all{0, 5000};
    ASSERT_FALSE(chain.decode(bad, out, {&all, 1}, context).ok());
    expect_round_trip(chain, image(5000), context);
  }
}

TEST(CodecChain, says_what_was_seen_and_expected) {
  Bytes out(99);
  const DecodeResult result = decode_all(CodecChain({spec(CodecId::zstd)}), zstd_packed(image(100)), out);
  EXPECT_EQ(result.status, DecodeStatus::size);
  EXPECT_EQ(result.seen, 100u);
  EXPECT_EQ(result.expected, 99u);
  EXPECT_NE(std::string_view(result.detail), "");
}

TEST(Chain, knows_whether_a_checksum_covers_a_chunk) {
  const Bytes raw = image(3000);
  const Bytes plain = zstd_packed(raw), guarded = zstd_packed(raw, 3, /*checksum=*/true);
  const auto chain = [](std::initializer_list<CodecId> ids) {
    std::vector<CodecSpec> codecs;
    for (const CodecId id : ids) codecs.push_back(spec(id));
    return CodecChain(std::move(codecs));
  };
  EXPECT_FALSE(chain({}).has_checksum(raw));
  EXPECT_FALSE(chain({CodecId::blosc}).has_checksum(raw));
  EXPECT_FALSE(chain({CodecId::zstd}).has_checksum(plain));
  EXPECT_FALSE(chain({CodecId::zstd}).has_checksum(joined({guarded, plain})));
  EXPECT_TRUE(chain({CodecId::zstd}).has_checksum(joined({guarded, zstd_skippable(1, {}), guarded})));
  EXPECT_FALSE(chain({CodecId::zstd}).always_has_checksum());
  EXPECT_TRUE(chain({CodecId::zstd, CodecId::crc32c}).has_checksum(plain));
  EXPECT_TRUE(chain({CodecId::gzip}).always_has_checksum());
  EXPECT_TRUE(chain({CodecId::bz2}).always_has_checksum());
  EXPECT_TRUE(chain({CodecId::fletcher32}).always_has_checksum());
  EXPECT_TRUE(chain({CodecId::lzma}).has_checksum(lzma_packed({}, raw)));
  EXPECT_FALSE(chain({CodecId::lzma}).has_checksum(lzma_packed({}, raw, LZMA_CHECK_NONE)));
  EXPECT_FALSE(chain({CodecId::lzma}).always_has_checksum());
}

TEST(Chain, stops_what_a_slow_codec_between_others_gives_at_the_limit) {
  Bytes out(5);
  for (const CodecId id : {CodecId::bz2, CodecId::lzma}) {
    const DecodeResult result =
        decode_all(CodecChain({spec(CodecId::zstd), spec(id)}), encoded(spec(id), Bytes(200'000)), out);
    EXPECT_EQ(result.status, DecodeStatus::size) << result.detail;
  }
}

}  // namespace
}  // namespace damacy
