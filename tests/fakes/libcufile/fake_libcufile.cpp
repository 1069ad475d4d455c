// A cuFile without a GPU: device memory is host memory, transfers are preads and pwrites. Counts its calls, and fails
// on request.
#include "fakes/libcufile/fake_libcufile.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#pragma GCC visibility push(default)

namespace {

struct Status {
  int err;
  int cu_err;
};
struct Descriptor {
  int type;
  union {
    int fd;
    void* handle;
  } handle;
  const void* fs_ops;
};

struct Fake {
  std::mutex mutex;
  std::map<std::string, std::uint64_t> calls;
  std::string name;
  std::uint64_t left = 0;
  int code = 0;
  bool for_ever = false;
  bool is_open = false;
  std::int64_t handles = 0, buffers = 0;
  std::uint64_t most_bytes = ~std::uint64_t{0};
};

Fake& fake() {
  static Fake* one = new Fake;
  return *one;
}

// Returns 0, or the code with which the call must fail.
int counted(const char* name) {
  Fake& f = fake();
  const std::lock_guard lock(f.mutex);
  ++f.calls[name];
  if (f.left == 0 || f.name != name) return 0;
  if (f.left > 1) {
    --f.left;
    return 0;
  }
  if (!f.for_ever) f.left = 0;
  return f.code;
}

Status status_of(int code) {
  return {code, code == 5011 ? 700 : 0};
}

}  // namespace

extern "C" {

void fake_cufile_reset() {
  Fake& f = fake();
  const std::lock_guard lock(f.mutex);
  f.calls.clear();
  f.left = 0;
  f.most_bytes = ~std::uint64_t{0};
}
void fake_cufile_fail(const char* name, std::uint64_t nth, int code, int for_ever) {
  Fake& f = fake();
  const std::lock_guard lock(f.mutex);
  f.name = name;
  f.left = nth;
  f.code = code;
  f.for_ever = for_ever != 0;
}
std::uint64_t fake_cufile_calls(const char* name) {
  Fake& f = fake();
  const std::lock_guard lock(f.mutex);
  return f.calls[name];
}
std::int64_t fake_cufile_handles() {
  return fake().handles;
}
void fake_cufile_most_bytes(std::uint64_t bytes) {
  fake().most_bytes = bytes;
}

Status cuFileDriverOpen() {
  const int code = counted("cuFileDriverOpen");
  fake().is_open = code == 0;
  return status_of(code);
}
Status cuFileDriverGetProperties(unsigned* nvfs_major) {
  const int code = counted("cuFileDriverGetProperties");
  if (code != 0 || !fake().is_open) return status_of(code != 0 ? code : 5001);
  *nvfs_major = 2;
  return {0, 0};
}
Status cuFileDriverClose() {
  return status_of(counted("cuFileDriverClose"));
}
Status cuFileHandleRegister(void** handle, Descriptor* descriptor) {
  if (const int code = counted("cuFileHandleRegister"); code != 0) return status_of(code);
  if (!fake().is_open) return {5001, 0};
  if (descriptor->type != 1) return {5018, 0};
  // Accepts any alignment, like the real library. Uses a buffered descriptor of its own.
  const std::string name = "/proc/self/fd/" + std::to_string(descriptor->handle.fd);
  const int access = ::fcntl(descriptor->handle.fd, F_GETFL) & O_ACCMODE;
  *handle = new int(::open(name.c_str(), access | O_CLOEXEC));
  const std::lock_guard lock(fake().mutex);
  ++fake().handles;
  return {0, 0};
}
void cuFileHandleDeregister(void* handle) {
  counted("cuFileHandleDeregister");
  ::close(*static_cast<int*>(handle));
  delete static_cast<int*>(handle);
  const std::lock_guard lock(fake().mutex);
  --fake().handles;
}
Status cuFileBufRegister(const void*, std::size_t, int) {
  return status_of(counted("cuFileBufRegister"));
}
Status cuFileBufDeregister(const void*) {
  return status_of(counted("cuFileBufDeregister"));
}
ssize_t cuFileRead(void* handle, void* base, std::size_t size, off_t file_offset, off_t base_offset) {
  if (const int code = counted("cuFileRead"); code != 0) {
    if (code >= 5001) return -code;
    errno = code;
    return -1;
  }
  return ::pread(*static_cast<int*>(handle), static_cast<char*>(base) + base_offset,
                 std::min<std::size_t>(size, fake().most_bytes), file_offset);
}
ssize_t cuFileWrite(void* handle, const void* base, std::size_t size, off_t file_offset, off_t base_offset) {
  if (const int code = counted("cuFileWrite"); code != 0) {
    if (code >= 5001) return -code;
    errno = code;
    return -1;
  }
  return ::pwrite(*static_cast<int*>(handle), static_cast<const char*>(base) + base_offset,
                  std::min<std::size_t>(size, fake().most_bytes), file_offset);
}
Status cuFileGetVersion(int* version) {
  *version = 1150;
  return {0, 0};
}

}  // extern "C"

#pragma GCC visibility pop
