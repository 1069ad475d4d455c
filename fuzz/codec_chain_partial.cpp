// Partial reads of blosc chunks: the ranges are sorted and inside, bytes that were not read are never looked at, and
// what is needed equals the whole decode.
#include "codec_blosc_input.h"
#include "damacy/codec/chain.h"

namespace {

using namespace damacy;
using fuzz::Bytes;
using fuzz::require;

const CodecChain& chain() {
  static const CodecChain blosc({{.id = CodecId::blosc, .name = "blosc"}});
  return blosc;
}

std::vector<ByteRange> needed_ranges(FuzzedDataProvider& data, std::uint64_t size) {
  std::vector<ByteRange> needed;
  std::uint64_t at = 0;
  for (int count = data.ConsumeIntegralInRange(0, 4); count > 0 && at < size; --count) {
    const auto begin = data.ConsumeIntegralInRange<std::uint64_t>(at, size);
    const auto end = data.ConsumeIntegralInRange<std::uint64_t>(begin, size);
    needed.push_back({begin, end});
    at = end + 1;
  }
  return needed;
}

// What a store gives: the head, and the ranges; elsewhere poison.
Bytes read_only(const Bytes& stored, const std::vector<ByteRange>& ranges, std::byte poison) {
  Bytes read(stored.size(), poison);
  for (const ByteRange& range : ranges)
    std::copy(stored.begin() + static_cast<std::ptrdiff_t>(range.begin),
              stored.begin() + static_cast<std::ptrdiff_t>(range.end),
              read.begin() + static_cast<std::ptrdiff_t>(range.begin));
  return read;
}

bool same_where_needed(const Bytes& a, const Bytes& b, const std::vector<ByteRange>& needed) {
  for (const ByteRange& range : needed)
    for (std::uint64_t i = range.begin; i < range.end; ++i)
      if (a[i] != b[i]) return false;
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  static DecodeContext context;
  FuzzedDataProvider data(bytes, count);
  std::size_t size = 0;
  const Bytes stored = fuzz::blosc_input(data, size);
  const std::vector<ByteRange> needed = needed_ranges(data, size);
  const std::size_t head = std::min<std::size_t>(stored.size(), data.ConsumeIntegralInRange<std::size_t>(0, 8192));

  std::vector<ByteRange> ranges{{0, head}};
  const DecodeResult planned =
      chain().partial_ranges(std::span(stored).first(head), stored.size(), size, needed, ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i)
    require(ranges[i - 1].end <= ranges[i].begin && ranges[i].begin < ranges[i].end && ranges[i].end <= stored.size(),
            "ranges are not sorted, disjoint and inside");
  if (!planned.ok()) return 0;

  Bytes whole(size), one(size), other(size);
  const bool whole_ok = chain().decode(stored, whole, needed, context).ok();
  const DecodeResult a =
      chain().decode_partial(read_only(stored, ranges, std::byte{0x00}), ranges, one, needed, context);
  const DecodeResult b =
      chain().decode_partial(read_only(stored, ranges, std::byte{0xff}), ranges, other, needed, context);
  require(a.status == b.status, "bytes that were not read matter");
  if (a.status == DecodeStatus::need_more) return 0;
  require(a.ok() == whole_ok, "a part is judged otherwise than the whole");
  if (a.ok()) require(same_where_needed(one, whole, needed) && same_where_needed(one, other, needed), "a part differs");
  return 0;
}
