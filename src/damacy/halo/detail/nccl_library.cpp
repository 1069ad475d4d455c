// Each function is looked up once.
#include "damacy/halo/detail/nccl_library.h"

#include <cstdlib>
#include <map>
#include <memory>

#include <dlfcn.h>

#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {
namespace {

std::string name_or_default(const std::string& name) {
  if (!name.empty()) return name;
  const char* const named = std::getenv("DAMACY_LIBNCCL");
  return named != nullptr && *named != '\0' ? named : "libnccl.so.2";
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

template <class Function>
void take(void* library, const char* name, Function& function) {
  find(library, name, function);
  if (function == nullptr)
    throw Error(Status::inval, formatted("the NCCL that was loaded has no {}: install NCCL 2.7 or newer", name),
                kNoNccl);
}

}  // namespace

NcclLibrary::NcclLibrary(const std::string& name) {
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    throw Error(Status::inval,
                formatted("NCCL cannot be loaded: {}; install it (Python: pip install nvidia-nccl-cu12 or "
                          "nvidia-nccl-cu13), or name its file in DAMACY_LIBNCCL",
                          why == nullptr ? name : why),
                kNoNccl);
  }
  take(library, "ncclGetUniqueId", calls_.ncclGetUniqueId);
  take(library, "ncclCommInitRank", calls_.ncclCommInitRank);
  take(library, "ncclCommDestroy", calls_.ncclCommDestroy);
  take(library, "ncclCommAbort", calls_.ncclCommAbort);
  take(library, "ncclCommGetAsyncError", calls_.ncclCommGetAsyncError);
  take(library, "ncclGroupStart", calls_.ncclGroupStart);
  take(library, "ncclGroupEnd", calls_.ncclGroupEnd);
  take(library, "ncclSend", calls_.ncclSend);
  take(library, "ncclRecv", calls_.ncclRecv);
  take(library, "ncclGetErrorString", calls_.ncclGetErrorString);
  find(library, "ncclGetLastError", calls_.ncclGetLastError);
}

const NcclLibrary& NcclLibrary::open(const std::string& name) {
  static auto& mutex = *std::make_unique<Mutex>().release();
  static auto& opened = *std::make_unique<std::map<std::string, std::unique_ptr<const NcclLibrary>>>().release();
  const std::string own = name_or_default(name);
  const Lock lock(mutex);
  auto& library = opened[own];
  if (library == nullptr) library.reset(new NcclLibrary(own));
  return *library;
}

std::string NcclLibrary::failure_text(int result, const char* call, std::int64_t rank, NcclComm comm) const {
  const char* const text = calls_.ncclGetErrorString(result);
  const char* const last = calls_.ncclGetLastError == nullptr ? nullptr : calls_.ncclGetLastError(comm);
  const bool has_last = last != nullptr && *last != '\0';
  return formatted("rank {}: {} failed: {}{}{}", rank, call, text == nullptr ? "unknown error" : text,
                   has_last ? "; " : "", has_last ? last : "");
}

void NcclLibrary::check(int result, const char* call, std::int64_t rank, NcclComm comm) const {
  if (result != kNcclSuccess) throw Error(Status::io, failure_text(result, call, rank, comm), kNcclFailed);
}

}  // namespace damacy::halo
