// How many threads a pipeline, or the single reads of a process, have for what. Values only.
#pragma once

#include <cstddef>

namespace damacy {

struct ThreadCounts {
  std::size_t readers = 0;          // on the cores they also decode and place
  std::size_t readers_at_once = 0;  // that read at a time, where they only read
  std::size_t decoding = 0;         // of the readers: cores that decode at a time
  std::size_t blocking = 0;         // make storage calls for other threads
  std::size_t waves = 0;            // feed a device
  std::size_t planners = 0;
  std::size_t all() const noexcept { return readers + blocking + waves + planners; }
};

}  // namespace damacy
