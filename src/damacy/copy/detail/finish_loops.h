// The loops that convert, finish and store rows in one pass, as templates that each instruction set compiles anew: for
// common finishes of batches in f32. All others are finished in scratch memory, step by step (finish_copy.cpp).
#pragma once

#include <cstring>
#include <limits>

#include "damacy/copy/detail/row_kernels.h"
#include "damacy/copy/finish.h"

namespace damacy::copy_detail {

// What a loop does: `kSteps` times a scale and an offset in `Float`; two missing values at most.
template <Dtype kFrom, class Float, int kSteps, bool kMissing, bool kClip>
[[gnu::always_inline]] inline void finish_rows(const Rows& rows) {
  using Source = UnsignedOf<size_of(kFrom)>;
  const Finish& finish = *rows.finish;
  const bool packed_first = finish.is_packed;
  const auto first_scale = static_cast<Float>(packed_first ? finish.unpack_scale : finish.scale);
  const auto first_offset = static_cast<Float>(packed_first ? finish.unpack_offset : finish.offset);
  const auto scale = static_cast<Float>(finish.scale);
  const auto offset = static_cast<Float>(finish.offset);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float low = finish.has_low ? bits_as<float>(static_cast<std::uint32_t>(finish.low)) : -kInfinity;
  const float high = finish.has_high ? bits_as<float>(static_cast<std::uint32_t>(finish.high)) : kInfinity;
  const auto missing = static_cast<Source>(finish.missing[0]);
  const auto also_missing = static_cast<Source>(finish.missing[finish.missing_count > 1 ? 1 : 0]);
  const auto replacement = static_cast<std::uint32_t>(finish.replacement);

  std::byte* __restrict dst = rows.dst;
  const std::byte* __restrict src = rows.src;
  const std::size_t count = rows.count;  // a copy that no store can change
  for (std::size_t row = 0; row < rows.rows; ++row) {
    for (std::size_t i = 0; i < count; ++i) {
      Source bits;
      std::memcpy(&bits, src + i * sizeof(Source), sizeof bits);
      auto x = static_cast<Float>(bits_as<Element<kFrom>>(bits));
      x = finish_detail::scaled(x, first_scale, first_offset);
      if constexpr (kSteps == 2) x = finish_detail::scaled(x, scale, offset);
      auto y = finish_detail::plain_nan(static_cast<float>(x));
      if constexpr (kClip) {
        y = y <= low ? low : y;
        y = y >= high ? high : y;
      }
      auto result = bits_as<std::uint32_t>(y);
      if constexpr (kMissing) result = ((bits == missing) | (bits == also_missing)) ? replacement : result;
      std::memcpy(dst + i * sizeof result, &result, sizeof result);
    }
    dst += rows.dst_pitch;
    src += rows.src_pitch;
  }
}

template <Dtype... kTypes>
struct TypeList {};
using NarrowTypes = TypeList<Dtype::u8, Dtype::i8, Dtype::u16, Dtype::i16, Dtype::f32>;
using WideTypes = TypeList<Dtype::u8, Dtype::i8, Dtype::u16, Dtype::i16, Dtype::i32, Dtype::f32>;

// Kernels: a template of static functions finish<From, Float, Steps, Missing, Clip>, made by DAMACY_FINISH_KERNELS.
template <class Kernels, Dtype kFrom>
RowKernel pick_wide_kernel(const Finish& finish) noexcept {
  const bool two = finish.is_packed && finish.is_scaled;
  if (finish.has_missing())
    return two ? Kernels::template finish<kFrom, double, 2, true, true>
               : Kernels::template finish<kFrom, double, 1, true, true>;
  return two ? Kernels::template finish<kFrom, double, 2, false, true>
             : Kernels::template finish<kFrom, double, 1, false, true>;
}

template <class Kernels, Dtype kFrom>
RowKernel pick_narrow_kernel(const Finish& finish) noexcept {
  return finish.has_low || finish.has_high ? Kernels::template finish<kFrom, float, 1, false, true>
                                           : Kernels::template finish<kFrom, float, 1, false, false>;
}

// None: the finish needs scratch memory.
template <class Kernels>
RowKernel pick_finish_kernel(const CopyOp& op) noexcept {
  const Finish& finish = *op.finish;
  const bool swaps = op.swap_bytes && size_of(op.from) > 1;
  if (op.to != Dtype::f32 || swaps || finish.is_constant || !finish.computes()) return nullptr;
  if (finish.is_missing_nan || finish.missing_count > 2) return nullptr;
  RowKernel found = nullptr;
  if (finish.is_wide) {
    [&]<Dtype... kTypes>(TypeList<kTypes...>) {
      ((op.from == kTypes ? void(found = pick_wide_kernel<Kernels, kTypes>(finish)) : void()), ...);
    }(WideTypes{});
  } else if (!finish.is_packed && finish.missing_count == 0) {
    [&]<Dtype... kTypes>(TypeList<kTypes...>) {
      ((op.from == kTypes ? void(found = pick_narrow_kernel<Kernels, kTypes>(finish)) : void()), ...);
    }(NarrowTypes{});
  }
  return found;
}

}  // namespace damacy::copy_detail

// Defines finish_kernel_NAME. The attribute is on a plain function template: lambdas would not inherit it.
#define DAMACY_FINISH_KERNELS(NAME, ATTRIBUTE)                                                      \
  namespace damacy::copy_detail {                                                                   \
  namespace {                                                                                       \
  template <Dtype kFrom, class Float, int kSteps, bool kMissing, bool kClip>                        \
  ATTRIBUTE void NAME##_finish_rows(const Rows& rows) {                                             \
    finish_rows<kFrom, Float, kSteps, kMissing, kClip>(rows);                                       \
  }                                                                                                 \
  struct NAME##_finish_kernels {                                                                    \
    template <Dtype kFrom, class Float, int kSteps, bool kMissing, bool kClip>                      \
    static constexpr RowKernel finish = &NAME##_finish_rows<kFrom, Float, kSteps, kMissing, kClip>; \
  };                                                                                                \
  }                                                                                                 \
  RowKernel finish_kernel_##NAME(const CopyOp& op) noexcept {                                       \
    return pick_finish_kernel<NAME##_finish_kernels>(op);                                           \
  }                                                                                                 \
  }
