// bzip2 and LZMA in its containers, packed and mutated, or any bytes; filters of raw LZMA are any. An answer, no byte
// outside, what was packed where nothing was changed, and the same answer twice. libbz2 and liblzma are not
// instrumented: guarded pages watch them.
#include "codec_support.h"
#include "damacy/codec/bzip2.h"
#include "damacy/codec/lzma.h"
#include "support/slow_encoders.h"

namespace {

using namespace damacy;
using fuzz::Bytes;
using fuzz::require;

constexpr std::size_t kMost = 1 << 16;

LzmaFilter any_filter(FuzzedDataProvider& data) {
  return {.id = data.ConsumeBool() ? LzmaFilter::kLzma2 : data.ConsumeIntegralInRange<std::uint64_t>(0, 0x22),
          .dictionary = data.ConsumeIntegral<std::uint32_t>(),
          .literal_context = data.ConsumeIntegralInRange<std::uint32_t>(0, 5),
          .literal_position = data.ConsumeIntegralInRange<std::uint32_t>(0, 5),
          .position = data.ConsumeIntegralInRange<std::uint32_t>(0, 5),
          .distance = data.ConsumeIntegralInRange<std::uint32_t>(0, 257),
          .start = data.ConsumeIntegral<std::uint32_t>()};
}

LzmaFormat any_format(FuzzedDataProvider& data) {
  LzmaFormat format{.container = static_cast<LzmaFormat::Container>(data.ConsumeIntegralInRange(0, 2)), .filters = {}};
  if (format.container == LzmaFormat::Container::raw)
    format.filters = codec_test::two_filters(data.ConsumeBool() ? LzmaFilter::kLzma1 : LzmaFilter::kLzma2, 1 << 16);
  return format;
}

DecodeResult decode(const LzmaFormat* format, std::span<const std::byte> in, std::span<std::byte> out,
                    std::uint64_t* produced) {
  static Bzip2Decoder bzip2;
  static LzmaDecoder lzma;
  return format ? lzma.decode(*format, in, out, produced) : bzip2.decode(in, out, produced);
}

bool known_to_the_library(const LzmaFilter& filter) {
  return filter.id == LzmaFilter::kLzma1 || filter.id == LzmaFilter::kLzma2 || filter.id == LzmaFilter::kDelta ||
         (filter.id >= LzmaFilter::kFirstBranch && filter.id <= LzmaFilter::kLastBranch);
}

// `format` of LZMA; null: bzip2. `expected`: what must come out, if that is known.
void check(const LzmaFormat* format, const Bytes& encoded, std::size_t size, const Bytes* expected) {
  static fuzz::GuardedBuffer in_buffer(4 * kMost), out_buffer(4 * kMost);
  const std::span<std::byte> in = in_buffer.copy_of(encoded);
  std::span<std::byte> out = out_buffer.filled(size, std::byte{0x00});
  const DecodeResult first = decode(format, in, out, nullptr);
  const Bytes one(out.begin(), out.end());
  out = out_buffer.filled(size, std::byte{0xff});
  const DecodeResult second = decode(format, in, out, nullptr);
  require(first.status == second.status && first.seen == second.seen, "the same bytes are judged twice alike");
  require(!first.ok() || std::equal(one.begin(), one.end(), out.begin()), "every byte is written");
  if (expected != nullptr) require(first.ok() && one == *expected, "what was packed comes out");
  std::uint64_t produced = 0;
  const bool fits = decode(format, in, out, &produced).ok();
  require(!first.ok() || (fits && produced == size), "its own size is found");
  require(!fits || produced <= size, "the bound is kept");
  require(!fits || produced < size || first.ok(), "a full chunk is a good one");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  FuzzedDataProvider data(bytes, count);
  const bool is_lzma = data.ConsumeBool();
  LzmaFormat format = any_format(data);
  const LzmaFormat* const chosen = is_lzma ? &format : nullptr;
  if (data.ConsumeBool()) {
    const int level = data.ConsumeIntegralInRange(1, 9);
    const Bytes raw = fuzz::contents(data, kMost);
    const Bytes good = is_lzma ? codec_test::lzma_packed(format, raw) : codec_test::bzip2_packed(raw, level);
    Bytes encoded = good;
    fuzz::mutate(data, encoded);
    check(chosen, encoded, raw.size(), encoded == good ? &raw : nullptr);
    static_cast<void>(xz_has_checksum(encoded));
    return 0;
  }
  if (format.container == LzmaFormat::Container::raw && data.ConsumeBool()) {
    format.filters.clear();
    for (int i = data.ConsumeIntegralInRange(1, 5); i > 0; --i) format.filters.push_back(any_filter(data));
    // Others never get past metadata.
    if (!std::ranges::all_of(format.filters, known_to_the_library) || !lzma_raw_memory(format.filters)) return 0;
  }
  const std::size_t size = data.ConsumeIntegral<std::uint16_t>();
  check(chosen, fuzz::taken(data, kMost), size, nullptr);
  return 0;
}
