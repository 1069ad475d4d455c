// Which GPUs and drivers the kernels of a build run on. Pure: knows the rules of cubins and PTX, asks no driver.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace damacy::cuda {

// A target of the compiler: 86 is compute capability 8.6.
struct Target {
  enum class Reach {
    later,   // of the same major version, from this one on
    family,  // 'f': the same
    only,    // 'a': this one alone
  };
  int capability = 0;
  Reach reach = Reach::later;
};

struct BuiltKernels {
  std::vector<Target> cubins;  // machine code
  std::vector<Target> ptx;     // that the driver compiles for later GPUs
  int toolkit = 0;             // of CUDA that made them, such as 12040
  int oldest_driver = 0;       // the oldest CUDA that a driver must be for

  // Parses CMake's CMAKE_CUDA_ARCHITECTURES, such as "80-real;90" (or with commas). An entry without a suffix is both
  // machine code and PTX. Entries that are not numbers are ignored.
  static BuiltKernels of(std::string_view architectures, int toolkit);
};

// What this library was built with.
const BuiltKernels& built_kernels();

// Empty if the kernels run on a GPU of that compute capability with a driver for that CUDA version. Otherwise a text
// that says what the build has kernels for and what would run there.
std::string why_no_kernels(const BuiltKernels& kernels, int capability, int driver);

// The CUDA version of the toolkit, the oldest driver and the GPUs that there are kernels for, in one line.
std::string build_text(const BuiltKernels& kernels);

// "12.4" of 12040.
std::string version_text(int version);

}  // namespace damacy::cuda
