// Owners of handles and lists of headers of libcurl. Knows no requests.
#pragma once

#include <cstdint>
#include <string>

#include "damacy/core/fork.h"

namespace damacy::http {

// A handle, of those that no transfer uses or a new one. Connections belong to the network threads.
struct Handle {
  Handle();
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const std::uint64_t epoch = fork_epoch();  // a child must not touch its parent's connections, not even to free them
  void* const value;
};

struct HeaderList {
  HeaderList() = default;
  ~HeaderList();
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  void add(const std::string& line);

  void* value = nullptr;
};

}  // namespace damacy::http
