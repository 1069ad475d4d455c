// Scale and offset of rows, for each instruction set. Two operations, each rounded: with AVX-512 the compiler could
// fuse them, and the build forbids it.
#include "damacy/copy/detail/finish_copy.h"

namespace damacy::copy_detail {
namespace {

template <class Float>
[[gnu::always_inline]] inline void scale_all(const Finish& finish, void* elements, std::size_t count) {
  const Finish by = finish;  // a copy that no store can change
  auto* const at = static_cast<Float*>(elements);
  for (std::size_t i = 0; i < count; ++i) at[i] = scaled(by, at[i]);
}

template <class Float>
void scale_plain(const Finish& finish, void* elements, std::size_t count) {
  scale_all<Float>(finish, elements, count);
}
#ifdef __x86_64__
template <class Float>
[[gnu::target("avx2")]] void scale_avx2(const Finish& finish, void* elements, std::size_t count) {
  scale_all<Float>(finish, elements, count);
}
template <class Float>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void scale_avx512(const Finish& finish, void* elements,
                                                                        std::size_t count) {
  scale_all<Float>(finish, elements, count);
}
#endif

}  // namespace

ScaleKernel scale_kernel(bool is_wide, Isa isa) noexcept {
#ifdef __x86_64__
  if (isa == Isa::avx512) return is_wide ? scale_avx512<double> : scale_avx512<float>;
  if (isa == Isa::avx2) return is_wide ? scale_avx2<double> : scale_avx2<float>;
#endif
  static_cast<void>(isa);
  return is_wide ? scale_plain<double> : scale_plain<float>;
}

}  // namespace damacy::copy_detail
