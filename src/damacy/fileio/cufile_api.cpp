// Looking for the library, and its codes in words.
#include "damacy/fileio/cufile_api.h"

#include <cstdlib>
#include <utility>

#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"

namespace damacy::cufile {
namespace {

constexpr int kFirstCode = 5001;
constexpr int kCudaCode = 5011;
constexpr const char* kCodes[] = {
    // from 5001 on
    "DRIVER_NOT_INITIALIZED",    "DRIVER_INVALID_PROPS",     "DRIVER_UNSUPPORTED_LIMIT", "DRIVER_VERSION_MISMATCH",
    "DRIVER_VERSION_READ_ERROR", "DRIVER_CLOSING",           "PLATFORM_NOT_SUPPORTED",   "IO_NOT_SUPPORTED",
    "DEVICE_NOT_SUPPORTED",      "NVFS_DRIVER_ERROR",        "CUDA_DRIVER_ERROR",        "CUDA_POINTER_INVALID",
    "CUDA_MEMORY_TYPE_INVALID",  "CUDA_POINTER_RANGE_ERROR", "CUDA_CONTEXT_MISMATCH",    "INVALID_MAPPING_SIZE",
    "INVALID_MAPPING_RANGE",     "INVALID_FILE_TYPE",        "INVALID_FILE_OPEN_FLAG",   "DIO_NOT_SET",
};

// Opened lazily with RTLD_LOCAL and never closed, because its threads may run until the process ends.
void* open_one(const std::string& name, std::string& why) {
  constexpr int kHow = RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE;
  if (void* library = ::dlopen(name.c_str(), kHow)) return library;
  why = ::dlerror();
  if (why.find("shm_open") == std::string::npos) return nullptr;
  ::dlopen("librt.so.1", RTLD_NOW | RTLD_GLOBAL);
  void* library = ::dlopen(name.c_str(), kHow);
  if (library == nullptr) why = ::dlerror();
  return library;
}

template <class Function>
bool find(void* library, const char* name, Function& into) {
  into = reinterpret_cast<Function>(::dlsym(library, name));
  return into != nullptr;
}

// Empty: all that is needed is there.
std::string fill(void* library, Calls& calls) {
#define DAMACY_NEEDED(call) \
  if (!find(library, #call, calls.call)) return formatted("it lacks {}", #call)
  DAMACY_NEEDED(cuFileDriverOpen);
  DAMACY_NEEDED(cuFileDriverClose);
  DAMACY_NEEDED(cuFileHandleRegister);
  DAMACY_NEEDED(cuFileHandleDeregister);
  DAMACY_NEEDED(cuFileBufRegister);
  DAMACY_NEEDED(cuFileBufDeregister);
  DAMACY_NEEDED(cuFileRead);
  DAMACY_NEEDED(cuFileWrite);
#undef DAMACY_NEEDED
  find(library, "cuFileGetVersion", calls.cuFileGetVersion);
  find(library, "cuFileDriverGetProperties", calls.cuFileDriverGetProperties);
  return {};
}

Mutex packages_mutex;
std::vector<std::string>& packages() DAMACY_REQUIRES(packages_mutex) {
  static auto* one = new std::vector<std::string>;
  return *one;
}

Preference look() {
  ::utsname system{};
  if (::uname(&system) == 0 && std::string_view(system.release).find("icrosoft") != std::string_view::npos)
    return {true, "this is WSL"};
  struct ::stat found{};
  if (::stat("/run/udev", &found) != 0 || !S_ISDIR(found.st_mode) || ::access("/run/udev", R_OK) != 0)
    return {true, "/run/udev is not a readable directory"};
  const Library& library = process_library();
  if (!library.loaded) return {true, library.why};
  return {false, {}};
}

}  // namespace

std::vector<std::string> library_names(const std::vector<std::string>& roots) {
  std::vector<std::string> names;
  const char* own = ::getauxval(AT_SECURE) == 0 ? std::getenv("DAMACY_LIBCUFILE") : nullptr;
  if (own != nullptr && *own != '\0') return {own};
  names.emplace_back("libcufile.so.0");
  for (const std::string& root : roots)
    for (const char* folder : {"nvidia/cu13/lib", "nvidia/cufile/lib"})
      names.push_back(formatted("{}/{}/libcufile.so.0", root, folder));
  for (const char* root : {"/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib", "/opt/cuda/lib64"})
    names.push_back(formatted("{}/libcufile.so.0", root));
  return names;
}

Library open_library(const std::vector<std::string>& names) {
  Library out;
  for (const std::string& name : names) {
    std::string why;
    void* const opened = open_one(name, why);
    if (opened != nullptr) why = fill(opened, out.calls);
    out.tried.push_back({name, opened != nullptr && why.empty() ? "loaded" : why});
    if (opened == nullptr || !why.empty()) {
      if (out.why.empty()) out.why = formatted("libcufile cannot be loaded: {}", why);
      continue;
    }
    out.loaded = true;
    out.name = name;
    out.why.clear();
    if (out.calls.cuFileGetVersion != nullptr) out.calls.cuFileGetVersion(&out.version);
    return out;
  }
  return out;
}

void set_packages(std::vector<std::string> roots) {
  const Lock lock(packages_mutex);
  packages() = std::move(roots);
}

const Library& process_library() {
  static const auto* one = [] {
    const Lock lock(packages_mutex);
    return new Library(open_library(library_names(packages())));
  }();
  return *one;
}

const Preference& compat_preference() {
  static const auto* one = new Preference(look());
  return *one;
}

const std::string& open_driver() {
  static const auto* why = [] {
    const Library& library = process_library();
    if (!library.loaded) return new std::string(library.why);
    const Status status = library.calls.cuFileDriverOpen();
    if (status.err == 0) return new std::string;
    return new std::string(formatted("cuFileDriverOpen: {}", name_of_code(status.err)));
  }();
  return *why;
}

const std::string& why_not_direct() {
  static const auto* why = [] {
    if (const std::string& closed = open_driver(); !closed.empty()) return new std::string(closed);
    struct Properties {
      unsigned nvfs_major = 0;
      unsigned rest[64] = {};
    } properties;
    const auto ask = process_library().calls.cuFileDriverGetProperties;
    // Without its kernel driver cuFile copies through host memory, which our own path does faster.
    const bool is_direct = ask != nullptr && ask(&properties).err == 0 && properties.nvfs_major != 0;
    return new std::string(is_direct ? "" : "cuFile would bounce through host memory");
  }();
  return *why;
}

std::string name_of_code(int code) {
  const int at = code - kFirstCode;
  if (at >= 0 && at < static_cast<int>(std::size(kCodes))) return formatted("CU_FILE_{} ({})", kCodes[at], code);
  return formatted("code {}", code);
}

FileError library_error(std::string_view call, Status status, const std::string& path) {
  FileError error = FileError::of_library(
      formatted("cuFile error: {}: {}{}: {}", call, name_of_code(status.err),
                status.err == kCudaCode ? formatted(", CUresult {}", status.cu_err) : std::string(), path));
  error.path = path;
  error.cufile_code = status.err;
  if (status.err == kCudaCode) error.cuda_code = status.cu_err;
  return error;
}

FileError transfer_error(bool reading, ssize_t result, int number, const std::string& path, std::uint64_t offset,
                         std::uint64_t length, std::uint64_t done) {
  const int code = result == -1 ? number : static_cast<int>(-result);
  FileError error = result == -1 && code < kFirstCode - 1
                        ? FileError::failed(reading ? "pread" : "pwrite", code, path, offset, length, done, "cufile")
                        : library_error(reading ? "cuFileRead" : "cuFileWrite", Status{code, 0}, path);
  error.offset = offset;
  error.length = length;
  error.transferred = done;
  error.backend = "cufile";
  return error;
}

}  // namespace damacy::cufile
