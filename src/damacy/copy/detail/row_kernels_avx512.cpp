// The row kernels for x86 processors with AVX-512: twice the width, and conversions between 64-bit integers and floats.
#include "damacy/copy/detail/finish_loops.h"
#include "damacy/copy/detail/row_loops.h"

#ifdef __x86_64__
DAMACY_ROW_KERNELS(avx512, [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]])
DAMACY_FINISH_KERNELS(avx512, [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]])
#endif
