// libnccl, loaded at run time into a small table of our own declarations. Knows its ABI and its names; not ranks'
// messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace damacy::halo {

using NcclComm = void*;

struct NcclCalls {
  using Id = std::array<std::byte, 128>;  // passed by value, as the structure of NCCL is

  int (*ncclGetUniqueId)(Id*) = nullptr;
  int (*ncclCommInitRank)(NcclComm*, int, Id, int) = nullptr;
  int (*ncclCommDestroy)(NcclComm) = nullptr;
  int (*ncclCommAbort)(NcclComm) = nullptr;
  int (*ncclCommGetAsyncError)(NcclComm, int*) = nullptr;
  int (*ncclGroupStart)() = nullptr;
  int (*ncclGroupEnd)() = nullptr;
  int (*ncclSend)(const void*, std::size_t, int, int, NcclComm, void*) = nullptr;
  int (*ncclRecv)(void*, std::size_t, int, int, NcclComm, void*) = nullptr;
  const char* (*ncclGetErrorString)(int) = nullptr;
  const char* (*ncclGetLastError)(NcclComm) = nullptr;  // missing before NCCL 2.13
};

inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclInProgress = 7;
inline constexpr int kNcclUint8 = 1;

class NcclLibrary {
 public:
  // The library of that name, opened once for the process and never closed. "": DAMACY_LIBNCCL if that is set, else
  // libnccl.so.2. Throws Error(inval, kNoNccl).
  static const NcclLibrary& open(const std::string& name);

  const NcclCalls& operator()() const noexcept { return calls_; }
  // Throws Error(io, kNcclFailed) with the call, NCCL's text and the rank.
  void check(int result, const char* call, std::int64_t rank, NcclComm comm = nullptr) const;
  std::string failure_text(int result, const char* call, std::int64_t rank, NcclComm comm) const;

 private:
  explicit NcclLibrary(const std::string& name);

  NcclCalls calls_;
};

}  // namespace damacy::halo
