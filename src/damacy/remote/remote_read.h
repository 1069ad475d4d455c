// A read of ranges of one object, as parts of an operation: requests that are sent ahead of the threads that finish
// them, and staging blocks on the way to a device. Knows objects and memory; not uris.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "damacy/fileio/file_requests.h"
#include "damacy/fileio/operation.h"
#include "damacy/store/store.h"

namespace damacy {

// `size` bytes of a file from `offset` on, to `memory.size() == size` bytes of memory.
struct RemoteRange {
  std::uint64_t offset = 0;
  std::vector<FileMemory> memory;  // filled in turn
};

struct RemoteRead {
  static constexpr std::uint64_t kTaskBytes = 4 << 20;

  std::vector<RemoteRange> ranges;
  std::uint64_t task_size = 0;  // of a request; 0: kTaskBytes
  bool exact = false;           // a read beyond the end is an error
};

struct RemoteSource {
  std::string name;         // for errors
  std::uint64_t bytes = 0;  // reads end there
  std::function<std::shared_ptr<Object>()> object;
  std::shared_ptr<Object> opened;  // null: the first part opens it
};

[[nodiscard]] std::unique_ptr<IoJob> make_remote_read(RemoteSource source, RemoteRead read);

}  // namespace damacy
