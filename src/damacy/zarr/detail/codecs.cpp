#include "damacy/zarr/detail/codecs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/zarr/detail/data_type.h"
#include "damacy/zarr/detail/lzma_options.h"
#include "damacy/zarr/detail/number_text.h"
#include "damacy/zarr/detail/permutation.h"

namespace damacy {
namespace {

using json::Kind;
using json::Value;

// A bytes->bytes codec that can be decoded.
struct Known {
  std::string_view v3_name;
  std::string_view v3_alias;
  std::string_view v2_id;
  CodecId id;
  std::array<std::string_view, 5> options;  // of compressors they steer an encoder only
};

constexpr Known kKnown[] = {
    {"zstd", "numcodecs.zstd", "zstd", CodecId::zstd, {"level", "checksum"}},
    {"blosc", "numcodecs.blosc", "blosc", CodecId::blosc, {"cname", "clevel", "shuffle", "typesize", "blocksize"}},
    {"gzip", "numcodecs.gzip", "gzip", CodecId::gzip, {"level"}},
    {"numcodecs.zlib", "", "zlib", CodecId::zlib, {"level"}},
    {"numcodecs.lz4", "", "lz4", CodecId::lz4, {"acceleration"}},
    {"numcodecs.bz2", "", "bz2", CodecId::bz2, {"level"}},
    {"numcodecs.lzma", "", "lzma", CodecId::lzma, {"format", "check", "preset", "filters"}},
    {"crc32c", "", "", CodecId::crc32c, {}},
    {"numcodecs.crc32c", "", "crc32c", CodecId::crc32c, {"location"}},
    {"numcodecs.crc32", "", "crc32", CodecId::crc32, {"location"}},
    {"numcodecs.adler32", "", "adler32", CodecId::adler32, {"location"}},
    {"numcodecs.fletcher32", "", "fletcher32", CodecId::fletcher32, {}},
    {"numcodecs.jenkins_lookup3", "", "jenkins_lookup3", CodecId::lookup3, {"initval", "prefix"}},
    {"numcodecs.shuffle", "", "shuffle", CodecId::shuffle, {"elementsize"}},
    {"", "", "bitround", CodecId::cast, {"keepbits"}},  // nothing to undo
    {"", "", "packbits", CodecId::packbits, {}},
    {"", "", "delta", CodecId::delta, {"dtype", "astype"}},
    {"", "", "fixedscaleoffset", CodecId::fixed_scale_offset, {"offset", "scale", "dtype", "astype"}},
    {"", "", "quantize", CodecId::cast, {"digits", "dtype", "astype"}},
    {"", "", "astype", CodecId::cast, {"encode_dtype", "decode_dtype"}},
};

const Known* find_v3(std::string_view name) {
  for (const Known& codec : kKnown)
    if ((!codec.v3_name.empty() && name == codec.v3_name) || (!codec.v3_alias.empty() && name == codec.v3_alias))
      return &codec;
  return nullptr;
}

const Known* find_v2(std::string_view id) {
  for (const Known& codec : kKnown)
    if (!codec.v2_id.empty() && id == codec.v2_id) return &codec;
  return nullptr;
}

bool has_option(const Known& codec, std::string_view key) {
  return !key.empty() && std::find(codec.options.begin(), codec.options.end(), key) != codec.options.end();
}

Error unknown_option(const Value& option, std::string_view codec) {
  return option.unsupported(formatted("option '{}' of codec '{}' is not supported", option.name(), codec),
                            "codec-option");
}

Error unknown_codec(const Value& at, std::string_view name) {
  return at.unsupported(formatted("codec '{}' is not supported", name), "codec");
}

Error bad_chain(const Value& at, std::string message) {
  return at.error(Status::decode, std::move(message), "codec-chain");
}

// Checksums lie at the end unless it is said otherwise; numcodecs' older two at the start.
bool parse_at_start(const std::optional<Value>& location, CodecId id) {
  if (!location) return id == CodecId::crc32 || id == CodecId::adler32;
  const auto place = location->expect(Kind::string).text();
  if (place != "start" && place != "end")
    throw location->unsupported(formatted("location '{}' of a checksum is not supported", place), "codec-option");
  return place == "start";
}

std::uint64_t parse_shuffle_width(const std::optional<Value>& elementsize) {
  return elementsize ? static_cast<std::uint64_t>(elementsize->integer(0)) : 4;
}

// numcodecs' jenkins_lookup3 has no text for a prefix other than none.
std::uint32_t parse_seed(const std::optional<Value>& initval, const std::optional<Value>& prefix) {
  if (prefix && !prefix->is(Kind::null))
    throw prefix->unsupported("a prefix of codec 'jenkins_lookup3' is not supported", "codec-option");
  return initval ? parse_u32(*initval, 0) : 0;
}

// What is decoded by plain code or a slow library, on the cores, whatever the device.
std::string slow_part(const CodecSpec& codec, const std::optional<Value>& cname) {
  if (codec.id == CodecId::blosc) {
    const bool is_old = cname && cname->is(Kind::string) && (cname->text() == "blosclz" || cname->text() == "snappy");
    return is_old ? formatted("{} of {}", codec.name, cname->text()) : std::string();
  }
  const bool is_slow = codec.id == CodecId::bz2 || codec.id == CodecId::lzma || codec.id == CodecId::fletcher32 ||
                       codec.id == CodecId::lookup3;
  return is_slow ? codec.name : std::string();
}

// The parameters that a bytes->bytes codec takes from `options`.
CodecSpec bytes_codec(const Known& known, std::string_view name, const std::optional<Value>& options) {
  const auto option = [&](std::string_view key) { return options ? options->find(key) : std::nullopt; };
  CodecSpec codec{.id = known.id, .name = std::string(name)};
  if (codec.is_checksum()) codec.checksum_at_start = parse_at_start(option("location"), known.id);
  if (known.id == CodecId::shuffle) codec.shuffle_width = parse_shuffle_width(option("elementsize"));
  if (known.id == CodecId::lookup3) codec.seed = parse_seed(option("initval"), option("prefix"));
  if (known.id == CodecId::lzma) codec.lzma = parse_lzma(options);
  codec.slow = slow_part(codec, option("cname"));
  return codec;
}

CodecSpec parse_v3_bytes_codec(const Extension& codec, const Known& known) {
  if (codec.configuration)
    for (const Value option : *codec.configuration)
      if (!has_option(known, option.name())) throw unknown_option(option, codec.name);
  return bytes_codec(known, codec.name, codec.configuration);
}

void check_keepbits(const Value& keepbits) {
  static_cast<void>(keepbits.integer(0));
}

Dims parse_permutation(const Value& order, std::size_t rank) {
  if (order.is(Kind::string) && (order.text() == "C" || order.text() == "F")) {
    Dims axes;
    const bool reversed = order.text() == "F";
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(reversed ? rank - 1 - i : i));
    return axes;
  }
  if (!order.is(Kind::array))
    throw bad_chain(order, formatted("expected a permutation of the axes, found {}", shown(order)));
  if (order.size() != rank)
    throw bad_chain(order, formatted("expected a permutation of {} axes, found {} entries", rank, order.size()));
  Dims axes;
  for (const Value entry : order) {
    const auto axis = entry.integer(0);
    if (axis >= static_cast<std::int64_t>(rank) || std::find(axes.begin(), axes.end(), axis) != axes.end())
      throw bad_chain(entry,
                      formatted("not a permutation of axes: axis {} is repeated or not below the rank {}", axis, rank));
    axes.push_back(axis);
  }
  return axes;
}

// Codecs of one list, in turn: array->array, one array->bytes, bytes->bytes.
class ChainReader {
 public:
  explicit ChainReader(const ChainPlace& place) : place_(place) { chain_.order = identity_order(place.rank); }

