#include "damacy/zarr/detail/codecs.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "damacy/core/text.h"
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
  std::array<std::string_view, 5> options;  // they steer an encoder only, except `location`
};

constexpr Known kKnown[] = {
    {"zstd", "numcodecs.zstd", "zstd", CodecId::zstd, {"level", "checksum"}},
    {"blosc", "numcodecs.blosc", "blosc", CodecId::blosc, {"cname", "clevel", "shuffle", "typesize", "blocksize"}},
    {"gzip", "numcodecs.gzip", "gzip", CodecId::gzip, {"level"}},
    {"numcodecs.zlib", "", "zlib", CodecId::zlib, {"level"}},
    {"numcodecs.lz4", "", "lz4", CodecId::lz4, {"acceleration"}},
    {"crc32c", "", "", CodecId::crc32c, {}},
    {"numcodecs.crc32c", "", "crc32c", CodecId::crc32c, {"location"}},
};

const Known* find_v3(std::string_view name) {
  for (const Known& codec : kKnown)
    if (name == codec.v3_name || (!codec.v3_alias.empty() && name == codec.v3_alias)) return &codec;
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
  return option.unsupported(text("option '", option.name(), "' of codec '", codec, "' is not supported"),
                            "codec-option");
}

Error unknown_codec(const Value& at, std::string_view name) {
  return at.unsupported(text("codec '", name, "' is not supported"), "codec");
}

Error bad_chain(const Value& at, std::string message) {
  return at.error(Status::decode, std::move(message), "codec-chain");
}

bool parse_location(const std::optional<Value>& location) {
  if (!location) return false;
  const auto place = location->expect(Kind::string).text();
  if (place != "start" && place != "end")
    throw location->unsupported(text("location '", place, "' of a checksum is not supported"), "codec-option");
  return place == "start";
}

CodecSpec parse_v3_bytes_codec(const Extension& codec, const Known& known) {
  if (codec.configuration)
    for (const Value option : *codec.configuration)
      if (!has_option(known, option.name())) throw unknown_option(option, codec.name);
  const bool at_start = has_option(known, "location") && parse_location(codec.option("location"));
  return {known.id, at_start, std::string(codec.name)};
}

Dims parse_permutation(const Value& order, std::size_t rank) {
  if (order.is(Kind::string) && (order.text() == "C" || order.text() == "F")) {
    Dims axes;
    const bool reversed = order.text() == "F";
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(reversed ? rank - 1 - i : i));
    return axes;
  }
  if (!order.is(Kind::array)) throw bad_chain(order, "expected a permutation of the axes");
  if (order.size() != rank)
    throw bad_chain(order, text("a permutation of ", rank, " axes has as many entries, found ", order.size()));
  Dims axes;
  for (const Value entry : order) {
    const auto axis = entry.integer(0);
    if (axis >= static_cast<std::int64_t>(rank) || std::find(axes.begin(), axes.end(), axis) != axes.end())
      throw bad_chain(entry, text("axis ", axis, " makes this no permutation of ", rank, " axes"));
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
    if (!has_array_to_bytes_) throw bad_chain(list, "no codec makes bytes of the array");
    return std::move(chain_);
  }

 private:
  void expect_array(const Extension& codec) const {
    if (has_array_to_bytes_)
      throw bad_chain(codec.value, text("codec '", codec.name, "' cannot follow one that makes bytes"));
  }

  void add_transpose(const Extension& codec) {
    expect_array(codec);
    chain_.order = composed(chain_.order, parse_transpose(codec, place_.rank));
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
      throw bad_chain(codec.value, text("codec '", codec.name, "' needs bytes, and nothing before it makes them"));
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
    throw endian->unsupported(text("endian '", order, "' is not supported"), "codec-option");
  return order == "big";
}

V3Chain parse_v3_codecs(const Value& list, const ChainPlace& place) {
  ChainReader reader(place);
  for (const Value codec : list.expect(Kind::array)) reader.add(codec);
  return reader.finish(list);
}

CodecSpec parse_v2_codec(const Value& codec) {
  const auto id = codec.at("id").expect(Kind::string).text();
  const Known* const known = find_v2(id);
  if (known == nullptr) throw unknown_codec(codec, id);
  const bool is_checksum = known->id == CodecId::crc32c;
  if (is_checksum)
    for (const Value option : codec)
      if (option.name() != "id" && !has_option(*known, option.name())) throw unknown_option(option, id);
  return {known->id, is_checksum && parse_location(codec.find("location")), std::string(id)};
}

}  // namespace damacy
