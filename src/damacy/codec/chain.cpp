#include "damacy/codec/chain.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "damacy/codec/blosc.h"
#include "damacy/codec/bytes.h"
#include "damacy/codec/deflate.h"
#include "damacy/codec/lz4.h"
#include "damacy/codec/zstd.h"
#include "damacy/core/limits.h"

namespace damacy {

using detail::ByteSpan;
using detail::failed;
using detail::MutableByteSpan;

namespace {

constexpr std::uint64_t kCrcBytes = 4;

// Memory for a stage between two codecs; only ever grows.
class StageBuffer {
 public:
  MutableByteSpan at_least(std::uint64_t size) {
    if (capacity_ < size) {
      bytes_.reset();
      bytes_ = std::make_unique_for_overwrite<std::byte[]>(size);
      capacity_ = size;
    }
    return {bytes_.get(), size};
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::uint64_t capacity_ = 0;
};

// Verifies and removes four bytes.
DecodeResult strip_crc32c(bool at_start, ByteSpan& bytes) noexcept {
  if (bytes.size() < kCrcBytes)
    return failed(DecodeStatus::size, "crc32c: fewer bytes than a checksum has", bytes.size(), kCrcBytes);
  const ByteSpan stored_at = at_start ? bytes.first(kCrcBytes) : bytes.last(kCrcBytes);
  const ByteSpan payload = at_start ? bytes.subspan(kCrcBytes) : bytes.first(bytes.size() - kCrcBytes);
  const std::uint32_t stored = detail::read_le32(stored_at.data());
  const std::uint32_t computed = crc32c(payload);
  if (stored != computed) return failed(DecodeStatus::checksum, "crc32c: stored checksum", stored, computed);
  bytes = payload;
  return {};
}

DecodeResult check_encoded_size(std::uint64_t encoded, std::uint64_t decoded) noexcept {
  const std::uint64_t bound = Limits::encoded_chunk_bytes(decoded);
  if (encoded > bound) return failed(DecodeStatus::limit, "size of the encoded chunk", encoded, bound);
  return {};
}

DecodeResult copy_needed(ByteSpan from, MutableByteSpan out, std::span<const ByteRange> needed) noexcept {
  if (from.size() != out.size()) return failed(DecodeStatus::size, "size of the stored bytes", from.size(), out.size());
  for (const ByteRange& range : needed)
    if (range.begin < range.end) std::memcpy(out.data() + range.begin, from.data() + range.begin, range.size());
  return {};
}

}  // namespace

struct DecodeContext::State {
  ZstdDecoder zstd;
  InflateDecoder inflate;
  BloscDecoder blosc;
  std::array<StageBuffer, 2> stages;  // one is read while the other is written

  // The codec that gives the chunk itself.
  DecodeResult last(CodecId id, ByteSpan encoded, MutableByteSpan out, std::span<const ByteRange> needed) {
    const ByteRange all{0, encoded.size()};
    switch (id) {
      case CodecId::zstd:
        return zstd.decode(encoded, out, needed.empty() ? 0 : needed.back().end);
      case CodecId::blosc:
        return blosc.decode(encoded, {&all, 1}, out, needed, zstd, inflate);
      case CodecId::gzip:
        return inflate.decode_gzip(encoded, out);
      case CodecId::zlib:
        return inflate.decode_zlib(encoded, out);
      case CodecId::lz4:
        return decode_lz4(encoded, out);
      case CodecId::crc32c:
        break;
    }
    return failed(DecodeStatus::unsupported, "not a compressor", static_cast<std::uint64_t>(id));
  }

  // A codec between others: at most `bound` bytes, exactly as many as the frame declares where it does.
  DecodeResult between(CodecId id, ByteSpan encoded, std::uint64_t bound, StageBuffer& stage, ByteSpan& decoded) {
    std::uint64_t size = bound;
    if (const DecodeResult result = declared_size(id, encoded, bound, size); !result.ok()) return result;
    const MutableByteSpan out = stage.at_least(size);
    DecodeResult result;
    if (id == CodecId::zstd)
      result = zstd.decode_up_to(encoded, out, size);
    else if (id == CodecId::gzip)
      result = inflate.decode_gzip(encoded, out, &size);
    else if (id == CodecId::zlib)
      result = inflate.decode_zlib(encoded, out, &size);
    else {
      const ByteRange everything{0, size};
      result = last(id, encoded, out, {&everything, 1});
    }
    decoded = out.first(result.ok() ? size : 0);
    return result;
  }