  void add(const Value& value) {
    const Extension codec = parse_extension(value, "codec-option");
    chain_.names.emplace_back(codec.name);
    if (codec.name == "transpose")
      add_transpose(codec);
    else if (codec.name == "bitround" || codec.name == "numcodecs.bitround")
      add_bitround(codec);
    else if (codec.name == "bytes")
      add_bytes(codec);
    else if (codec.name == "sharding_indexed")
      add_sharding(codec);
    else if (const Known* known = find_v3(codec.name))
      add_compressor(codec, *known);
    else
      throw unknown_codec(value, codec.name);
  }

  V3Chain finish(const Value& list) {
    if (!has_array_to_bytes_) throw bad_chain(list, "the list has no codec that turns the array into bytes");
    return std::move(chain_);
  }

 private:
  void expect_array(const Extension& codec) const {
    if (has_array_to_bytes_)
      throw bad_chain(codec.value,
                      formatted("codec '{}' works on arrays and cannot follow a codec that makes bytes", codec.name));
  }

  void add_transpose(const Extension& codec) {
    expect_array(codec);
    chain_.order = composed(chain_.order, parse_transpose(codec, place_.rank));
  }

  // Decoding is the identity.
  void add_bitround(const Extension& codec) {
    expect_array(codec);
    codec.allow({"keepbits"}, "codec-option");
    check_keepbits(codec.required("keepbits"));
  }

  void add_bytes(const Extension& codec) {
    expect_array(codec);
    has_array_to_bytes_ = true;
    chain_.big_endian = parse_big_endian(codec, place_.scalar_bytes);
  }

  void add_sharding(const Extension& codec) {
    expect_array(codec);
    codec.allow({"chunk_shape", "codecs", "index_codecs", "index_location"}, "codec-option");
    has_array_to_bytes_ = true;
    chain_.sharding = codec;
    chain_.names_to_sharding = chain_.names.size();
  }

  void add_compressor(const Extension& codec, const Known& known) {
    if (!has_array_to_bytes_)
      throw bad_chain(codec.value,
                      formatted("codec '{}' works on bytes, and no codec before it makes bytes", codec.name));
    chain_.codecs.push_back(parse_v3_bytes_codec(codec, known));
  }

