// What of this machine the process may use: cores, memory, addresses, open files, and with how many ranks it shares
// them. Reads Linux's files and launchers' variables; starts no thread. Does not know what a pipeline needs, nor GPUs:
// their fields are filled in by device/this_machine.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "damacy/core/address_space.h"
#include "damacy/core/control_groups.h"

namespace damacy {

struct Machine {
  std::size_t cores = 1;            // of this process: its affinity mask, at most the quotas of its control groups
  std::size_t ranks = 1;            // processes of this run on this host
  std::size_t rank_cores = 1;       // of them, this rank's
  std::optional<std::size_t> rank;  // among these processes. Empty: not known, or its mask is its own already
  std::string why_cores;            // what limits rank_cores, in words

  std::uint64_t physical_bytes = 0;         // memory that the host has
  std::optional<std::uint64_t> host_bytes;  // free for this rank. Empty: the system does not say
  std::string why_memory;                   // what limits host_bytes, in words
  std::optional<AddressSpace> addresses;    // empty: no limit
  std::uint64_t open_files = 0;             // that the process may have

  bool gpu = false;                        // batches live on a GPU
  std::optional<std::uint64_t> gpu_bytes;  // free on it. Empty: not known
};

// Where the facts come from; other sources are for tests.
struct MachineSources {
  ReadText read = files_below("");
  std::function<std::string(const char* name)> variable;  // of the environment; empty: that of this process
  std::optional<std::size_t> mask_cores;                  // empty: the affinity mask of this thread
  std::function<std::optional<AddressSpace>()> addresses = address_space;
};

// As it is now.
[[nodiscard]] Machine read_machine(const MachineSources& sources = {});

}  // namespace damacy
