// Kernels for rows whose elements are contiguous on both sides. One kernel is chosen for a whole block. It knows the
// operation and the processor's widest vectors, not the block.
#pragma once

#include <cstddef>

#include "damacy/copy/block.h"

namespace damacy::copy_detail {

struct Rows {
  std::byte* dst;
  const std::byte* src;
  std::size_t count;  // elements in a row
  std::size_t rows;
  std::ptrdiff_t dst_pitch;  // bytes from row to row
  std::ptrdiff_t src_pitch;
  const Finish* finish = nullptr;  // what finish_kernel's do
};

using RowKernel = void (*)(const Rows&);

enum class Isa { plain, avx2, avx512 };

[[nodiscard]] bool is_supported(Isa isa) noexcept;
[[nodiscard]] Isa best_isa() noexcept;

// One of the pairs of has_conversion; the processor supports `isa`.
[[nodiscard]] RowKernel row_kernel(const CopyOp& op, Isa isa) noexcept;

// Converts and finishes in one pass, as op.finish says; null for a finish that it does not have. Reads Rows::finish.
[[nodiscard]] RowKernel finish_kernel(const CopyOp& op, Isa isa) noexcept;

// What they pick from.
RowKernel row_kernel_plain(const CopyOp& op) noexcept;
RowKernel row_kernel_avx2(const CopyOp& op) noexcept;
RowKernel row_kernel_avx512(const CopyOp& op) noexcept;
RowKernel finish_kernel_plain(const CopyOp& op) noexcept;
RowKernel finish_kernel_avx2(const CopyOp& op) noexcept;
RowKernel finish_kernel_avx512(const CopyOp& op) noexcept;

}  // namespace damacy::copy_detail
