// The row kernels for every processor of the architecture.
#include "damacy/copy/detail/finish_loops.h"
#include "damacy/copy/detail/row_loops.h"

DAMACY_ROW_KERNELS(plain, )
DAMACY_FINISH_KERNELS(plain, )
