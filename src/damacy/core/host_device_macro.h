// One source for host and device. Functions that are marked with DAMACY_HOST_DEVICE compile for both. Outside cuda/
// folders only this file knows which compiler reads it.
#pragma once

#ifdef __CUDACC__
#define DAMACY_HOST_DEVICE __host__ __device__
#else
#define DAMACY_HOST_DEVICE
#endif

// consteval, where the compiler can. nvcc 12 fails on a consteval constructor: in CUDA sources such functions are
// constexpr and run when the program runs.
#ifdef __CUDACC__
#define DAMACY_CONSTEVAL constexpr
#else
#define DAMACY_CONSTEVAL consteval
#endif