  ChainPlace place_;
  V3Chain chain_;
  bool has_array_to_bytes_ = false;
};

}  // namespace

Dims parse_transpose(const Extension& transpose, std::size_t rank) {
  transpose.allow({"order"}, "codec-option");
  return parse_permutation(transpose.required("order"), rank);
}

bool parse_big_endian(const Extension& bytes, std::size_t scalar_bytes) {
  bytes.allow({"endian"}, "codec-option");
  if (scalar_bytes == 1) return false;
  const auto endian = bytes.option("endian");
  if (!endian) throw bad_chain(bytes.value, "codec 'bytes' needs 'endian' for elements of several bytes");
  const auto order = endian->expect(Kind::string).text();
  if (order != "little" && order != "big")
    throw endian->unsupported(formatted("endian '{}' is not supported", order), "codec-option");
  return order == "big";
}

V3Chain parse_v3_codecs(const Value& list, const ChainPlace& place) {
  check_codec_count(list.expect(Kind::array).size(), list);
  ChainReader reader(place);
  for (const Value codec : list) reader.add(codec);
  return reader.finish(list);
}

namespace {

StoredType parse_filter_type(const Value& type) {
  const V2Dtype parsed = parse_v2_dtype(type);
  if (!is_filter_dtype(parsed.dtype))
    throw type.unsupported(formatted("a filter of data type '{}' is not supported", type.text()), "data-type");
  return {parsed.dtype, parsed.big_endian};
}

// The running sum of `delta` is kept in the decoded type. NumPy uses a wider type unless the decoded type can represent
// every step.
bool holds_steps(Dtype sum, Dtype step) {
  const auto is_float = [](Dtype type) { return type == Dtype::f16 || type == Dtype::f32 || type == Dtype::f64; };
  if (sum == Dtype::boolean || step == Dtype::boolean) return false;
  if (!is_float(sum)) return !is_float(step);
  return sum == Dtype::f64 || size_of(step) < size_of(sum) || sum == step;
}

double parse_factor(const Value& number) {
  number.expect(Kind::number);
  const auto bits = number.is_finite_number() ? float_bits(number.text(), FloatFormat::f64) : std::nullopt;
  if (!bits) throw number.error(Status::decode, formatted("{} is beyond float64", shown(number)), "metadata");
  return std::bit_cast<double>(*bits);
}

FilterTypes parse_filter_types(const Value& codec, std::string_view decoded, std::string_view encoded) {
  const StoredType type = parse_filter_type(codec.at(decoded));
  const auto as = codec.find(encoded);
  return {type, as && !as->is(Kind::null) ? parse_filter_type(*as) : type};
}

void parse_filter(const Value& codec, CodecSpec& filter) {
  if (filter.id == CodecId::cast && filter.name == "astype") {
    filter.types = {parse_filter_type(codec.at("decode_dtype")), parse_filter_type(codec.at("encode_dtype"))};
    return;
  }
  filter.types = parse_filter_types(codec, "dtype", "astype");
  if (filter.id == CodecId::fixed_scale_offset)
    filter.scaling = {parse_factor(codec.at("scale")), parse_factor(codec.at("offset"))};
  if (filter.id == CodecId::delta && !holds_steps(filter.types.decoded.dtype, filter.types.encoded.dtype))
    throw codec.unsupported(formatted("codec 'delta' of {} by {} is not supported", name_of(filter.types.decoded.dtype),
                                      name_of(filter.types.encoded.dtype)),
                            "codec-option");
}

bool ignores_options(CodecId id) {
  return !CodecSpec{.id = id, .name = {}}.is_fixed_size();
}

}  // namespace

std::optional<CodecSpec> parse_v2_codec(const Value& codec) {
  const auto id = codec.at("id").expect(Kind::string).text();
  const Known* const known = find_v2(id);
  if (known == nullptr) throw unknown_codec(codec, id);
  if (!ignores_options(known->id))
    for (const Value option : codec)
      if (option.name() != "id" && !has_option(*known, option.name())) throw unknown_option(option, id);
  if (id == "bitround") {
    check_keepbits(codec.at("keepbits"));
    return std::nullopt;
  }
  CodecSpec spec = bytes_codec(*known, id, codec);
  if (spec.id >= CodecId::delta) parse_filter(codec, spec);
  return spec;
}

void check_codec_count(std::size_t count, const Value& list) {
  if (count > Limits::codecs)
    throw list.error(Status::inval, formatted("{} codecs, limit {}", count, Limits::codecs), "limit");
}

void check_stages(const CodecChain& codecs, std::uint64_t decoded, const Value& at) {
  const auto largest = codecs.largest_stage(decoded);
  if (!largest)
    throw bad_chain(at, formatted("the element size of a filter does not divide the {} bytes of a chunk", decoded));
  if (*largest > Limits::max_element_chunk_bytes)
    throw at.error(Status::inval,
                   formatted("a filter makes {} bytes, limit {}", *largest, Limits::max_element_chunk_bytes), "limit");
}

}  // namespace damacy
