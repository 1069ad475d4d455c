// The loops of the row kernels, as templates that each instruction set compiles anew. Knows how to walk rows; what is
// done to an element is in convert.h.
//
// Everything here is inlined into a function with the attribute of the instruction set. One binary therefore has all
// variants, and only these functions use instructions that the processor may lack.
#pragma once

#include <array>
#include <cstring>
#include <utility>

#include "damacy/copy/convert.h"
#include "damacy/copy/detail/row_kernels.h"

namespace damacy::copy_detail {

template <Dtype kFrom, Dtype kTo, bool kSwap>
struct Cast {
  using Source = UnsignedOf<size_of(kFrom)>;
  [[gnu::always_inline]] static inline auto apply(Source bits) {
    if constexpr (kSwap) bits = byte_swapped(bits);
    return convert<Element<kTo>>(bits_as<Element<kFrom>>(bits));
  }
};

template <class Scalar>
struct Swap {
  using Source = Scalar;
  [[gnu::always_inline]] static inline Scalar apply(Scalar bits) { return byte_swapped(bits); }
};

template <class Op>
[[gnu::always_inline]] inline void cast_rows(const Rows& rows) {
  using Source = typename Op::Source;
  using Target = decltype(Op::apply(Source{}));
  std::byte* __restrict dst = rows.dst;
  const std::byte* __restrict src = rows.src;
  const std::size_t count = rows.count;  // a copy that no store can change
  for (std::size_t row = 0; row < rows.rows; ++row) {
    for (std::size_t i = 0; i < count; ++i) {
      Source bits;
      std::memcpy(&bits, src + i * sizeof(Source), sizeof bits);
      const Target result = Op::apply(bits);
      std::memcpy(dst + i * sizeof(Target), &result, sizeof result);
    }
    dst += rows.dst_pitch;
    src += rows.src_pitch;
  }
}

template <std::size_t kBytes>
void move_rows(const Rows& rows) {
  std::byte* dst = rows.dst;
  const std::byte* src = rows.src;
  for (std::size_t row = 0; row < rows.rows; ++row) {
    std::memcpy(dst, src, rows.count * kBytes);
    dst += rows.dst_pitch;
    src += rows.src_pitch;
  }
}

// An element is `kScalars` scalars, each reversed by itself.
template <class Scalar, std::size_t kScalars>
[[gnu::always_inline]] inline void swap_rows(const Rows& rows) {
  cast_rows<Swap<Scalar>>({rows.dst, rows.src, rows.count * kScalars, rows.rows, rows.dst_pitch, rows.src_pitch});
}

// Kernels: a template of static functions cast<Op>, swap<Scalar, kScalars>, made by DAMACY_ROW_KERNELS.
template <class Kernels, bool kSwap, int... kPairs>
constexpr auto cast_table(std::integer_sequence<int, kPairs...>) {
  return std::array<RowKernel, sizeof...(kPairs)>{
      Kernels::template cast<static_cast<Dtype>(kPairs / kBatchDtypes), static_cast<Dtype>(kPairs % kBatchDtypes),
                             kSwap>()...};
}

template <class Kernels>
constexpr RowKernel same_type_kernel(Dtype type, bool swap) {
  const std::size_t bytes = size_of(type);
  if (!swap || bytes == 1) {
    constexpr RowKernel kMove[] = {move_rows<1>, move_rows<2>, move_rows<4>, move_rows<8>, move_rows<16>};
    return kMove[bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : bytes == 8 ? 3 : 4];
  }
  if (bytes == 2) return Kernels::template swap<std::uint16_t, 1>;
  if (bytes == 4) return Kernels::template swap<std::uint32_t, 1>;
  if (bytes == 16) return Kernels::template swap<std::uint64_t, 2>;
  return scalar_size_of(type) == 4 ? Kernels::template swap<std::uint32_t, 2>
                                   : Kernels::template swap<std::uint64_t, 1>;
}

template <class Kernels>
RowKernel pick_row_kernel(const CopyOp& op) noexcept {
  using Pairs = std::make_integer_sequence<int, kBatchDtypes * kBatchDtypes>;
  static constexpr auto kAsIs = cast_table<Kernels, false>(Pairs{});
  static constexpr auto kSwapped = cast_table<Kernels, true>(Pairs{});
  if (op.from == op.to && op.from != Dtype::boolean) return same_type_kernel<Kernels>(op.from, op.swap_bytes);
  const auto pair = static_cast<std::size_t>(op.from) * kBatchDtypes + static_cast<std::size_t>(op.to);
  return (op.swap_bytes ? kSwapped : kAsIs)[pair];
}

}  // namespace damacy::copy_detail

// Defines row_kernel_NAME. The attribute is on plain function templates: lambdas and local classes would not inherit
// it.
#define DAMACY_ROW_KERNELS(NAME, ATTRIBUTE)                                       \
  namespace damacy::copy_detail {                                                 \
  namespace {                                                                     \
  template <class Op>                                                             \
  ATTRIBUTE void NAME##_cast_rows(const Rows& rows) {                             \
    cast_rows<Op>(rows);                                                          \
  }                                                                               \
  template <class Scalar, std::size_t kScalars>                                   \
  ATTRIBUTE void NAME##_swap_rows(const Rows& rows) {                             \
    swap_rows<Scalar, kScalars>(rows);                                            \
  }                                                                               \
  struct NAME##_kernels {                                                         \
    template <Dtype kFrom, Dtype kTo, bool kSwap>                                 \
    static constexpr RowKernel cast() {                                           \
      if constexpr (kFrom == kTo && kFrom != Dtype::boolean)                      \
        return nullptr; /* same_type_kernel's */                                  \
      else                                                                        \
        return &NAME##_cast_rows<Cast<kFrom, kTo, kSwap && size_of(kFrom) != 1>>; \
    }                                                                             \
    template <class Scalar, std::size_t kScalars>                                 \
    static constexpr RowKernel swap = &NAME##_swap_rows<Scalar, kScalars>;        \
  };                                                                              \
  }                                                                               \
  RowKernel row_kernel_##NAME(const CopyOp& op) noexcept {                        \
    return pick_row_kernel<NAME##_kernels>(op);                                   \
  }                                                                               \
  }
