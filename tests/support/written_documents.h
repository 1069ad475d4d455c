// Documents as zarr-python 3.1 and tensorstore write them, word for word. For tests only.
#pragma once

#include <string_view>

namespace damacy::for_tests {

inline constexpr std::string_view kPlain3 =
    R"({"shape":[10,7],"data_type":"uint16","chunk_grid":{"name":"regular","configuration":{"chun)"
    R"(k_shape":[4,3]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}})"
    R"(,"fill_value":0,"codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"zs)"
    R"(td","configuration":{"level":0,"checksum":false}}],"attributes":{},"zarr_format":3,"node_t)"
    R"(ype":"array","storage_transformers":[]})";

inline constexpr std::string_view kBlosc3 =
    R"({"shape":[10,7],"data_type":"float32","chunk_grid":{"name":"regular","configuration":{"chu)"
    R"(nk_shape":[4,3]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"})"
    R"(},"fill_value":"NaN","codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name)"
    R"(":"blosc","configuration":{"typesize":4,"cname":"lz4","clevel":5,"shuffle":"bitshuffle","b)"
    R"(locksize":0}}],"attributes":{},"zarr_format":3,"node_type":"array","storage_transformers":)"
    R"([]})";

inline constexpr std::string_view kSharded =
    R"({"shape":[100,70],"data_type":"float64","chunk_grid":{"name":"regular","configuration":{"c)"
    R"(hunk_shape":[40,30]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":)"
    R"("/"}},"fill_value":-0.0,"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape)"
    R"(":[10,15],"codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","c)"
    R"(onfiguration":{"level":3,"checksum":false}}],"index_codecs":[{"name":"bytes","configuratio)"
    R"(n":{"endian":"little"}},{"name":"crc32c"}],"index_location":"end"}}],"attributes":{"a":NaN)"
    R"(},"dimension_names":["y","x"],"zarr_format":3,"node_type":"array","storage_transformers":[)"
    R"(]})";

inline constexpr std::string_view kTransposed =
    R"({"shape":[10,7],"data_type":"int32","chunk_grid":{"name":"regular","configuration":{"chunk)"
    R"(_shape":[4,3]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},)"
    R"("fill_value":0,"codecs":[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"byt)"
    R"(es","configuration":{"endian":"little"}},{"name":"gzip","configuration":{"level":1}},{"nam)"
    R"(e":"crc32c"}],"attributes":{},"zarr_format":3,"node_type":"array","storage_transformers":[)"
    R"(]})";

inline constexpr std::string_view kV2Keys =
    R"({"shape":[10,7],"data_type":"bool","chunk_grid":{"name":"regular","configuration":{"chunk_)"
    R"(shape":[4,3]}},"chunk_key_encoding":{"name":"v2","configuration":{"separator":"/"}},"fill_)"
    R"(value":false,"codecs":[{"name":"bytes"}],"attributes":{},"zarr_format":3,"node_type":"arra)"
    R"(y","storage_transformers":[]})";

inline constexpr std::string_view kComplex =
    R"({"shape":[10,7],"data_type":"complex64","chunk_grid":{"name":"regular","configuration":{"c)"
    R"(hunk_shape":[4,3]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/)"
    R"("}},"fill_value":[1.0,"Infinity"],"codecs":[{"name":"bytes","configuration":{"endian":"lit)"
    R"(tle"}},{"name":"zstd","configuration":{"level":0,"checksum":false}}],"attributes":{},"zarr)"
    R"(_format":3,"node_type":"array","storage_transformers":[]})";

inline constexpr std::string_view kDatetime3 =
    R"({"shape":[10],"data_type":{"name":"numpy.datetime64","configuration":{"unit":"us","scale_f)"
    R"(actor":10}},"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[4]}},"chunk_key)"
    R"(_encoding":{"name":"default","configuration":{"separator":"/"}},"fill_value":-922337203685)"
    R"(4775808,"codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","con)"
    R"(figuration":{"level":0,"checksum":false}}],"attributes":{},"zarr_format":3,"node_type":"ar)"
    R"(ray","storage_transformers":[]})";

inline constexpr std::string_view kScalar =
    R"({"shape":[],"data_type":"int8","chunk_grid":{"name":"regular","configuration":{"chunk_shap)"
    R"(e":[]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},"fill_va)"
    R"(lue":0,"codecs":[{"name":"bytes"},{"name":"zstd","configuration":{"level":0,"checksum":fal)"
    R"(se}}],"attributes":{},"zarr_format":3,"node_type":"array","storage_transformers":[]})";

inline constexpr std::string_view kString =
    R"({"shape":[3],"data_type":{"name":"fixed_length_utf32","configuration":{"length_bytes":16}})"
    R"(,"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[3]}},"chunk_key_encoding":)"
    R"({"name":"default","configuration":{"separator":"/"}},"fill_value":"","codecs":[{"name":"by)"
    R"(tes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":0,"check)"
    R"(sum":false}}],"attributes":{},"zarr_format":3,"node_type":"array","storage_transformers":[)"
    R"(]})";

