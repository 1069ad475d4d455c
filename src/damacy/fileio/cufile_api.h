// libcufile, loaded at run time into a small table of our own declarations. Knows its ABI and possible locations; not
// when to use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "damacy/fileio/file.h"

namespace damacy::cufile {

// As the library's interface lays them out; the driver's result and stream are named by what they are.
struct Status {
  int err;     // 0: success; from 5001: a code; 5011: see cu_err
  int cu_err;  // a CUresult
};
struct Descriptor {
  int type;  // 1: a file descriptor
  union {
    int fd;
    void* handle;
  } handle;
  const void* fs_ops;
};
using Handle = void*;

struct Calls {
  Status (*cuFileDriverOpen)() = nullptr;
  Status (*cuFileDriverClose)() = nullptr;
  Status (*cuFileHandleRegister)(Handle*, Descriptor*) = nullptr;
  void (*cuFileHandleDeregister)(Handle) = nullptr;
  Status (*cuFileBufRegister)(const void*, std::size_t, int) = nullptr;
  Status (*cuFileBufDeregister)(const void*) = nullptr;
  ssize_t (*cuFileRead)(Handle, void*, std::size_t, off_t, off_t) = nullptr;
  ssize_t (*cuFileWrite)(Handle, const void*, std::size_t, off_t, off_t) = nullptr;
  Status (*cuFileGetVersion)(int*) = nullptr;            // may be missing
  Status (*cuFileDriverGetProperties)(void*) = nullptr;  // may be missing
};

struct Tried {
  std::string library;
  std::string outcome;
};

struct Library {
  bool loaded = false;
  Calls calls;
  std::string name;
  int version = 0;  // 0: unknown
  std::vector<Tried> tried;
  std::string why;  // it is not loaded
};

// Opens the first of these names that loads and has what is needed.
Library open_library(const std::vector<std::string>& names);
// Candidates: DAMACY_LIBCUFILE, the dynamic loader's, those installed with Python packages, CUDA toolkits. `packages`:
// folders with Python packages.
std::vector<std::string> library_names(const std::vector<std::string>& packages);

// The process's own, opened at the first call. set_packages() says before where Python's packages are.
const Library& process_library();
void set_packages(std::vector<std::string> packages);

// Whether libcufile cannot be used: not loadable, WSL, no readable /run/udev. Checked once.
struct Preference {
  bool compat = true;
  std::string why;
};
const Preference& compat_preference();

// Opens cuFile's driver, once for the process; empty: it is open, else why not. There is a CUDA context.
const std::string& open_driver();
// Opens the driver, and asks it once. Empty: it moves bytes past host memory; else why not.
const std::string& why_not_direct();

// The words of a code, and an error for it.
[[nodiscard]] std::string name_of_code(int code);
[[nodiscard]] FileError library_error(std::string_view call, Status status, const std::string& path);
// What cuFileRead and cuFileWrite gave below 0, with errno as it was then.
[[nodiscard]] FileError transfer_error(bool reading, ssize_t result, int number, const std::string& path,
                                       std::uint64_t offset, std::uint64_t length, std::uint64_t done);

}  // namespace damacy::cufile
