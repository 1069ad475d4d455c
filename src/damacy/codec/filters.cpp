#include "damacy/codec/filters.h"

#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "damacy/copy/convert.h"

namespace damacy {

using detail::ByteSpan;
using detail::failed;
using detail::MutableByteSpan;

namespace {

// Calls `use` with a value of the type's C++ element; never for a type that filters do not know.
template <class Use>
void with_element(Dtype dtype, Use use) {
  switch (dtype) {
    case Dtype::boolean:
      return use(Bool{});
    case Dtype::u8:
      return use(std::uint8_t{});
    case Dtype::i8:
      return use(std::int8_t{});
    case Dtype::u16:
      return use(std::uint16_t{});
    case Dtype::i16:
      return use(std::int16_t{});
    case Dtype::u32:
      return use(std::uint32_t{});
    case Dtype::i32:
      return use(std::int32_t{});
    case Dtype::u64:
      return use(std::uint64_t{});
    case Dtype::i64:
      return use(std::int64_t{});
    case Dtype::f16:
      return use(F16{});
    case Dtype::f32:
      return use(float{});
    case Dtype::f64:
      return use(double{});
    default:
      return;
  }
}

bool is_swapped(const StoredType& type) noexcept {
  return type.big_endian != (std::endian::native == std::endian::big);
}

template <class T>
T load(const std::byte* from, bool swapped) noexcept {
  UnsignedOf<sizeof(T)> bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits_as<T>(swapped ? byte_swapped(bits) : bits);
}

template <class T>
void store(std::byte* to, T value, bool swapped) noexcept {
  auto bits = bits_as<UnsignedOf<sizeof(T)>>(value);
  if (swapped) bits = byte_swapped(bits);
  std::memcpy(to, &bits, sizeof bits);
}

// NumPy keeps what fits of a NaN's payload; the pipeline's conversions do not.
F16 half_of(double v) noexcept {
  const auto bits = bits_as<std::uint64_t>(v);
  if (v == v) return convert_detail::to_f16(convert_detail::odd_f32(v));
  const auto payload = static_cast<std::uint16_t>(bits >> 42 & 0x3ff);
  return {static_cast<std::uint16_t>((bits >> 48 & 0x8000) | 0x7c00 | (payload == 0 ? 1 : payload))};
}

double double_of(F16 v) noexcept {
  if ((v.bits & 0x7fff) <= 0x7c00) return static_cast<double>(convert_detail::to_f32(v));
  const std::uint64_t sign = std::uint64_t{v.bits & 0x8000u} << 48;
  return bits_as<double>(sign | 0x7ff0000000000000u | std::uint64_t{v.bits & 0x3ffu} << 42);
}

// Toward zero; what does not fit is the lowest value, which is what x86-64 gives.
template <class Int>
Int truncated_or_lowest(double v) noexcept {
  constexpr double kBeyond = sizeof(Int) == 4 ? 0x1p31 : 0x1p63;
  constexpr double kBelow = sizeof(Int) == 4 ? -0x1p31 - 1 : -0x1p63;
  const bool fits = v < kBeyond && (sizeof(Int) == 4 ? v > kBelow : v >= kBelow);
  return fits ? static_cast<Int>(v) : std::numeric_limits<Int>::min();
}

template <class To>
To integer_of(double v) noexcept {
  using Signed = std::conditional_t<sizeof(To) == 8, std::int64_t, std::int32_t>;
  constexpr double kHalf = sizeof(To) == 8 ? 0x1p63 : 0x1p31;
  constexpr auto kTop = static_cast<std::make_unsigned_t<Signed>>(std::numeric_limits<Signed>::min());
  if constexpr (std::is_unsigned_v<To> && sizeof(To) >= 4) {
    if (v >= kHalf) return static_cast<To>(static_cast<To>(truncated_or_lowest<Signed>(v - kHalf)) ^ kTop);
  }
  return static_cast<To>(truncated_or_lowest<Signed>(v));
}

template <class To, class From>
To cast(From v) noexcept {
  if constexpr (std::is_same_v<To, From> && !std::is_same_v<To, Bool>)
    return v;
  else if constexpr (std::is_same_v<From, Bool>)
    return cast<To>(static_cast<std::uint8_t>(v.byte != 0));
  else if constexpr (std::is_same_v<To, Bool>)
    return {static_cast<std::uint8_t>(convert_detail::is_nonzero(v))};
  else if constexpr (std::is_same_v<From, F16>)
    return cast<To>(double_of(v));
  else if constexpr (std::is_same_v<To, F16> && std::is_integral_v<From>)
    return half_of(static_cast<double>(static_cast<float>(v)));
  else if constexpr (std::is_same_v<To, F16>)
    return half_of(static_cast<double>(v));
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>)
    return integer_of<To>(static_cast<double>(v));
  else
    return static_cast<To>(v);
}

// Calls `each(from, in, to, out, count)` with both C++ types, pointers and the number of elements.
template <class Each>
DecodeResult for_types(const FilterTypes& types, ByteSpan in, MutableByteSpan out, Each each) {
  const std::size_t encoded = size_of(types.encoded.dtype);
  const std::size_t decoded = size_of(types.decoded.dtype);
  if (!is_filter_dtype(types.encoded.dtype) || !is_filter_dtype(types.decoded.dtype))
    return failed(DecodeStatus::unsupported, "a filter of this element type");
  if (in.size() % encoded != 0)
    return failed(DecodeStatus::size, "bytes before a filter that are no whole elements", in.size(), encoded);
  const std::size_t count = in.size() / encoded;
  if (out.size() != count * decoded)
    return failed(DecodeStatus::size, "bytes behind a filter", count * decoded, out.size());
  with_element(types.encoded.dtype, [&](auto from) {
    with_element(types.decoded.dtype, [&](auto to) { each(from, in.data(), to, out.data(), count); });
  });
  return {};
}

template <class Sum>
Sum added(Sum a, Sum b) noexcept {
  if constexpr (std::is_integral_v<Sum>) {
    using Unsigned = std::make_unsigned_t<Sum>;
    return static_cast<Sum>(static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
  } else if constexpr (std::is_same_v<Sum, F16>) {
    return half_of(double_of(a) + double_of(b));
  } else if constexpr (std::is_same_v<Sum, Bool>) {
    return {static_cast<std::uint8_t>(a.byte | b.byte)};
  } else {
    return a + b;
  }
}

// In the type that NumPy computes in.
template <class From>
auto scaled(From v, const Scaling& scaling) noexcept {
  if constexpr (std::is_same_v<From, F16>) {
    const double scale = double_of(half_of(scaling.scale));
    const double offset = double_of(half_of(scaling.offset));
    return half_of(double_of(half_of(double_of(v) / scale)) + offset);
  } else if constexpr (std::is_same_v<From, float>) {
    return v / static_cast<float>(scaling.scale) + static_cast<float>(scaling.offset);
  } else {
    return cast<double>(v) / scaling.scale + scaling.offset;
  }
}

}  // namespace

DecodeResult decode_cast(const FilterTypes& types, ByteSpan in, MutableByteSpan out) {
  const bool from_swapped = is_swapped(types.encoded), to_swapped = is_swapped(types.decoded);
  return for_types(
      types, in, out, [&](auto from, const std::byte* source, auto to, std::byte* target, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
          store(target + i * sizeof to,
                cast<decltype(to)>(load<decltype(from)>(source + i * sizeof from, from_swapped)), to_swapped);
      });
}

DecodeResult decode_delta(const FilterTypes& types, ByteSpan in, MutableByteSpan out) {
  const bool from_swapped = is_swapped(types.encoded), to_swapped = is_swapped(types.decoded);
  return for_types(
      types, in, out, [&](auto from, const std::byte* source, auto to, std::byte* target, std::size_t count) {
        decltype(to) sum{};
        for (std::size_t i = 0; i < count; ++i) {
          const auto step = cast<decltype(to)>(load<decltype(from)>(source + i * sizeof from, from_swapped));
          sum = i == 0 ? step : added(sum, step);  // 0 + -0.0 would lose the sign
          store(target + i * sizeof to, sum, to_swapped);
        }
      });
}

DecodeResult decode_scaled(const FilterTypes& types, const Scaling& scaling, ByteSpan in, MutableByteSpan out) {
  const bool from_swapped = is_swapped(types.encoded), to_swapped = is_swapped(types.decoded);
  return for_types(types, in, out,
                   [&](auto from, const std::byte* source, auto to, std::byte* target, std::size_t count) {
                     for (std::size_t i = 0; i < count; ++i) {
                       const auto value = scaled(load<decltype(from)>(source + i * sizeof from, from_swapped), scaling);
                       store(target + i * sizeof to, cast<decltype(to)>(value), to_swapped);
                     }
                   });
}

std::uint64_t packbits_decoded_size(ByteSpan encoded) noexcept {
  if (encoded.size() < 2) return 0;
  const auto padding = static_cast<std::uint64_t>(encoded[0]);
  return 8 * (encoded.size() - 1) - (padding < 8 ? padding : 0);
}

DecodeResult decode_packbits(ByteSpan in, MutableByteSpan out) {
  const std::uint64_t expected = packbits_encoded_size(out.size());
  if (in.size() != expected) return failed(DecodeStatus::size, "packbits: size", in.size(), expected);
  const std::uint64_t padding = 8 * (expected - 1) - out.size();
  if (static_cast<std::uint64_t>(in[0]) != padding)
    return failed(DecodeStatus::frame, "packbits: bits of padding", static_cast<std::uint64_t>(in[0]), padding);
  for (std::uint64_t i = 0; i < out.size(); ++i) out[i] = in[1 + i / 8] >> (7 - i % 8) & std::byte{1};
  return {};
}

DecodeResult decode_shuffle(std::uint64_t width, ByteSpan in, MutableByteSpan out) {
  if (in.size() != out.size()) return failed(DecodeStatus::size, "shuffle: size", in.size(), out.size());
  if (width <= 1) {
    if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
    return {};
  }
  if (in.size() % width != 0)
    return failed(DecodeStatus::size, "shuffle: bytes that are no whole elements", in.size(), width);
  const std::uint64_t count = in.size() / width;
  for (std::uint64_t k = 0; k < width; ++k)
    for (std::uint64_t i = 0; i < count; ++i) out[i * width + k] = in[k * count + i];
  return {};
}

}  // namespace damacy
