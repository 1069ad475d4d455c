#include "damacy/batch/array_spec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "damacy/copy/block_copy.h"
#include "damacy/copy/finish.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"

namespace damacy {
namespace {

void refuse(std::string why) {
  throw Error(Status::inval, std::move(why), "arguments");
}

void check_numbers(const char* name, const ChannelNumbers& numbers) {
  if (numbers.values.empty() || numbers.values.size() > Limits::indices_per_axis)
    refuse(formatted("{} must have 1 to {} numbers (got {})", name, Limits::indices_per_axis, numbers.values.size()));
  for (const double value : numbers.values)
    if (!std::isfinite(value)) refuse(formatted("{} must be finite (got {})", name, value));
}

void check_value(const char* name, const std::optional<Number>& value, Dtype dtype) {
  if (value && !fits(*value, dtype))
    refuse(formatted("{} must be integers in the range of {} (got {})", name, short_name_of(dtype), text_of(*value)));
}

// As far as both are there.
bool is_above(const std::optional<Number>& low, const std::optional<Number>& high) {
  if (!low || !high) return false;
  if (std::holds_alternative<double>(*low) || std::holds_alternative<double>(*high))
    return as_double(*low) > as_double(*high);
  return std::visit(
      [](const auto a, const auto b) {
        if constexpr (std::is_integral_v<decltype(a)> && std::is_integral_v<decltype(b)>)
          return std::cmp_greater(a, b);
        else
          return false;
      },
      *low, *high);
}

}  // namespace

std::uint64_t bits_of(const Number& value, Dtype dtype) {
  std::uint64_t bits = 0;
  const auto place = [&](const auto stored, Dtype from) {
    BlockCopy copy;
    copy.op = {from, dtype};
    run_block_copy(copy, std::as_bytes(std::span(&stored, 1)),
                   std::as_writable_bytes(std::span(&bits, 1)).first(size_of(dtype)));
  };
  if (const auto* const real = std::get_if<double>(&value)) place(*real, Dtype::f64);
  if (const auto* const integer = std::get_if<std::int64_t>(&value)) place(*integer, Dtype::i64);
  if (const auto* const natural = std::get_if<std::uint64_t>(&value)) place(*natural, Dtype::u64);
  return bits;
}

double as_double(const Number& value) noexcept {
  return std::visit([](const auto v) { return static_cast<double>(v); }, value);
}

bool fits(const Number& value, Dtype dtype) noexcept {
  if (is_float(dtype)) return !std::isnan(as_double(value));
  if (const auto* const real = std::get_if<double>(&value)) {
    if (*real != std::trunc(*real) || std::abs(*real) >= 0x1p63) return false;
    return fits(Number(static_cast<std::int64_t>(*real)), dtype);
  }
  const bool is_signed = dtype == Dtype::i8 || dtype == Dtype::i16 || dtype == Dtype::i32 || dtype == Dtype::i64;
  const int bits = dtype == Dtype::boolean ? 1 : static_cast<int>(8 * size_of(dtype)) - (is_signed ? 1 : 0);
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max() >> (64 - bits);
  if (const auto* const natural = std::get_if<std::uint64_t>(&value)) return *natural <= most;
  const std::int64_t integer = std::get<std::int64_t>(value);
  if (integer >= 0) return static_cast<std::uint64_t>(integer) <= most;
  return is_signed && static_cast<std::uint64_t>(-(integer + 1)) <= most;
}

std::string text_of(const Number& value) {
  return std::visit([](const auto v) { return formatted("{}", v); }, value);
}

std::string text_of(const AxisKey& key) {
  return key.name.empty() ? formatted("{}", key.place) : formatted("'{}'", key.name);
}

std::string_view short_name_of(Dtype dtype) noexcept {
  constexpr std::string_view kNames[kBatchDtypes] = {"f32", "bf16", "f16", "f64", "u8",  "i8",  "u16",
                                                     "i16", "u32",  "i32", "u64", "i64", "bool"};
  return kNames[static_cast<int>(dtype)];
}

void check_spec(const ArraySpec& spec, Dtype dtype) {
  check_numbers("scale", spec.scale);
  check_numbers("offset", spec.offset);
  check_value("clip", spec.clip_low, dtype);
  check_value("clip", spec.clip_high, dtype);
  if (is_above(spec.clip_low, spec.clip_high))
    refuse(formatted("clip must have low <= high (got {} and {})", text_of(*spec.clip_low), text_of(*spec.clip_high)));
  if (spec.missing && !is_float(dtype)) check_value("missing", spec.missing, dtype);
  for (const Pad& pad : spec.pad)
    if (pad.border == Border::constant && !is_float(dtype)) check_value("pad", pad.value, dtype);
  if (spec.channels.size() > Limits::indices_per_axis)
    refuse(formatted("channels has {} indices, the limit is {}", spec.channels.size(), Limits::indices_per_axis));
  if (!spec.order) return;
  for (std::size_t i = 0; i < spec.order->size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if ((*spec.order)[i] && (*spec.order)[i] == (*spec.order)[k])
        refuse(formatted("order: {} occurs twice", text_of(*(*spec.order)[i])));
}

}  // namespace damacy