inline constexpr std::string_view kVlen =
    R"({"shape":[3],"data_type":"string","chunk_grid":{"name":"regular","configuration":{"chunk_s)"
    R"(hape":[3]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},"fil)"
    R"(l_value":"","codecs":[{"name":"vlen-utf8","configuration":{}},{"name":"zstd","configuratio)"
    R"(n":{"level":0,"checksum":false}}],"attributes":{},"zarr_format":3,"node_type":"array","sto)"
    R"(rage_transformers":[]})";

inline constexpr std::string_view kStruct =
    R"({"shape":[3],"data_type":{"name":"structured","configuration":{"fields":[["a","int32"],["b)"
    R"(","float64"]]}},"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[3]}},"chunk)"
    R"(_key_encoding":{"name":"default","configuration":{"separator":"/"}},"fill_value":"AAAAAAAA)"
    R"(AAAAAAAA","codecs":[{"name":"bytes"},{"name":"zstd","configuration":{"level":0,"checksum":)"
    R"(false}}],"attributes":{},"zarr_format":3,"node_type":"array","storage_transformers":[]})";

inline constexpr std::string_view kNumcodecsLz4 =
    R"({"shape":[3],"data_type":"uint8","chunk_grid":{"name":"regular","configuration":{"chunk_sh)"
    R"(ape":[3]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},"fill)"
    R"(_value":0,"codecs":[{"name":"bytes"},{"name":"numcodecs.lz4","configuration":{"acceleratio)"
    R"(n":2}}],"attributes":{},"zarr_format":3,"node_type":"array","storage_transformers":[]})";

inline constexpr std::string_view kNumcodecsChecksum =
    R"({"shape":[3],"data_type":"uint8","chunk_grid":{"name":"regular","configuration":{"chunk_sh)"
    R"(ape":[3]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},"fill)"
    R"(_value":0,"codecs":[{"name":"bytes"},{"name":"numcodecs.crc32c","configuration":{"location)"
    R"(":"start"}},{"name":"numcodecs.zlib","configuration":{"level":2}}],"attributes":{},"zarr_f)"
    R"(ormat":3,"node_type":"array","storage_transformers":[]})";

inline constexpr std::string_view kNumcodecsDelta =
    R"({"shape":[3],"data_type":"int32","chunk_grid":{"name":"regular","configuration":{"chunk_sh)"
    R"(ape":[3]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},"fill)"
    R"(_value":0,"codecs":[{"name":"numcodecs.delta","configuration":{"dtype":"<i4"}},{"name":"by)"
    R"(tes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":0,"check)"
    R"(sum":false}}],"attributes":{},"zarr_format":3,"node_type":"array","storage_transformers":[)"
    R"(]})";

inline constexpr std::string_view kShardStart =
    R"({"shape":[64,64],"data_type":"int32","chunk_grid":{"name":"regular","configuration":{"chun)"
    R"(k_shape":[32,32]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/")"
    R"(}},"fill_value":0,"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[16,)"
    R"(16],"codecs":[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"bytes","config)"
    R"(uration":{"endian":"big"}},{"name":"zstd","configuration":{"level":0,"checksum":false}}],")"
    R"(index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"crc32c"}],"in)"
    R"(dex_location":"start"}}],"attributes":{},"zarr_format":3,"node_type":"array","storage_tran)"
    R"(sformers":[]})";

inline constexpr std::string_view kNested =
    R"({"shape":[64,64],"data_type":"int32","chunk_grid":{"name":"regular","configuration":{"chun)"
    R"(k_shape":[32,32]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/")"
    R"(}},"fill_value":0,"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[16,)"
    R"(16],"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[8,8],"codecs":[{")"
    R"(name":"bytes","configuration":{"endian":"little"}}],"index_codecs":[{"name":"bytes","confi)"
    R"(guration":{"endian":"little"}},{"name":"crc32c"}],"index_location":"end"}}],"index_codecs")"
    R"(:[{"name":"bytes","configuration":{"endian":"little"}},{"name":"crc32c"}],"index_location")"
    R"(:"end"}}],"attributes":{},"zarr_format":3,"node_type":"array","storage_transformers":[]})";

inline constexpr std::string_view kPlain2 =
    R"({"shape":[10,7],"chunks":[4,3],"dtype":"<u2","fill_value":0,"order":"C","filters":null,"di)"
    R"(mension_separator":".","compressor":{"id":"zstd","level":0},"zarr_format":2})";

inline constexpr std::string_view kBlosc2 =
    R"({"shape":[10,7],"chunks":[4,3],"dtype":">f4","fill_value":0.0,"order":"F","filters":null,")"
    R"(dimension_separator":"/","compressor":{"id":"blosc","cname":"zstd","clevel":5,"shuffle":2,)"
    R"("blocksize":0},"zarr_format":2})";

inline constexpr std::string_view kLz42 =
    R"({"shape":[10,7],"chunks":[4,3],"dtype":"|b1","fill_value":false,"order":"C","filters":null)"
    R"(,"dimension_separator":".","compressor":{"id":"lz4","acceleration":1},"zarr_format":2})";

