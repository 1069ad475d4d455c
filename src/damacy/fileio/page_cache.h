// Queries and drops the page cache of a file. Knows pages; not the purpose.
#pragma once

#include <cstdint>

namespace damacy {

struct CachedPages {
  std::uint64_t resident = 0;
  std::uint64_t total = 0;
};

// Of `length` bytes from `offset`; 0: to the end of the file. Throws FileError.
CachedPages cached_pages(int fd, std::uint64_t offset, std::uint64_t length);
// Clean pages only can be forgotten: with `sync_first` all are made so.
void drop_cached_pages(int fd, std::uint64_t offset, std::uint64_t length, bool sync_first);

}  // namespace damacy
