// .zarray: as zarr_v3_array.
#include "damacy/core/formatted.h"
#include "zarr_support.h"

namespace {

using namespace damacy;
using fuzz::Choices;

std::string codec(Choices& in) {
  return in.pick({R"({"id":"zstd","level":1})",
                  R"({"id":"blosc","x":1})",
                  R"({"id":"zlib"})",
                  R"({"id":"lz4"})",
                  R"({"id":"gzip"})",
                  R"({"id":"crc32c"})",
                  R"({"id":"crc32c","location":"start"})",
                  R"({"id":"crc32c","x":0})",
                  R"({"id":"delta"})",
                  "null",
                  "{}",
                  R"({"id":"delta","dtype":"<i2","astype":"|i1"})",
                  R"({"id":"delta","dtype":">f8"})",
                  R"({"id":"astype","encode_dtype":"<f8","decode_dtype":"|u1"})",
                  R"({"id":"astype","encode_dtype":"|b1","decode_dtype":"<i4"})",
                  R"({"id":"quantize","digits":1,"dtype":"<f4"})",
                  R"({"id":"shuffle","elementsize":3})",
                  R"({"id":"fixedscaleoffset","scale":1e3,"offset":-1,"dtype":"<f4","astype":"|u1"})",
                  R"({"id":"bitround","keepbits":1})",
                  R"({"id":"adler32"})",
                  R"({"id":"crc32","location":"end"})",
                  R"({"id":"bz2","level":9})",
                  R"({"id":"fletcher32"})",
                  R"({"id":"packbits"})",
                  R"({"id":"jenkins_lookup3","initval":4294967295,"prefix":null})",
                  R"({"id":"lzma","format":1,"check":-1,"preset":null,"filters":null})",
                  R"({"id":"lzma","format":3,"filters":[{"id":3,"dist":4},{"id":33,"preset":2147483654,"lc":4}]})",
                  R"({"id":"lzma","format":3,"filters":[{"id":4,"start_offset":16},{"id":4611686018427387905}]})",
                  R"({"id":"lzma","format":2,"filters":[]})"});
}

std::string document(Choices& in) {
  const std::size_t rank = in.byte() % 4;
  return formatted(R"({{"zarr_format":2,"shape":{},"chunks":{},"dtype":"{}","compressor":{},"filters":{},)"
                   R"("fill_value":{},"order":{}{}}})",
                   in.extents(rank), in.extents(rank),
                   in.pick({"|u1", "<i2", ">f2", "<f4", ">f8", "|b1", "<c8", ">c16", "<M8[ns]", ">m8[10us]", "<u8",
                            "|S3", "i2", "<M8[0s]"}),
                   codec(in), in.byte() < 160 ? "null" : formatted("[{},{},{}]", codec(in), codec(in), codec(in)),
                   in.fill(), in.pick({R"("C")", R"("F")", "null"}),
                   in.pick({"", R"(,"dimension_separator":"/")", R"(,"dimension_separator":".")",
                            R"(,"dimension_separator":null)"}));
}

void run(std::string_view json) {
  try {
    const ArrayMetadata array = parse_v2_array(json);
    fuzz::check_array(array);
    fuzz::check_last_chunk(array);
    fuzz::require(array.shards.empty() && array.zarr_format == 2 && !array.keys.prefix_c, "v2 has no shards");
  } catch (const Error& e) {
    fuzz::check_error(e);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::run_document({reinterpret_cast<const char*>(data), size}, document, run);
  return 0;
}
