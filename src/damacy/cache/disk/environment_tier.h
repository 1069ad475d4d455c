// The disk tier of reads that have no Config: DAMACY_DISK_CACHE is its directory and DAMACY_DISK_CACHE_BYTES its size.
// One a process, made when a remote store is first read. Knows the variables; not what is read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "damacy/cache/disk/disk_tier.h"
#include "damacy/store/store.h"

namespace damacy {

// Null: the variables are not set. Throws Error(inval, "disk-cache") naming the variable, and as DiskTier. It is read
// once; what was refused is tried again. The exit of the process writes what waits, for a second at most.
[[nodiscard]] std::shared_ptr<DiskTier> environment_disk_tier();

// The store, read through that tier if it is remote.
[[nodiscard]] std::shared_ptr<Store> with_environment_tier(std::shared_ptr<Store> store);

// A number of bytes, or one with a unit: "500GiB", "512 MiB", "1.5 TB". Empty: it is not that, or not below 2^63.
[[nodiscard]] std::optional<std::uint64_t> bytes_of_text(std::string_view text);

}  // namespace damacy
