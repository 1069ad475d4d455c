// Functions by which tests control the fake cuFile: faults and counts.
#pragma once

#include <cstdint>

extern "C" {

void fake_cufile_reset();
// The `nth` call of that name from now on fails with `code`; with for_ever, so do all later ones. A code below 5001 is
// an errno.
void fake_cufile_fail(const char* name, std::uint64_t nth, int code, int for_ever);
std::uint64_t fake_cufile_calls(const char* name);
std::int64_t fake_cufile_handles();                // registered now
void fake_cufile_most_bytes(std::uint64_t bytes);  // the most bytes of one transfer
}
