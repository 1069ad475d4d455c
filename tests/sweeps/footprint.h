// What this process has of the system: what a run leaves behind shows here.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <thread>

namespace damacy::testing {

struct Footprint {
  std::size_t descriptors = 0, threads = 0;
};

inline Footprint footprint() {
  static const bool warm = [] {  // a sanitizer has a thread of its own from the first one on
    std::thread([] {}).join();
    return true;
  }();
  static_cast<void>(warm);
  const auto count = [](const char* folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  };
  return {count("/proc/self/fd"), count("/proc/self/task")};
}

}  // namespace damacy::testing
