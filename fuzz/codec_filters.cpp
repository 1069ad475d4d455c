// Chains of filters and checksums over any bytes: an answer, exactly the bytes that were asked for when it is good, and
// the same answer twice. Checksums are repaired so that filters are reached.
#include "codec_support.h"
#include "damacy/codec/chain.h"
#include "damacy/codec/checksums.h"

namespace {

using namespace damacy;
using fuzz::Bytes;
using fuzz::require;

StoredType element(FuzzedDataProvider& data) {
  return {static_cast<Dtype>(data.ConsumeIntegralInRange(0, 16)), data.ConsumeBool()};
}

CodecSpec codec(FuzzedDataProvider& data) {
  const auto id = static_cast<CodecId>(
      data.ConsumeIntegralInRange(static_cast<int>(CodecId::crc32c), static_cast<int>(CodecId::cast)));
  return {.id = id,
          .checksum_at_start = data.ConsumeBool(),
          .name = "codec",
          .shuffle_width = data.ConsumeIntegralInRange<std::uint64_t>(1, 300),
          .types = {element(data), element(data)},
          .scaling = {data.ConsumeFloatingPoint<double>(), data.ConsumeFloatingPoint<double>()},
          .seed = data.ConsumeIntegral<std::uint32_t>()};
}

// The outermost checksums made right.
void repair(const std::vector<CodecSpec>& codecs, Bytes& bytes) {
  if (codecs.empty() || !codecs.back().is_checksum() || bytes.size() < 4) return;
  const CodecSpec& last = codecs.back();
  const bool front = last.checksum_at_start;
  const auto payload = front ? std::span(bytes).subspan(4) : std::span(bytes).first(bytes.size() - 4);
  const std::uint32_t sum = last.id == CodecId::crc32        ? crc32(payload)
                            : last.id == CodecId::adler32    ? adler32(payload)
                            : last.id == CodecId::fletcher32 ? fletcher32(payload)
                            : last.id == CodecId::lookup3    ? lookup3(payload, last.seed)
                                                             : crc32c(payload);
  const std::size_t at = front ? 0 : bytes.size() - 4;
  for (unsigned i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::byte>(sum >> (8 * i));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  static DecodeContext context;
  FuzzedDataProvider data(bytes, count);
  std::vector<CodecSpec> codecs;
  for (int i = data.ConsumeIntegralInRange(0, 4); i > 0; --i) codecs.push_back(codec(data));
  const CodecChain chain(codecs);
  const std::size_t size = data.ConsumeIntegralInRange<std::size_t>(0, 4096);
  const bool fits = chain.largest_stage(size).has_value();
  const std::string rest = data.ConsumeRemainingBytesAsString();
  Bytes encoded(rest.size());
  for (std::size_t i = 0; i < rest.size(); ++i) encoded[i] = static_cast<std::byte>(rest[i]);
  if (fits && chain.fixed_encoded_size(size) > 1 << 20) return 0;
  if (fits) encoded.resize(chain.fixed_encoded_size(size));
  repair(codecs, encoded);
  Bytes one(size, std::byte{0x00}), other(size, std::byte{0xff});
  const ByteRange all{0, size};
  const DecodeResult a = chain.decode(encoded, one, {&all, 1}, context);
  const DecodeResult b = chain.decode(encoded, other, {&all, 1}, context);
  require(a.status == b.status, "the same bytes are judged twice alike");
  if (a.ok()) require(fits && one == other, "every byte is written");
  std::span<const std::byte> whole;
  if (chain.decode_all(encoded, 1 << 16, context, whole).ok()) require(whole.size() <= 1 << 16, "the bound is kept");
  return 0;
}
