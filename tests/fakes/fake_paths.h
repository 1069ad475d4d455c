// Where the build put the fake libraries. The paths are in one generated file, cmake/tests.cmake, and not in
// definitions of the compiler: ccache then finds the objects of the tests in every clone.
#pragma once

namespace damacy {

extern const char* const kFakeCuda;     // in builds with CUDA, as the next one
extern const char* const kFakeOldCuda;  // a driver without calls that came later
extern const char* const kFakeCufile;
extern const char* const kFakeNccl;

}  // namespace damacy
