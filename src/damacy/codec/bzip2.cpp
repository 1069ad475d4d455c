#include "damacy/codec/bzip2.h"

#include <bzlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>

namespace damacy {

using detail::ByteSpan;
using detail::failed;
using detail::MutableByteSpan;

// Blocks that the library asked for. Freed ones serve the next stream, so that many short streams cost little.
struct Bzip2Decoder::Memory {
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
    bool taken = false;
  };

  // The library asks for two blocks a stream.
  std::byte* take(std::size_t size) noexcept {
    const auto block = std::ranges::find_if(blocks, [&](const Block& b) { return !b.taken && b.size >= size; });
    if (block != blocks.end()) {
      block->taken = true;
      return block->bytes.get();
    }
    const auto empty = std::ranges::find(blocks, false, &Block::taken);
    if (empty == blocks.end()) return nullptr;
    empty->bytes.reset();
    empty->bytes.reset(new (std::nothrow) std::byte[size]);
    empty->size = empty->bytes ? size : 0;
    empty->taken = empty->bytes != nullptr;
    return empty->bytes.get();
  }

  void give_back(const void* bytes) noexcept {
    for (Block& block : blocks)
      if (block.taken && block.bytes.get() == bytes) block.taken = false;
  }

  std::array<Block, 2> blocks;
};

namespace {

// A decompressor of the library's. The library counts bytes in 32 bits.
class Stream {
 public:
  template <class Memory>
  explicit Stream(Memory& memory) {
    stream_.opaque = &memory;
    stream_.bzalloc = [](void* opaque, int count, int size) -> void* {
      return static_cast<Memory*>(opaque)->take(static_cast<std::size_t>(count) * static_cast<std::size_t>(size));
    };
    stream_.bzfree = [](void* opaque, void* bytes) { static_cast<Memory*>(opaque)->give_back(bytes); };
    if (BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) throw std::bad_alloc();
  }
  ~Stream() { BZ2_bzDecompressEnd(&stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Consumes and fills as much as it can of both, and takes that off them.
  int run(ByteSpan& in, MutableByteSpan& out) {
    constexpr std::size_t kMost = std::numeric_limits<unsigned>::max();
    const std::size_t offered = std::min(in.size(), kMost);
    const std::size_t room = std::min(out.size(), kMost);
    stream_.next_in = const_cast<char*>(reinterpret_cast<const char*>(in.data()));  // only read
    stream_.avail_in = static_cast<unsigned>(offered);
    stream_.next_out = reinterpret_cast<char*>(out.data());
    stream_.avail_out = static_cast<unsigned>(room);
    const int code = BZ2_bzDecompress(&stream_);
    in = in.subspan(offered - stream_.avail_in);
    out = out.subspan(room - stream_.avail_out);
    return code;
  }

 private:
  bz_stream stream_{};
};

// One stream; takes what it used off `in`, and what it filled off `left`.
DecodeResult decode_stream(Stream& stream, ByteSpan& in, MutableByteSpan& left, std::uint64_t size) {
  for (;;) {
    std::byte more{};  // the end of the data is found after the last byte of output
    MutableByteSpan beyond(&more, 1);
    const bool is_full = left.empty();
    const int code = stream.run(in, is_full ? beyond : left);
    if (is_full && beyond.empty()) return failed(DecodeStatus::size, "bz2: more bytes than expected", size + 1, size);
    const std::uint64_t decoded = size - left.size();
    switch (code) {
      case BZ_STREAM_END:
        return {};
      case BZ_OK:
        if (in.empty() && (is_full || !left.empty()))
          return failed(DecodeStatus::frame, "bz2: data end early, after decoded bytes", decoded);
        break;
      case BZ_MEM_ERROR:
        throw std::bad_alloc();
      case BZ_DATA_ERROR_MAGIC:
        return failed(DecodeStatus::frame, "bz2: no bzip2 stream, after decoded bytes", decoded);
      default:
        return failed(DecodeStatus::frame, "bz2: malformed data, or a wrong checksum, after decoded bytes", decoded);
    }
  }
}

}  // namespace

Bzip2Decoder::Bzip2Decoder() : memory_(std::make_unique<Memory>()) {}
Bzip2Decoder::~Bzip2Decoder() = default;
Bzip2Decoder::Bzip2Decoder(Bzip2Decoder&&) noexcept = default;
Bzip2Decoder& Bzip2Decoder::operator=(Bzip2Decoder&&) noexcept = default;

DecodeResult Bzip2Decoder::decode(ByteSpan encoded, MutableByteSpan out, std::uint64_t* produced) {
  MutableByteSpan left = out;
  do {
    Stream stream(*memory_);
    if (const DecodeResult result = decode_stream(stream, encoded, left, out.size()); !result.ok()) return result;
  } while (!encoded.empty());
  const std::uint64_t decoded = out.size() - left.size();
  if (produced != nullptr)
    *produced = decoded;
  else if (!left.empty())
    return failed(DecodeStatus::size, "bz2: decoded size", decoded, out.size());
  return {};
}

}  // namespace damacy
