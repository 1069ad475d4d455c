#include "damacy/zarr/detail/lzma_options.h"

#include <limits>
#include <string_view>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

using json::Kind;
using json::Value;

constexpr std::uint32_t kUsualPreset = 6;

Error unsupported(const Value& at, std::string_view what) {
  return at.unsupported(formatted("codec 'lzma': {} is not supported", what), "codec-option");
}

bool is_lzma(std::uint64_t id) {
  return id == LzmaFilter::kLzma1 || id == LzmaFilter::kLzma2;
}

bool is_known(std::uint64_t id) {
  return is_lzma(id) || id == LzmaFilter::kDelta || (id >= LzmaFilter::kFirstBranch && id <= LzmaFilter::kLastBranch);
}

std::uint32_t option(const Value& filter, std::string_view name, std::uint32_t otherwise, std::uint32_t min = 0) {
  const auto found = filter.find(name);
  return found ? parse_u32(*found, min) : otherwise;
}

// Options that steer only an encoder (mode, nice_len, mf, depth) are not looked at.
LzmaFilter parse_filter(const Value& value) {
  const Value id = value.expect(Kind::object).at("id");
  LzmaFilter filter{.id = static_cast<std::uint64_t>(id.integer(0))};
  if (!is_known(filter.id)) throw unsupported(id, formatted("filter {}", filter.id));
  filter.distance = option(value, "dist", 1, 1);
  filter.start = option(value, "start_offset", 0);
  if (!is_lzma(filter.id)) return filter;
  const auto dictionary = lzma_dictionary(option(value, "preset", kUsualPreset));
  if (!dictionary) throw unsupported(value.at("preset"), "this preset");
  filter.dictionary = option(value, "dict_size", *dictionary);
  filter.literal_context = option(value, "lc", filter.literal_context);
  filter.literal_position = option(value, "lp", filter.literal_position);
  filter.position = option(value, "pb", filter.position);
  return filter;
}

std::vector<LzmaFilter> parse_filters(const Value& options) {
  const auto list = options.find("filters");
  if (!list || list->is(Kind::null)) throw unsupported(options, "format 3 (raw) without filters");
  std::vector<LzmaFilter> filters;
  for (const Value filter : list->expect(Kind::array)) filters.push_back(parse_filter(filter));
  if (!lzma_raw_memory(filters)) throw unsupported(*list, "this chain of filters");
  return filters;
}

}  // namespace

std::uint32_t parse_u32(const Value& number, std::uint32_t min) {
  const std::int64_t value = number.integer(min);
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (value > kMost) throw number.error(Status::inval, formatted("{} is more than {}", value, kMost), "limit");
  return static_cast<std::uint32_t>(value);
}

LzmaFormat parse_lzma(const std::optional<Value>& options) {
  const auto format = options ? options->find("format") : std::nullopt;
  const std::int64_t number = format ? format->integer(std::numeric_limits<std::int64_t>::min()) : 1;
  switch (number) {
    case 1:
      return {.container = LzmaFormat::Container::xz, .filters = {}};
    case 2:
      return {.container = LzmaFormat::Container::alone, .filters = {}};
    case 3:
      return {.container = LzmaFormat::Container::raw, .filters = parse_filters(*options)};
    default:
      throw unsupported(*format, formatted("format {}", number));
  }
}

}  // namespace damacy
