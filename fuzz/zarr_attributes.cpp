// Attributes of arrays: any text gives one of our errors, or names and packing that keep their promises.
#include <cmath>

#include "damacy/core/formatted.h"
#include "damacy/zarr/array_attributes.h"
#include "damacy/zarr/detail/cf_attributes.h"
#include "zarr_support.h"

namespace {

using namespace damacy;
using fuzz::Choices;
using fuzz::require;

std::string value(Choices& in) {
  return in.pick({"0",
                  "1",
                  "-1",
                  "0.01",
                  "273.15",
                  "[2]",
                  "[1,2]",
                  "NaN",
                  "Infinity",
                  "\"NaN\"",
                  "\"-Infinity\"",
                  "\"AAAAAICHw8A=\"",
                  "\"AAAAAAAA+H8=\"",
                  "\"AAAAAAAA8H8=\"",
                  "\"true\"",
                  "\"false\"",
                  "null",
                  "{}",
                  "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]",
                  "[NaN,-9999,\"Infinity\"]",
                  "1e400",
                  "-9999",
                  "65535",
                  "[\"y\",\"x\"]",
                  "[\"y\",null]",
                  "[[1]]",
                  "4e-400"});
}

std::string attributes(Choices& in) {
  std::string members;
  for (int i = in.byte() % 8; i > 0; --i)
    members += formatted("{}\"{}\":{}", members.empty() ? "" : ",",
                         in.pick({"scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned",
                                  "_ARRAY_DIMENSIONS", "units"}),
                         value(in));
  return formatted("{{{}}}", members);
}

void check(const ArrayAttributes& found, const ElementFacts& facts) {
  require(found.dims.empty() || found.dims.size() == facts.rank, "a name an axis");
  require(!found.cf || !found.cf_error, "either attributes or a problem");
  require(facts.dtype || (!found.cf && !found.cf_error), "nothing of unknown elements");
  if (found.cf_error) fuzz::check_error(*found.cf_error);
  const auto channel = found.channel_axis();
  require(!channel || *channel < facts.rank, "the channel axis is an axis");
  if (!found.cf) return;
  require(!found.cf->empty(), "something is said");
  require(!found.cf->scale_factor || (std::isfinite(*found.cf->scale_factor) && *found.cf->scale_factor != 0), "scale");
  require(!found.cf->add_offset || std::isfinite(*found.cf->add_offset), "offset");
  require(found.cf->missing.size() <= kMissingValues, "missing values");
  require(size_of(found.cf->missing_type) == size_of(*facts.dtype), "the type of missing values");
  for (const FillBytes& element : found.cf->missing)
    for (std::size_t i = size_of(*facts.dtype); i < element.size(); ++i)
      require(element[i] == std::byte{0}, "nothing behind an element");
}

ElementFacts facts_of(std::uint8_t choice) {
  ElementFacts facts{2, static_cast<Dtype>(choice % 17), {}};
  if (choice >= 204) facts.fill.emplace();
  if (choice >= 250) facts.dtype.reset();
  return facts;
}

}  // namespace

// The first byte says what the rest is, the second of what elements.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const ElementFacts facts = facts_of(data[1]);
  const std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  Choices in(rest);
  try {
    switch (data[0] % 5) {
      case 0:
        check(parse_v3_attributes(rest, facts), facts);
        break;
      case 1:
        check(parse_v3_attributes(formatted(R"({{"attributes":{}}})", rest), facts), facts);
        break;
      case 2:
        check(parse_v3_attributes(formatted(R"({{"attributes":{}}})", attributes(in)), facts), facts);
        break;
      case 3:
        check(parse_v2_attributes(rest, facts), facts);
        break;
      default:
        check(parse_v2_attributes(attributes(in), facts), facts);
    }
  } catch (const Error& e) {
    fuzz::check_error(e);
  }
  return 0;
}
