// Element types of stored arrays; the first thirteen are also element types of batches.
// The integers of the batch types are public: Python's Dtype has the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace damacy {

enum class Dtype : std::uint8_t {
  f32 = 0,
  bf16 = 1,
  f16 = 2,
  f64 = 3,
  u8 = 4,
  i8 = 5,
  u16 = 6,
  i16 = 7,
  u32 = 8,
  i32 = 9,
  u64 = 10,
  i64 = 11,
  boolean = 12,
  // Stored arrays only: read as elements, never cast into a batch.
  complex64 = 13,
  complex128 = 14,
  datetime64 = 15,
  timedelta64 = 16,
};

inline constexpr int kBatchDtypes = 13;

[[nodiscard]] constexpr bool is_batch_dtype(Dtype type) noexcept {
  return static_cast<int>(type) < kBatchDtypes;
}

[[nodiscard]] constexpr std::size_t size_of(Dtype type) noexcept {
  constexpr std::size_t kBytes[] = {4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1, 8, 16, 8, 8};
  return kBytes[static_cast<int>(type)];
}

// The type of C++'s own elements; not of 16-bit floats, which C++20 has not.
template <class T>
inline constexpr std::optional<Dtype> kDtypeOf = std::nullopt;
template <>
inline constexpr std::optional<Dtype> kDtypeOf<float> = Dtype::f32;
template <>
inline constexpr std::optional<Dtype> kDtypeOf<double> = Dtype::f64;
template <>
inline constexpr std::optional<Dtype> kDtypeOf<bool> = Dtype::boolean;
template <>
inline constexpr std::optional<Dtype> kDtypeOf<std::uint8_t> = Dtype::u8;
template <>
inline constexpr std::optional<Dtype> kDtypeOf<std::int8_t> = Dtype::i8;
template <>
inline constexpr std::optional<Dtype> kDtypeOf<std::uint16_t> = Dtype::u16;
template <>
inline constexpr std::optional<Dtype> kDtypeOf<std::int16_t> = Dtype::i16;
template <>
inline constexpr std::optional<Dtype> kDtypeOf<std::uint32_t> = Dtype::u32;
template <>
inline constexpr std::optional<Dtype> kDtypeOf<std::int32_t> = Dtype::i32;
template <>
inline constexpr std::optional<Dtype> kDtypeOf<std::uint64_t> = Dtype::u64;
template <>
inline constexpr std::optional<Dtype> kDtypeOf<std::int64_t> = Dtype::i64;

// Bytes of the part that a byte swap reverses: half of a complex number, else the whole element.
[[nodiscard]] constexpr std::size_t scalar_size_of(Dtype type) noexcept {
  return type == Dtype::complex64 || type == Dtype::complex128 ? size_of(type) / 2 : size_of(type);
}

// zarr v3's names: "float32", "uint16", "bool", "numpy.datetime64" …
[[nodiscard]] constexpr std::string_view name_of(Dtype type) noexcept {
  constexpr std::string_view kNames[] = {
      "float32",          "bfloat16", "float16", "float64", "uint8", "int8",      "uint16",     "int16",
      "uint32",           "int32",    "uint64",  "int64",   "bool",  "complex64", "complex128", "numpy.datetime64",
      "numpy.timedelta64"};
  return kNames[static_cast<int>(type)];
}

}  // namespace damacy
