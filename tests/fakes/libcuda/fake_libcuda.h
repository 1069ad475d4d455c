// How a test steers the fake driver: faults, counts, and what the machine is said to have.
#pragma once

#include <cstdint>

#include <cuda.h>

extern "C" {

// Everything as at the start. Contexts, streams, events and memory made before are void.
void fake_cuda_reset();

// The `nth` counted call of that name from now on (any name: "") returns `code` and does nothing. With for_ever: so do
// all calls after it too.
void fake_cuda_fail(const char* name, std::uint64_t nth, int code, int for_ever);

// The name of the call that failed last, "" when none did.
const char* fake_cuda_struck();

// Calls of that name since the reset ("": all) that were counted. Names of errors, pops and capture modes are not
// counted: they work on a lost device too.
std::uint64_t fake_cuda_calls(const char* name);

// devices, version (of CUDA: 12040), capability (90), pools (0: no memory in the order of streams), init (what cuInit
// returns), capturing (1: some stream is being captured; 2: and the legacy stream says so), queries (an event is ready
// when it was asked so often), idle (1: no stream has work).
void fake_cuda_set(const char* what, std::int64_t value);

// Objects alive: device_memory, pinned_memory, streams, events, retains. broken_captures: calls that broke a capture.
std::int64_t fake_cuda_live(const char* what);

// A context that is no primary one.
CUcontext fake_cuda_make_context(int device);
// The context is gone, as after a reset of the device: all that use it fail.
void fake_cuda_destroy_context(CUcontext context);
std::int64_t fake_cuda_stack_depth();
}
