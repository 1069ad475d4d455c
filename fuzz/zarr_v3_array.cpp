// zarr.json of arrays: any text, and documents put together from parts, give one of our errors or an array whose
// numbers are right, computed again in 128 bits.
#include "damacy/core/formatted.h"
#include "zarr_support.h"

namespace {

using namespace damacy;
using fuzz::Choices;

// Extents that often divide those of divisible().
std::string divisors(Choices& in, std::size_t rank) {
  std::string list = "[";
  for (std::size_t i = 0; i < rank; ++i)
    list +=
        formatted("{}{}", i > 0 ? "," : "", in.byte() < 240 ? in.pick({"1", "2", "3", "4", "6", "12"}) : in.number());
  return list + "]";
}
std::string divisible(Choices& in, std::size_t rank) {
  if (in.byte() < 64) return in.extents(rank);
  std::string list = "[";
  for (std::size_t i = 0; i < rank; ++i)
    list += formatted("{}{}", i > 0 ? "," : "", in.pick({"12", "24", "36", "1048576", "12000000"}));
  return list + "]";
}

std::string chunk_grid(Choices& in, std::size_t rank) {
  if (in.byte() < 16)
    return formatted(R"({{"name":"rectilinear","configuration":{{"kind":"inline","chunk_shapes":{}}}}})",
                     divisible(in, rank));
  return formatted(R"({{"name":"regular","configuration":{{"chunk_shape":{}}}}})", divisible(in, rank));
}

std::string permutation(Choices& in, std::size_t rank) {
  if (in.byte() < 8) return in.pick({"\"C\"", "\"F\"", "[0]", "[0,0]", "[1,2]", "[]"});
  std::string axes;
  for (std::size_t i = 0; i < rank; ++i) axes += static_cast<char>('0' + i);
  for (std::size_t i = 1; i < rank; ++i) std::swap(axes[i], axes[in.byte() % (i + 1)]);
  std::string list = "[";
  for (std::size_t i = 0; i < rank; ++i) list += formatted("{}{}", i > 0 ? "," : "", axes[i]);
  return list + "]";
}

std::string codecs(Choices& in, std::size_t rank, int depth);

std::string array_to_bytes(Choices& in, std::size_t rank, int depth) {
  if (in.byte() < (depth == 0 ? 128 : 250))
    return in.pick({R"({"name":"bytes","configuration":{"endian":"little"}})",
                    R"({"name":"bytes","configuration":{"endian":"big"}})",
                    R"({"name":"bytes","configuration":{"endian":"big"}})",
                    R"({"name":"bytes","configuration":{"endian":"little"}})", R"("bytes")"});
  return formatted(
      R"({{"name":"sharding_indexed","configuration":{{"chunk_shape":{},"codecs":{},)"
      R"("index_codecs":{}{}}}}})",
      divisors(in, rank), codecs(in, rank, depth + 1),
      in.pick({R"([{"name":"bytes","configuration":{"endian":"little"}},"crc32c"])",
               R"([{"name":"bytes","configuration":{"endian":"big"}}])", R"(["bytes"])", R"(["crc32c"])", "[]"}),
      in.pick({"", R"(,"index_location":"start")", R"(,"index_location":"end")", R"(,"index_location":"x")"}));
}

std::string codecs(Choices& in, std::size_t rank, int depth) {
  std::string list = "[";
  for (int i = in.byte() % 4 - 1; i > 0; --i)
    list += formatted(R"({{"name":"transpose","configuration":{{"order":{}}}}},)", permutation(in, rank));
  list += array_to_bytes(in, rank, depth);
  for (int i = in.byte() % 4 - (depth == 0 ? 2 : 1); i > 0; --i)
    list += formatted(",{}", in.pick({"\"zstd\"", "\"blosc\"", "\"crc32c\"", "\"numcodecs.lz4\"", "\"zfp\"",
                                      R"({"name":"gzip","configuration":{"level":1}})", "\"numcodecs.adler32\"",
                                      "\"numcodecs.bz2\"", "\"numcodecs.lzma\"",
                                      R"({"name":"numcodecs.lzma","configuration":{"format":3,"filters":[{"id":33}]}})",
                                      "\"numcodecs.fletcher32\"", "\"numcodecs.jenkins_lookup3\"",
                                      R"({"name":"numcodecs.shuffle","configuration":{"elementsize":3}})",
                                      R"({"name":"numcodecs.crc32c","configuration":{"location":"start"}})"}));
  return list + "]";
}

std::string document(Choices& in) {
  const std::size_t rank = in.byte() % 4;
  const std::string shape = in.extents(rank);
  const std::string type =
      in.pick({R"("uint8")", R"("int16")", R"("float16")", R"("bfloat16")", R"("float32")", R"("float64")", R"("bool")",
               R"("complex64")", R"("uint64")", R"("int8")", R"("r16")",
               R"({"name":"numpy.datetime64","configuration":{"unit":"s","scale_factor":1}})"});
  return formatted(
      R"({{"zarr_format":3,"node_type":"array","shape":{},"data_type":{},"chunk_grid":{},)"
      R"("chunk_key_encoding":{},"fill_value":{},"codecs":{}{}}})",
      shape, type, chunk_grid(in, rank),
      in.pick({R"("default")", R"("v2")", R"({"name":"v2","configuration":{"separator":"/"}})"}),
      in.byte() < 160 ? "0" : in.fill(), codecs(in, rank, 0),
      in.pick({"", R"(,"attributes":{"a":NaN})", R"(,"x":{"must_understand":false})", R"(,"dimension_names":["y"])"}));
}

void run(std::string_view json) {
  try {
    const ArrayMetadata array = parse_v3_array(json);
    fuzz::check_array(array);
    fuzz::check_last_chunk(array);
  } catch (const Error& e) {
    fuzz::check_error(e);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::run_document({reinterpret_cast<const char*>(data), size}, document, run);
  return 0;
}