inline constexpr std::string_view kChecksum2 =
    R"({"shape":[10,7],"chunks":[4,3],"dtype":"<f8","fill_value":"NaN","order":"C","filters":[{"i)"
    R"(d":"crc32c"}],"dimension_separator":".","compressor":{"id":"zlib","level":1},"zarr_format")"
    R"(:2})";

inline constexpr std::string_view kDelta2 =
    R"({"shape":[10],"chunks":[4],"dtype":"<i4","fill_value":0,"order":"C","filters":[{"id":"delt)"
    R"(a","dtype":"<i4","astype":"<i4"}],"dimension_separator":".","compressor":null,"zarr_format)"
    R"(":2})";

inline constexpr std::string_view kDatetime2 =
    R"({"shape":[10],"chunks":[4],"dtype":"<M8[ns]","fill_value":-9223372036854775808,"order":"C")"
    R"(,"filters":null,"dimension_separator":".","compressor":{"id":"zstd","level":0},"zarr_forma)"
    R"(t":2})";

inline constexpr std::string_view kBytes2 =
    R"({"shape":[10],"chunks":[4],"dtype":"|S5","fill_value":"","order":"C","filters":null,"dimen)"
    R"(sion_separator":".","compressor":{"id":"zstd","level":0},"zarr_format":2})";

inline constexpr std::string_view kTensorstoreSharded =
    R"({"chunk_grid":{"configuration":{"chunk_shape":[64,64]},"name":"regular"},"chunk_key_encodi)"
    R"(ng":{"name":"default"},"codecs":[{"configuration":{"chunk_shape":[32,32],"codecs":[{"confi)"
    R"(guration":{"endian":"little"},"name":"bytes"},{"configuration":{"blocksize":0,"clevel":5,")"
    R"(cname":"zstd","shuffle":"shuffle","typesize":2},"name":"blosc"}],"index_codecs":[{"configu)"
    R"(ration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}],"index_location":"start"},")"
    R"(name":"sharding_indexed"}],"data_type":"bfloat16","fill_value":0.0,"node_type":"array","sh)"
    R"(ape":[100,100],"zarr_format":3})";

inline constexpr std::string_view kTensorstore3 =
    R"({"chunk_grid":{"configuration":{"chunk_shape":[64,64]},"name":"regular"},"chunk_key_encodi)"
    R"(ng":{"name":"default"},"codecs":[{"configuration":{"order":[1,0]},"name":"transpose"},{"co)"
    R"(nfiguration":{"endian":"big"},"name":"bytes"},{"configuration":{"level":5},"name":"gzip"}])"
    R"(,"data_type":"int16","fill_value":3,"node_type":"array","shape":[100,100],"zarr_format":3})";

inline constexpr std::string_view kTensorstore2 =
    R"({"chunks":[64,64],"compressor":{"blocksize":0,"clevel":5,"cname":"lz4","id":"blosc","shuff)"
    R"(le":1},"dimension_separator":".","dtype":"<f4","fill_value":null,"filters":null,"order":"C)"
    R"(","shape":[100,100],"zarr_format":2})";

inline constexpr std::string_view kTensorstoreF =
    R"({"chunks":[64,64],"compressor":null,"dimension_separator":"/","dtype":">u2","fill_value":n)"
    R"(ull,"filters":null,"order":"F","shape":[100,100],"zarr_format":2})";

inline constexpr std::string_view kGroup3 =
    R"({"attributes":{"q":Infinity},"zarr_format":3,"consolidated_metadata":{"kind":"inline","mus)"
    R"(t_understand":false,"metadata":{"x":{"attributes":{},"zarr_format":3,"consolidated_metadat)"
    R"(a":{"kind":"inline","must_understand":false,"metadata":{}},"node_type":"group"},"x/y":{"sh)"
    R"(ape":[3],"data_type":"uint8","chunk_grid":{"name":"regular","configuration":{"chunk_shape")"
    R"(:[3]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},"fill_val)"
    R"(ue":0,"codecs":[{"name":"bytes"},{"name":"zstd","configuration":{"level":0,"checksum":fals)"
    R"(e}}],"attributes":{"n":NaN},"zarr_format":3,"node_type":"array","storage_transformers":[]})"
    R"(}},"node_type":"group"})";

inline constexpr std::string_view kConsolidated2 =
    R"({"metadata":{".zgroup":{"zarr_format":2},".zattrs":{"q":Infinity},"x/.zattrs":{},"x/.zgrou)"
    R"(p":{"zarr_format":2,"consolidated_metadata":{"metadata":{},"must_understand":false,"kind":)"
    R"("inline"}},"x/y/.zattrs":{"n":NaN},"x/y/.zarray":{"shape":[3],"chunks":[3],"dtype":"|u1",")"
    R"(fill_value":0,"order":"C","filters":null,"dimension_separator":".","compressor":{"id":"blo)"
    R"(sc","cname":"lz4","clevel":5,"shuffle":1,"blocksize":0},"zarr_format":2}},"zarr_consolidat)"
    R"(ed_format":1})";

inline constexpr std::string_view kAttributes2 = R"({"q":Infinity})";

}  // namespace damacy::for_tests