  static DecodeResult declared_size(CodecId id, ByteSpan encoded, std::uint64_t bound, std::uint64_t& size) noexcept {
    DecodeResult result;
    if (id == CodecId::blosc) {
      BloscHeader header;
      result = read_blosc_header(encoded, encoded.size(), nullptr, header);
      size = header.nbytes;
    } else if (id == CodecId::lz4) {
      result = lz4_decoded_size(encoded, size);
    } else if (id == CodecId::zstd) {
      ZstdExtent extent;
      result = check_zstd(encoded, bound, extent);
      size = std::min(extent.most, bound);
    }
    if (result.ok() && size > bound) result = failed(DecodeStatus::limit, "size between two codecs", size, bound);
    return result;
  }
};

DecodeContext::DecodeContext() : state_(std::make_unique<State>()) {}
DecodeContext::~DecodeContext() = default;
DecodeContext::DecodeContext(DecodeContext&&) noexcept = default;
DecodeContext& DecodeContext::operator=(DecodeContext&&) noexcept = default;

bool CodecChain::fixed_size() const noexcept {
  return std::ranges::all_of(codecs_, [](const CodecSpec& codec) { return codec.id == CodecId::crc32c; });
}

std::uint64_t CodecChain::fixed_encoded_size(std::uint64_t decoded) const noexcept {
  return decoded + kCrcBytes * codecs_.size();
}

DecodeResult CodecChain::decode(ByteSpan encoded, MutableByteSpan out, std::span<const ByteRange> needed,
                                DecodeContext& context) const {
  if (const DecodeResult result = check_encoded_size(encoded.size(), out.size()); !result.ok()) return result;
  DecodeContext::State& state = context.state();
  ByteSpan bytes = encoded;
  std::size_t stage = 0;
  for (std::size_t i = codecs_.size(); i-- > 0;) {
    const CodecSpec& codec = codecs_[i];
    DecodeResult result;
    if (codec.id == CodecId::crc32c)
      result = strip_crc32c(codec.checksum_at_start, bytes);
    else if (i == 0)
      return state.last(codec.id, bytes, out, needed);
    else
      result =
          state.between(codec.id, bytes, Limits::encoded_chunk_bytes(out.size()), state.stages[stage++ % 2], bytes);
    if (!result.ok()) return result;
  }
  return copy_needed(bytes, out, needed);
}

DecodeResult CodecChain::decode_all(ByteSpan encoded, std::uint64_t bound, DecodeContext& context,
                                    ByteSpan& decoded) const {
  if (const DecodeResult result = check_encoded_size(encoded.size(), bound); !result.ok()) return result;
  DecodeContext::State& state = context.state();
  decoded = encoded;
  std::size_t stage = 0;
  for (std::size_t i = codecs_.size(); i-- > 0;) {
    const CodecSpec& codec = codecs_[i];
    const std::uint64_t most = i == 0 ? bound : Limits::encoded_chunk_bytes(bound);
    const DecodeResult result = codec.id == CodecId::crc32c
                                    ? strip_crc32c(codec.checksum_at_start, decoded)
                                    : state.between(codec.id, decoded, most, state.stages[stage++ % 2], decoded);
    if (!result.ok()) return result;
  }
  if (decoded.size() > bound) return failed(DecodeStatus::limit, "decoded size", decoded.size(), bound);
  return {};
}

bool CodecChain::can_read_partially() const noexcept {
  return codecs_.size() == 1 && codecs_.front().id == CodecId::blosc;
}

DecodeResult CodecChain::partial_ranges(ByteSpan head, std::uint64_t encoded_size, std::uint64_t decoded_size,
                                        std::span<const ByteRange> needed, std::vector<ByteRange>& ranges) const {
  if (!can_read_partially()) return failed(DecodeStatus::unsupported, "a chain that is read whole", codecs_.size(), 1);
  if (const DecodeResult result = check_encoded_size(encoded_size, decoded_size); !result.ok()) return result;
  return blosc_partial_ranges(head, encoded_size, decoded_size, needed, ranges);
}

DecodeResult CodecChain::decode_partial(ByteSpan encoded, std::span<const ByteRange> available, MutableByteSpan out,
                                        std::span<const ByteRange> needed, DecodeContext& context) const {
  if (!can_read_partially()) return failed(DecodeStatus::unsupported, "a chain that is read whole", codecs_.size(), 1);
  if (const DecodeResult result = check_encoded_size(encoded.size(), out.size()); !result.ok()) return result;
  DecodeContext::State& state = context.state();
  return state.blosc.decode(encoded, available, out, needed, state.zstd, state.inflate);
}

}  // namespace damacy
