// How a test steers the fake NCCL: failing calls, calls that wait, and counts.
#pragma once

#include <cstdint>

extern "C" {

// The `nth` call of that name from now on returns `code` and does nothing. name "": no call fails.
void fake_nccl_fail(const char* name, std::uint64_t nth, int code);
// What ncclCommGetAsyncError reports from now on.
void fake_nccl_async_error(int code);
std::uint64_t fake_nccl_calls(const char* name);
std::int64_t fake_nccl_communicators();  // alive
// Calls that wait for a rank that has not called yet: they take no notice of an abort.
std::int64_t fake_nccl_waiting();
void fake_nccl_end_waits();  // lets them fail
}
