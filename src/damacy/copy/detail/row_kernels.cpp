// Which instruction set's kernels run.
#include "damacy/copy/detail/row_kernels.h"

namespace damacy::copy_detail {

#ifdef __x86_64__

bool is_supported(Isa isa) noexcept {
  switch (isa) {
    case Isa::avx2:
      return __builtin_cpu_supports("avx2");
    case Isa::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    default:
      return true;
  }
}

RowKernel row_kernel(const CopyOp& op, Isa isa) noexcept {
  switch (isa) {
    case Isa::avx2:
      return row_kernel_avx2(op);
    case Isa::avx512:
      return row_kernel_avx512(op);
    default:
      return row_kernel_plain(op);
  }
}

RowKernel finish_kernel(const CopyOp& op, Isa isa) noexcept {
  switch (isa) {
    case Isa::avx2:
      return finish_kernel_avx2(op);
    case Isa::avx512:
      return finish_kernel_avx512(op);
    default:
      return finish_kernel_plain(op);
  }
}

#else

bool is_supported(Isa isa) noexcept {
  return isa == Isa::plain;
}
RowKernel row_kernel(const CopyOp& op, Isa) noexcept {
  return row_kernel_plain(op);
}
RowKernel finish_kernel(const CopyOp& op, Isa) noexcept {
  return finish_kernel_plain(op);
}

#endif

Isa best_isa() noexcept {
  static const Isa best = is_supported(Isa::avx512) ? Isa::avx512 : is_supported(Isa::avx2) ? Isa::avx2 : Isa::plain;
  return best;
}

}  // namespace damacy::copy_detail
