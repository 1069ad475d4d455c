// One source for host and device: functions marked so compile for both. Only this file knows which compiler reads it.
#pragma once

#ifdef __CUDACC__
#define DAMACY_HOST_DEVICE __host__ __device__
#else
#define DAMACY_HOST_DEVICE
#endif
