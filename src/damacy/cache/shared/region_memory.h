// Memory of a fixed size that processes of one user share by a name: the first one makes it, and the system frees it
// with the last one, however that ends. Knows names, sizes and processes; not what is in the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "damacy/cache/shared/process_id.h"

namespace damacy {

struct RegionRequest {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t layout = 0;                 // a version, which all processes that share the memory agree on
  std::optional<std::uint64_t> free_bytes;  // of the host: more is not made. Empty: not known
  std::string directory = "/dev/shm";       // of the file by which processes find each other
};

class RegionMemory {
 public:
  static constexpr std::size_t kProcesses = 64;  // that share it at most

  // Joins the memory of that name, or makes it: all zero, for which `prepare` is called before others can join. Throws
  // Error(inval) if it has another layout or size, is used by kProcesses, or its file is another user's; Error(oom);
  // Error(io).
  RegionMemory(const RegionRequest& request, const std::function<void(std::span<std::byte>)>& prepare);
  ~RegionMemory();
  RegionMemory(const RegionMemory&) = delete;
  RegionMemory& operator=(const RegionMemory&) = delete;

  std::span<std::byte> bytes() const noexcept { return bytes_; }
  bool is_new() const noexcept { return is_new_; }  // made by this process

 private:
  class Users;
  std::span<std::byte> map(std::uint64_t bytes) const;
  bool join(Users& users, const RegionRequest& request);
  void make(Users& users, const RegionRequest& request, const std::function<void(std::span<std::byte>)>& prepare);

  const std::string path_;
  const ProcessId self_ = this_process();
  int memory_ = -1;
  std::span<std::byte> bytes_;
  bool is_new_ = false;
};

// What a name may be: 1 to 64 letters, digits, '.', '-' and '_', and not only dots.
[[nodiscard]] bool is_region_name(const std::string& name) noexcept;

}  // namespace damacy
