#include "damacy/codec/chain.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "damacy/codec/blosc.h"
#include "damacy/codec/bytes.h"
#include "damacy/codec/bzip2.h"
#include "damacy/codec/checksums.h"
#include "damacy/codec/deflate.h"
#include "damacy/codec/lz4.h"
#include "damacy/codec/zstd.h"
#include "damacy/core/limits.h"

namespace damacy {

using detail::ByteSpan;
using detail::failed;
using detail::MutableByteSpan;

namespace {

constexpr std::uint64_t kChecksumBytes = 4;

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

// The switches over CodecId list every codec, so that the compiler reports a new one that they lack.

DecodeResult not_a(const char* kind, const CodecSpec& codec) noexcept {
  return failed(DecodeStatus::unsupported, kind, static_cast<std::uint64_t>(codec.id));
}

struct Checksum {
  std::uint32_t value;
  const char* detail;  // of an error, if another one is stored
};

std::optional<Checksum> checksum_of(const CodecSpec& codec, ByteSpan bytes) noexcept {
  switch (codec.id) {
    case CodecId::crc32c:
      return Checksum{crc32c(bytes), "crc32c: stored checksum"};
    case CodecId::crc32:
      return Checksum{crc32(bytes), "crc32: stored checksum"};
    case CodecId::adler32:
      return Checksum{adler32(bytes), "adler32: stored checksum"};
    case CodecId::fletcher32:
      return Checksum{fletcher32(bytes), "fletcher32: stored checksum"};
    case CodecId::lookup3:
      return Checksum{lookup3(bytes, codec.seed), "jenkins_lookup3: stored checksum"};
    case CodecId::zstd:
    case CodecId::blosc:
    case CodecId::gzip:
    case CodecId::zlib:
    case CodecId::lz4:
    case CodecId::bz2:
    case CodecId::lzma:
    case CodecId::shuffle:
    case CodecId::packbits:
    case CodecId::delta:
    case CodecId::fixed_scale_offset:
    case CodecId::cast:
      break;
  }
  return std::nullopt;
}

// Verifies and removes four bytes.
DecodeResult strip_checksum(const CodecSpec& codec, ByteSpan& bytes) noexcept {
  if (bytes.size() < kChecksumBytes)
    return failed(DecodeStatus::size, "fewer bytes than a checksum has", bytes.size(), kChecksumBytes);
  const bool at_start = codec.checksum_at_start;
  const ByteSpan stored_at = at_start ? bytes.first(kChecksumBytes) : bytes.last(kChecksumBytes);
  const ByteSpan payload = at_start ? bytes.subspan(kChecksumBytes) : bytes.first(bytes.size() - kChecksumBytes);
  const std::uint32_t stored = detail::read_le32(stored_at.data());
  const std::optional<Checksum> computed = checksum_of(codec, payload);
  if (!computed) return not_a("not a checksum", codec);
  if (stored != computed->value) return failed(DecodeStatus::checksum, computed->detail, stored, computed->value);
  bytes = payload;
  return {};
}

DecodeResult undo_filter(const CodecSpec& codec, ByteSpan in, MutableByteSpan out) {
  switch (codec.id) {
    case CodecId::shuffle:
      return decode_shuffle(codec.shuffle_width, in, out);
    case CodecId::packbits:
      return decode_packbits(in, out);
    case CodecId::delta:
      return decode_delta(codec.types, in, out);
    case CodecId::fixed_scale_offset:
      return decode_scaled(codec.types, codec.scaling, in, out);
    case CodecId::cast:
      return decode_cast(codec.types, in, out);
    case CodecId::zstd:
    case CodecId::blosc:
    case CodecId::gzip:
    case CodecId::zlib:
    case CodecId::lz4:
    case CodecId::bz2:
    case CodecId::lzma:
    case CodecId::crc32c:
    case CodecId::crc32:
    case CodecId::adler32:
    case CodecId::fletcher32:
    case CodecId::lookup3:
      break;
  }
  return not_a("not a filter", codec);
}

DecodeResult check_bound(std::uint64_t encoded, std::uint64_t decoded) noexcept {
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
  Bzip2Decoder bzip2;
  LzmaDecoder lzma;
  std::array<StageBuffer, 2> stages;  // one is read while the other is written
  std::size_t stages_used = 0;
  // The output size of each codec of the chain, as far as metadata give it.
  std::vector<std::optional<std::uint64_t>> sizes;

  void find_sizes(std::span<const CodecSpec> codecs, std::uint64_t decoded) {
    sizes.assign(codecs.size(), std::nullopt);
    std::optional<std::uint64_t> size = decoded;
    for (std::size_t i = 0; i < codecs.size() && size; ++i) {
      sizes[i] = size;
      size = codecs[i].is_fixed_size() ? codecs[i].encoded_size(*size) : std::nullopt;
    }
  }

  StageBuffer& next_stage() { return stages[stages_used++ % 2]; }

  // One codec before the first of the chain: `bytes` in, `bytes` out, `size` of them where that is known, else at most
  // `bound`.
  DecodeResult stage(const CodecSpec& codec, std::optional<std::uint64_t> size, std::uint64_t bound, ByteSpan& bytes) {
    DecodeResult result;
    if (codec.is_checksum()) {
      result = strip_checksum(codec, bytes);
    } else if (codec.is_fixed_size()) {
      const MutableByteSpan out = next_stage().at_least(filtered_size(codec, bytes));
      result = undo_filter(codec, bytes, out);
      bytes = out;
    } else if (size) {
      const MutableByteSpan out = next_stage().at_least(*size);
      const ByteRange everything{0, *size};
      result = last(codec, bytes, out, {&everything, 1});
      bytes = out;
    } else {
      result = between(codec, bytes, bound, next_stage(), bytes);
    }
    if (result.ok() && size && bytes.size() != *size)
      result = failed(DecodeStatus::size, "size between two codecs", bytes.size(), *size);
    return result;
  }

  // Whole elements of what was encoded, decoded.
  static std::uint64_t filtered_size(const CodecSpec& codec, ByteSpan encoded) noexcept {
    if (codec.id == CodecId::shuffle) return encoded.size();
    if (codec.id == CodecId::packbits) return packbits_decoded_size(encoded);
    return encoded.size() / size_of(codec.types.encoded.dtype) * size_of(codec.types.decoded.dtype);
  }

  // The codec that gives the chunk itself.
  DecodeResult last(const CodecSpec& codec, ByteSpan encoded, MutableByteSpan out, std::span<const ByteRange> needed) {
    const ByteRange all{0, encoded.size()};
    switch (codec.id) {
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
      case CodecId::bz2:
        return bzip2.decode(encoded, out);
      case CodecId::lzma:
        return lzma.decode(codec.lzma, encoded, out);
      case CodecId::crc32c:
      case CodecId::crc32:
      case CodecId::adler32:
      case CodecId::fletcher32:
      case CodecId::lookup3:
      case CodecId::shuffle:
      case CodecId::packbits:
      case CodecId::delta:
      case CodecId::fixed_scale_offset:
      case CodecId::cast:
        break;
    }
    return not_a("not a compressor", codec);
  }

  // A codec between others: at most `bound` bytes, exactly as many as the frame declares where it does.
  DecodeResult between(const CodecSpec& codec, ByteSpan encoded, std::uint64_t bound, StageBuffer& stage,
                       ByteSpan& decoded) {
    const CodecId id = codec.id;
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
    else if (id == CodecId::bz2)
      result = bzip2.decode(encoded, out, &size);
    else if (id == CodecId::lzma)
      result = lzma.decode(codec.lzma, encoded, out, &size);
    else {
      const ByteRange everything{0, size};
      result = last(codec, encoded, out, {&everything, 1});
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

std::optional<std::uint64_t> CodecSpec::encoded_size(std::uint64_t decoded) const noexcept {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 58;  // eight times that is a size still
  if (decoded > kMost) return std::nullopt;
  if (is_checksum()) return decoded + kChecksumBytes;
  if (id == CodecId::shuffle)
    return shuffle_width <= 1 || decoded % shuffle_width == 0 ? std::optional(decoded) : std::nullopt;
  if (id == CodecId::packbits) return packbits_encoded_size(decoded);
  const std::uint64_t element = size_of(types.decoded.dtype);
  if (decoded % element != 0) return std::nullopt;
  return decoded / element * size_of(types.encoded.dtype);
}

bool CodecChain::fixed_size() const noexcept {
  return std::ranges::all_of(codecs_, &CodecSpec::is_fixed_size);
}

std::uint64_t CodecChain::fixed_encoded_size(std::uint64_t decoded) const noexcept {
  for (const CodecSpec& codec : codecs_) decoded = codec.encoded_size(decoded).value_or(decoded);
  return decoded;
}

std::optional<std::uint64_t> CodecChain::largest_stage(std::uint64_t decoded) const noexcept {
  std::uint64_t largest = decoded;
  for (const CodecSpec& codec : codecs_) {
    if (!codec.is_fixed_size()) break;
    const auto encoded = codec.encoded_size(decoded);
    if (!encoded) return std::nullopt;
    decoded = *encoded;
    largest = std::max(largest, decoded);
  }
  return largest;
}

bool CodecChain::always_has_checksum() const noexcept {
  return std::ranges::any_of(codecs_, [](const CodecSpec& codec) {
    return codec.is_checksum() || codec.id == CodecId::gzip || codec.id == CodecId::zlib || codec.id == CodecId::bz2;
  });
}

bool CodecChain::has_checksum(ByteSpan encoded) const noexcept {
  if (always_has_checksum()) return true;
  if (codecs_.empty()) return false;
  const CodecSpec& last = codecs_.back();
  if (last.id == CodecId::lzma) return last.lzma.container == LzmaFormat::Container::xz && xz_has_checksum(encoded);
  if (last.id != CodecId::zstd) return false;
  ZstdExtent extent;
  const std::uint64_t bound = Limits::encoded_chunk_bytes(Limits::max_element_chunk_bytes);
  return check_zstd(encoded, bound, extent).ok() && extent.frames > 0 && extent.unguarded == 0;
}

DecodeResult CodecChain::check_encoded_size(std::uint64_t encoded, std::uint64_t decoded) const noexcept {
  return check_bound(encoded, largest_stage(decoded).value_or(decoded));
}

DecodeResult CodecChain::decode(ByteSpan encoded, MutableByteSpan out, std::span<const ByteRange> needed,
                                DecodeContext& context) const {
  if (const DecodeResult result = check_encoded_size(encoded.size(), out.size()); !result.ok()) return result;
  const std::uint64_t largest = largest_stage(out.size()).value_or(out.size());
  if (codecs_.empty()) return copy_needed(encoded, out, needed);
  DecodeContext::State& state = context.state();
  state.find_sizes(codecs_, out.size());
  ByteSpan bytes = encoded;
  for (std::size_t i = codecs_.size(); i-- > 1;)
    if (const DecodeResult result =
            state.stage(codecs_[i], state.sizes[i], Limits::encoded_chunk_bytes(largest), bytes);
        !result.ok())
      return result;
  const CodecSpec& first = codecs_.front();
  if (first.is_checksum()) {
    if (const DecodeResult result = strip_checksum(first, bytes); !result.ok()) return result;
    return copy_needed(bytes, out, needed);
  }
  return first.is_fixed_size() ? undo_filter(first, bytes, out) : state.last(first, bytes, out, needed);
}

DecodeResult CodecChain::decode_all(ByteSpan encoded, std::uint64_t bound, DecodeContext& context,
                                    ByteSpan& decoded) const {
  if (const DecodeResult result = check_bound(encoded.size(), bound); !result.ok()) return result;
  DecodeContext::State& state = context.state();
  decoded = encoded;
  for (std::size_t i = codecs_.size(); i-- > 0;) {
    const std::uint64_t most = i == 0 ? bound : Limits::encoded_chunk_bytes(bound);
    if (const DecodeResult result = state.stage(codecs_[i], std::nullopt, most, decoded); !result.ok()) return result;
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
