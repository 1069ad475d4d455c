// The row kernels for x86 processors with AVX2.
#include "damacy/copy/detail/finish_loops.h"
#include "damacy/copy/detail/row_loops.h"

#ifdef __x86_64__
DAMACY_ROW_KERNELS(avx2, [[gnu::target("avx2")]])
DAMACY_FINISH_KERNELS(avx2, [[gnu::target("avx2")]])
#endif
